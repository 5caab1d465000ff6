"""Functions of predicted signals: their transpose, and states from the tangent space."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np

from ._arrays import Array
from ._errors import UnsupportedError


def coordinates(model: mujoco.MjModel, state: Array, tangents: Array) -> Array:
    """Tangents (p, rows, 1 + nq + nv + na) in MuJoCo's coordinates, of tangents (rows, n, p) in the
    tangent space; state: (rows, 1 + nq + nv + na)."""
    nq, nv = model.nq, model.nv
    x = np.moveaxis(tangents, 2, 0)
    out = np.zeros((len(x), *state.shape))
    out[:, :, 1 + nq :] = x[:, :, nv:]
    for j in range(model.njnt):
        q, v = 1 + model.jnt_qposadr[j], model.jnt_dofadr[j]
        kind = mujoco.mjtJoint(model.jnt_type[j])
        if kind == mujoco.mjtJoint.mjJNT_FREE:
            out[:, :, q : q + 3] = x[:, :, v : v + 3]
            q, v = q + 3, v + 3
        if kind in (mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_BALL):
            # q' = ½ q (0, ω)
            w, vector = state[:, q : q + 1], state[:, q + 1 : q + 4]
            omega = x[:, :, v : v + 3]
            out[:, :, q] = -0.5 * np.sum(vector * omega, axis=-1)
            out[:, :, q + 1 : q + 4] = 0.5 * (w * omega + np.cross(vector, omega))
        else:
            out[:, :, q] = x[:, :, v]
    return out


class SignalMap:
    """A function of signals that resamples each and multiplies it, r = Σ gain · y(time) + ..., as a
    linear map that has a transpose.

    Two probes per signal find gain and time of every number of r: one of a constant, one of a
    signal that is the time itself. A third, of random numbers, tells whether that is all.
    """

    def __init__(self, function: Callable[[Array, Array], Array], state: Array, sensors: Array):
        self._shapes = state.shape, sensors.shape
        self._times = times = state[:, 0]
        here = function(state, sensors)
        self._size = len(here)
        middle, half = 0.5 * (times[0] + times[-1]), max(0.5 * (times[-1] - times[0]), 1e-12)
        ramp = (times - middle) / half
        self._parts: list[tuple[int, int, Array, Array, Array, Array]] = []
        guess = here.copy()
        random = np.random.default_rng(0)
        moved = [state.copy(), sensors.copy()]
        roughly = state.copy()
        roughly[:, 1:] += random.standard_normal(state[:, 1:].shape)
        reads_states = not np.array_equal(function(roughly, sensors), here)
        for which, signals in enumerate((state, sensors)):
            if which == 0 and not reads_states:
                continue
            for column in range(1 if which == 0 else 0, signals.shape[1]):
                scale = max(1.0, float(np.abs(signals[:, column]).max()))

                def response(signal: Array, which: int = which, column: int = column) -> Array:
                    both = [state, sensors]
                    both[which] = both[which].copy()
                    both[which][:, column] += signal
                    return function(*both) - here

                gain = response(np.full(len(times), scale)) / scale
                rows = np.flatnonzero(gain)
                if not len(rows):
                    continue
                at = response(scale * ramp)[rows] / (scale * gain[rows])
                time = np.clip(middle + half * at, times[0], times[-1])
                begin = np.clip(np.searchsorted(times, time) - 1, 0, max(len(times) - 2, 0))
                end = np.minimum(begin + 1, len(times) - 1)
                span = np.where(end > begin, times[end] - times[begin], 1.0)
                share = (time - times[begin]) / span
                self._parts.append((which, column, rows, begin, gain[rows], share))
                # the function may read between rows: a signal that is as rough as the data
                noise = scale * random.standard_normal(len(times))
                moved[which][:, column] += noise
                guess[rows] += gain[rows] * ((1 - share) * noise[begin] + share * noise[end])
        truth = function(*moved)
        size = np.abs(truth - here).max(initial=0.0)
        if np.abs(truth - guess).max(initial=0.0) > 1e-6 * size:
            raise UnsupportedError(
                "modify_residual does more than to resample signals, to multiply them and to add "
                "to them; gradients without a Jacobian need no more than that. Use "
                "optimizer='mujoco' or 'scipy', which take the Jacobian"
            )

    @property
    def sensors(self) -> Array:
        """Numbers of sensordata that the function reads."""
        return np.array([column for which, column, *_ in self._parts if which == 1], dtype=int)

    def pushforward(self, state: Array, sensors: Array) -> Array:
        """Tangents (numbers of r, p), of tangents (p, rows, numbers) of states and sensors."""
        out = np.zeros((self._size, len(state)))
        last = len(self._times) - 1
        for which, column, rows, begin, gain, share in self._parts:
            signal = (state, sensors)[which][:, :, column].T
            end = np.minimum(begin + 1, last)
            between = (1 - share)[:, None] * signal[begin] + share[:, None] * signal[end]
            out[rows] += gain[:, None] * between
        return out

    def pullback(self, residual_bar: Array) -> tuple[Array, Array]:
        """Cotangents of states and sensors."""
        out = np.zeros(self._shapes[0]), np.zeros(self._shapes[1])
        last = len(self._times) - 1
        for which, column, rows, begin, gain, share in self._parts:
            bar = gain * residual_bar[rows]
            np.add.at(out[which][:, column], begin, (1 - share) * bar)
            np.add.at(out[which][:, column], np.minimum(begin + 1, last), share * bar)
        return out

"""MyoSuite's hand as a problem of mujoco.sysid: what its muscles can do, from one motion."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import mujoco
import mujoco.rollout
import numpy as np
from mujoco import sysid

# of each of the 39 muscles, in this order: peak force, largest speed, force at lengthening, passive
# force; with their indices in gainprm and biasprm
KINDS = {
    "strength": ((2,), (2,)),
    "speed": ((6,), ()),
    "lengthening": ((8,), ()),
    "passive": ((), (7,)),
}
NOISE = {"q": 2e-4, "v": 2e-3}  # [rad], [rad/s]


def spec() -> mujoco.MjSpec:
    """The hand without what is only seen, and with sensors of all its joints."""
    package = importlib.util.find_spec("myosuite")
    if package is None:
        raise SystemExit("the package myosuite is missing; `make setup` installs it")
    path = Path(package.origin).parent / "simhive/myo_sim/hand/myohand.xml"
    out = mujoco.MjSpec.from_file(str(path))
    for geom in list(out.geoms):
        if geom.type == mujoco.mjtGeom.mjGEOM_MESH:
            out.delete(geom)
    for kind in (out.geoms, out.sites, out.tendons):
        for element in kind:
            element.material = ""
    for kind in (out.meshes, out.materials, out.textures, out.skins):
        for element in list(kind):
            out.delete(element)
    sensors = {"q": mujoco.mjtSensor.mjSENS_JOINTPOS, "v": mujoco.mjtSensor.mjSENS_JOINTVEL}
    for joint in out.joints:
        for letter, kind in sensors.items():
            out.add_sensor(
                name=f"{letter}_{joint.name}",
                type=kind,
                objtype=mujoco.mjtObj.mjOBJ_JOINT,
                objname=joint.name,
            )
    return out


def parameters(model: mujoco.MjModel, number: int) -> sysid.ParameterDict:
    """The first `number` of them, as factors of what the model has, from 0.3 to 3."""
    out = sysid.ParameterDict()
    for kind, places in KINDS.items():
        for i in range(model.nu):
            if len(out) == number:
                return out
            name = model.actuator(i).name
            out.add(
                sysid.Parameter(
                    f"{kind} {name}", 1.0, 0.3, 3.0, modifier=_modifier(model, i, places)
                )
            )
    return out


def _modifier(model, i, places):
    name = model.actuator(i).name
    gain, bias = model.actuator_gainprm[i].copy(), model.actuator_biasprm[i].copy()

    def modify(spec, parameter):
        muscle = spec.actuator(name)
        for k in places[0]:
            muscle.gainprm[k] = parameter.value[0] * gain[k]
        for k in places[1]:
            muscle.biasprm[k] = parameter.value[0] * bias[k]

    return modify


def truth(number: int, seed: int = 0) -> np.ndarray:
    """Factors, 20 % around 1."""
    return np.exp(0.2 * np.random.default_rng(seed).standard_normal(number))


def problem(number: int, nstep: int, length: int = 10, nthread: int = 2, seed: int = 0):
    """Parameters at the start, and the residual of one motion of nstep steps with noisy sensors.

    The motion is compared in pieces of `length` steps, each from the measured state, noise included
    (activations follow from the controls, and have none). Over its whole length, through contacts
    of the fingers, the residual has many minima. The seed is of factors, motion and noise.
    """
    description = spec()
    model = description.compile()
    params, factors = parameters(model, number), truth(number, seed)
    params.update_from_vector(factors)
    real = sysid.apply_param_modifiers(params, description)
    rng = np.random.default_rng(1 + seed)
    seconds = np.arange(nstep) * model.opt.timestep
    rate, phase = rng.uniform(1, 4, model.nu), rng.uniform(0, 6, model.nu)
    ctrl = np.clip(0.3 + 0.7 * np.sin(2 * np.pi * rate * seconds[:, None] + phase), 0, 1)
    data = mujoco.MjData(real)
    start = sysid.create_initial_state(real, data.qpos, data.qvel, data.act)
    states, sensors = mujoco.rollout.rollout(real, data, start, ctrl)
    states = np.vstack([start, states[0]])
    names = [real.sensor(i).name for i in range(real.nsensor)]
    noise = np.array([NOISE[name[0]] for name in names])
    sensors = sensors[0] + noise * rng.standard_normal(sensors[0].shape)
    states = states[:nstep]
    for letter, begin in (("q", 1), ("v", 1 + real.nq)):
        columns = [i for i, name in enumerate(names) if name[0] == letter]
        states[:, begin : begin + real.nv] = sensors[:, columns]

    times = np.append(0, np.cumsum(np.full(length, model.opt.timestep)))
    begins = range(0, nstep - length, length)
    states[:, 0] = 0
    pieces = sysid.ModelSequences(
        "hand",
        description,
        [f"from step {k}" for k in begins],
        [states[k] for k in begins],
        [sysid.TimeSeries(times, ctrl[k : k + length + 1]) for k in begins],
        [sysid.TimeSeries.from_names(times[1:], sensors[k : k + length], real) for k in begins],
    )
    signals = sysid.SignalTransform(normalize=False)
    signals.set_sensor_weights(dict(zip(names, 1 / noise, strict=True)))
    residual = sysid.build_residual_fn(
        models_sequences=[pieces],
        modify_residual=signals.apply,
        resample_true=False,
        n_threads=nthread,
    )
    params.reset()
    return params, factors, residual

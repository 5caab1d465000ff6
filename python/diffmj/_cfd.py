"""Cfd: contacts from distance, a gradient that points towards contact."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

from . import _diffmj
from ._errors import InputError
from ._option_values import named_values

_LAW = tuple(x.name for x in _diffmj.cfd_law_options())


@dataclass(frozen=True, kw_only=True)
class Cfd:
    """Contact forces between geoms that do not touch yet, in the backward pass only.

    `Simulator(model, cfd=diffmj.Cfd(width=0.1))`. Rollouts keep the same bits. Gradients are those
    of forces that begin at a distance, taken along the unaltered rollout. They are a surrogate that
    tells how geoms would have to move to touch. Let r be the distance of a contact beyond its
    margin. For r > 0 its impedance continues from d_0 at r = 0 down to d_c at r = width, and s
    log(1 + exp(-r/s)) replaces -r in its reference acceleration.

    Attributes:
        width: largest distance of a contact [m], default 0.1; 0: none, the ordinary gradient.
        d_c: impedance at the width, 0 to 0.9999; default 0.
        d_0: impedance at r = 0, 0 to 0.9999. Default: that of the contact's solimp, at most 0.01,
            which makes forces continuous if solimp begins below that.
        midpoint: of the spline, counted from the far end; above 0 and at most 1; default 1.
        power: of the spline, 1 or more; default 2.
        softplus: [m] scale s; 0: max(0, -r). Default: a hundredth of the width.
        geoms: laws of the contacts of single geoms, {name: Cfd(width=..., ...)}. A Cfd in geoms or
            pairs must not have geoms, pairs or options itself.
        pairs: laws of the contacts of two geoms, {(name, name): Cfd(...)}; they override geoms.
        max_contacts: largest number of contacts from distance at one state, default 16. The nearest
            are kept; if there are more, `backward` warns.
        controls_steps: include forces from distance in the error of adaptive steps, so that the
            discrete adjoint resolves them. The rollout then takes smaller steps.
        forward: apply forces from distance in rollouts, too. Not physical; for inspection.

    None stands for the default. If no number of the law is given (width, d_c, ..., softplus), the
    law is that of the model's custom numeric "cfd", if the model has one: numbers in the order
    above, where -1 keeps the default of d_0 or softplus. Likewise, "cfd_geom:NAME" and
    "cfd_pair:NAME,NAME" apply unless geoms and pairs override them.

    Examples:
        >>> near = diffmj.Simulator("ball.xml")
        >>> far = diffmj.Simulator("ball.xml", cfd=diffmj.Cfd(width=0.5))
        >>> [bool(sim.rollout(nstep=5).backward(final={"qvel": [1.0]}).qpos[0] == 0)
        ...  for sim in (near, far)]
        [True, False]
    """

    width: float | None = None
    d_c: float | None = None
    d_0: float | None = None
    midpoint: float | None = None
    power: float | None = None
    softplus: float | None = None
    geoms: Mapping[str, Cfd] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], Cfd] = field(default_factory=dict)
    max_contacts: int | None = None
    controls_steps: bool | None = None
    forward: bool | None = None

    def _law(self) -> _diffmj.CfdLaw | None:
        values = named_values("Cfd", _diffmj.cfd_law_options(), vars(self))
        return _diffmj.CfdLaw(values) if values else None

    def _record(self) -> _diffmj.Cfd:
        def part(name: object, cfd: Cfd) -> _diffmj.CfdLaw:
            if not isinstance(cfd, Cfd):
                raise InputError(f"Cfd: the law of {name!r} is {cfd!r}, expected a diffmj.Cfd")
            if cfd != Cfd(**{key: getattr(cfd, key) for key in _LAW}):
                raise InputError(f"Cfd: the law of {name!r} has more than {', '.join(_LAW)}")
            return cfd._law() or _diffmj.CfdLaw([])

        out = _diffmj.Cfd(named_values("Cfd", _diffmj.cfd_options(), vars(self)))
        out.law = self._law()
        out.geoms = {name: part(name, cfd) for name, cfd in self.geoms.items()}
        out.pairs = {(a, b): part((a, b), cfd) for (a, b), cfd in self.pairs.items()}
        return out


def warn_capped(counts: _diffmj.CfdCounts, stacklevel: int) -> None:
    """Warns if contacts from distance were left out at some of the states of a backward pass."""
    text = counts.warning()
    if text:
        warnings.warn(text, RuntimeWarning, stacklevel=stacklevel)

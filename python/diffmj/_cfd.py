"""Cfd: contacts from distance, a gradient that points towards contact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from . import _diffmj
from ._arrays import to_integer
from ._errors import InputError

_LAW = ("width", "d_c", "d_0", "midpoint", "power", "softplus")


@dataclass(frozen=True, kw_only=True)
class Cfd:
    """Contact forces between geoms that do not touch yet, in the backward pass only.

    Rollouts are what they are without, bit for bit; gradients are those of forces that begin at a
    distance, taken along the unaltered rollout: a surrogate that tells how geoms would have to move
    to meet. `Simulator(model, cfd=diffmj.Cfd(width=0.1))`. With r the distance of a contact beyond
    its margin, its impedance goes on for r > 0 from d_0 at r = 0 down to d_c at r = width, and its
    reference acceleration has s log(1 + exp(-r/s)) in place of -r.

    Attributes:
        width: [m] up to which contacts are made, default 0.1; 0: none, the ordinary gradient.
        d_c: impedance at the width, 0 to 0.9999; default 0.
        d_0: impedance at r = 0, 0 to 0.9999; -1, the default: that of the contact's solimp, which
            makes forces continuous, but 0.01 at most.
        midpoint: of the spline, seen from the far end, above 0 and at most 1; default 1.
        power: of the spline, 1 or more; default 2.
        softplus: [m] scale s; 0: max(0, -r); -1, the default: a hundredth of the width.
        geoms: laws of the contacts of single geoms, {name: Cfd(width=..., ...)}; those of a Cfd's
            geoms and pairs have no geoms, pairs or options of their own.
        pairs: laws of the contacts of two geoms, {(name, name): Cfd(...)}; before those of geoms.
        max_contacts: contacts from distance at one state at most, the nearest; default 16. If there
            are more, `backward` warns.
        controls_steps: of adaptive steps: their error is also that of the forces from distance, so
            that the discrete adjoint follows these; the rollout takes smaller steps then.
        forward: not physical, to look at: rollouts have forces from distance, too.

    A law that is not given at all (no width, d_c, ..., softplus) is that of the model's custom
    numeric "cfd", with numbers in the order above, if it has one. Likewise "cfd_geom:NAME" and
    "cfd_pair:NAME,NAME", where geoms and pairs do not say otherwise.
    """

    width: float | None = None
    d_c: float | None = None
    d_0: float | None = None
    midpoint: float | None = None
    power: float | None = None
    softplus: float | None = None
    geoms: Mapping[str, Cfd] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], Cfd] = field(default_factory=dict)
    max_contacts: int = 16
    controls_steps: bool = False
    forward: bool = False

    def _law(self) -> _diffmj.CfdLaw | None:
        given = {name: getattr(self, name) for name in _LAW if getattr(self, name) is not None}
        if not given:
            return None
        law = _diffmj.CfdLaw()
        for name, value in given.items():
            try:
                setattr(law, name, float(value))
            except (TypeError, ValueError):
                raise InputError(f"Cfd: {name} is {value!r}, expected a number") from None
        return law

    def _record(self) -> _diffmj.Cfd:
        def part(name: object, cfd: Cfd) -> _diffmj.CfdLaw:
            if not isinstance(cfd, Cfd):
                raise InputError(f"Cfd: the law of {name!r} is {cfd!r}, expected a diffmj.Cfd")
            if cfd != Cfd(**{key: getattr(cfd, key) for key in _LAW}):
                raise InputError(f"Cfd: the law of {name!r} has more than {', '.join(_LAW)}")
            return cfd._law() or _diffmj.CfdLaw()

        out = _diffmj.Cfd()
        out.law = self._law()
        out.geoms = {name: part(name, cfd) for name, cfd in self.geoms.items()}
        out.pairs = {tuple(names): part(names, cfd) for names, cfd in self.pairs.items()}
        out.max_contacts = to_integer("Cfd", "max_contacts", self.max_contacts)
        out.controls_steps = bool(self.controls_steps)
        out.forward = bool(self.forward)
        return out

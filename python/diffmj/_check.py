"""CheckReport: the result of Simulator.check, and how it is printed."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from . import _diffmj
from ._warnings import Warning, to_warnings


@dataclass(frozen=True)
class CheckDirection:
    """One random direction.

    Attributes:
        adjoint: the derivative that diffmj gives.
        differences: the derivative by extrapolated differences of mj_step. With an explicit
            Runge-Kutta method, differences of its steps with fixed sizes.
        error_bar: estimated error of the differences.
        error: |adjoint - differences|, relative; with method "stepwise" the largest one.
        verdict: "agrees", "differs", "inconclusive" (the error bar alone exceeds the tolerance) or
            "at a kink" (in every direction that was tried, all useful differences cross a switch,
            such as a contact that opens).
        method: "central" (differences from both sides), "one-sided" (from the side that the rollout
            is on) or "stepwise". Stepwise means that the whole rollout is at a kink on both sides;
            every step was compared by itself, in a direction that leads away from its kinks, and
            the numbers are sums over the steps.
        step: if stepwise or at a kink, the step with the largest error; otherwise -1.
        kink: if at a kink, what switches there.
    """

    adjoint: float
    differences: float
    error_bar: float
    error: float
    verdict: str
    method: str = "central"
    step: int = -1
    kink: str = ""


@dataclass(frozen=True)
class Kink:
    """A point of the rollout that is near a change of the active set.

    Attributes:
        what: which contact, limit or friction changes.
        step: the step, or with an explicit Runge-Kutta method the interval; -1 if the rollout meets
            no constraint.
        distance: in `unit`.
        unit: "m", "rad", "of length" (a fixed tendon's), "of control", "of activation" or "share of
            the constraint's force range".
    """

    what: str
    step: int
    distance: float
    unit: str


@dataclass(frozen=True)
class ConstraintKinks:
    """How near one constraint comes to a change over the rollout.

    All contact points of two geoms together are one constraint.

    Attributes:
        constraint: "contact of geom 'ball' and geom 'floor'", "limit of joint 'elbow'", ...
        zone: the smallest distance of its force to the next zone, in which it vanishes, sticks or
            slides. None if the constraint never acts.
        activation: the smallest distance of its violation to the value at which it appears or
            vanishes. None for friction loss.
    """

    constraint: str
    zone: Kink | None
    activation: Kink | None

    def __str__(self) -> str:
        parts = []
        if self.zone:
            near = self.zone
            parts.append(
                f"{near.distance:.2g} of its force range from another zone at step {near.step}"
            )
        if self.activation:
            near = self.activation
            parts.append(f"{near.distance:.2g} {near.unit} from switching at step {near.step}")
        return f"{self.constraint}: " + ", ".join(parts)


def _kink(record: _diffmj.Kink) -> Kink:
    return Kink(record.what, record.step, record.distance, record.unit)


def _kink_or_none(record: _diffmj.Kink) -> Kink | None:
    return _kink(record) if record.step >= 0 else None


_KINKS_PRINTED = 5


@dataclass(frozen=True)
class CheckReport:
    """Is the gradient of this model right at this state? `print(report)` prints the answer.

    Attributes:
        passed: every direction agrees.
        reason: why it did not pass, in one line: what differs and what causes it, or what prevents
            differences from converging. Empty if it passed.
        directions: one CheckDirection per random direction.
        solver_residual: residual of MuJoCo's constraint solver, largest over the steps, relative.
        adjoint_residual: residual of the linear solve of the adjoint, largest over the steps,
            relative.
        nearest_kink: where the rollout is nearest to a change of the active set.
        kinks: one ConstraintKinks for each constraint that acts during the rollout, for each limit,
            and for each contact within margin and gap; nearest first.
        path: "analytic", "oracle" or "differences", as Simulator.gradient_path.
        path_reason: what forced a slower path than requested.
        oracle_difference: on the path "analytic", the largest difference from the oracle's gradient
            of the same rollout, relative to the largest entry. -1 on another path.
        collider_difference: where MuJoCo finds contacts by iteration (ellipsoids, cylinders,
            meshes), how far its own ccd_tolerance moves the gradient, relative to the largest
            entry. The check uses contacts at machine precision. -1 if there are no such contacts.
        events: number of steps of the rollout that end at an event.
        jump_share: norm of the jump terms of these events, relative to the norm of the gradient. -1
            if there are no such steps.
        features: what the model uses, by name.
        advice: what would make its gradients better.
        warnings: warnings of the rollout, a list of `Warning`.
        nstep: length of the rollout that was checked.
        tolerance: largest relative error of a direction that agrees.

    Examples:
        >>> report = diffmj.Simulator("pendulum.xml").check(qpos=[0.5])
        >>> report.passed, report.path
        (True, 'analytic')
        >>> print(str(report).splitlines()[0])
        PASSED: the gradient is right here; 8 of 8 directions agree with differences
    """

    passed: bool
    reason: str
    directions: list[CheckDirection]
    solver_residual: float
    adjoint_residual: float
    nearest_kink: Kink
    kinks: list[ConstraintKinks]
    path: str
    path_reason: str
    oracle_difference: float
    collider_difference: float
    events: int
    jump_share: float
    features: list[str]
    advice: list[str]
    warnings: list[Warning]
    nstep: int
    tolerance: float

    @classmethod
    def from_record(cls, record: _diffmj.CheckReport, tolerance: float) -> CheckReport:
        """Made by `Simulator.check`."""
        return cls(
            passed=record.passed,
            reason=record.reason,
            directions=[
                CheckDirection(
                    d.adjoint,
                    d.differences,
                    d.error_bar,
                    d.error,
                    d.verdict,
                    d.method,
                    d.step,
                    d.kink,
                )
                for d in record.directions
            ],
            solver_residual=record.solver_residual,
            adjoint_residual=record.adjoint_residual,
            nearest_kink=_kink(record.nearest_kink),
            kinks=[
                ConstraintKinks(k.constraint, _kink_or_none(k.zone), _kink_or_none(k.activation))
                for k in record.kinks
            ],
            path=record.path,
            path_reason=record.path_reason,
            oracle_difference=record.oracle_difference,
            collider_difference=record.collider_difference,
            events=record.nevent,
            jump_share=record.jump_share,
            features=list(record.features),
            advice=list(record.advice),
            warnings=to_warnings(record.warnings),
            nstep=record.nstep,
            tolerance=tolerance,
        )

    @property
    def verdict(self) -> str:
        """ "passed", "failed" (a direction differs) or "inconclusive" (none differs, but some
        differences did not converge).
        """
        if self.passed:
            return "passed"
        differs = any(d.verdict == "differs" for d in self.directions)
        return "failed" if differs else "inconclusive"

    def _verdict_line(self) -> str:
        """The answer, which everything below it explains."""
        verdicts = [d.verdict for d in self.directions]
        n, agree, differ = len(verdicts), verdicts.count("agrees"), verdicts.count("differs")
        if self.passed:
            words = f"the gradient is right here; {agree} of {n} directions agree with differences"
        elif differ:
            words = f"the gradient is wrong in {differ} of {n} directions; {agree} agree"
        else:
            words = f"differences cannot tell in {n - agree} of {n} directions; {agree} agree"
        return f"{self.verdict.upper()}: {words}"

    def __str__(self) -> str:
        agreeing = [d.error for d in self.directions if d.verdict == "agrees"]
        n, agree = len(self.directions), len(agreeing)
        # where MuJoCo's colliders scatter, differences can tell less than the tolerance
        known = max([self.tolerance, *agreeing])
        lines = [
            self._verdict_line(),
            "",
            f"  {agree} of {n} random directions agree to {known:.2g} over nstep = {self.nstep}",
            "",
            "         adjoint      differences    +/-        error      verdict       differences",
        ]
        for d in self.directions:
            lines.append(
                f"  {d.adjoint:15.8e}  {d.differences:15.8e}  {d.error_bar:8.1e}  {d.error:8.1e}"
                f"   {d.verdict:12}  {d.method}"
            )
        path = [self.path + (f" ({self.path_reason})" if self.path_reason else "")]
        if self.oracle_difference >= 0:
            path.append(f"difference to the oracle {self.oracle_difference:.1e}")
        if self.collider_difference >= 0:
            path.append(f"MuJoCo's ccd_tolerance moves it by {self.collider_difference:.1e}")
        if self.jump_share >= 0:
            path.append(f"{self.events} events, jump terms {self.jump_share:.2g} of the gradient")
        kink = self.nearest_kink
        if kink.step >= 0:
            nearest = f"{kink.what} at step {kink.step}, {kink.distance:.3g} {kink.unit} away"
        elif self.path == "differences":
            nearest = "not looked for on this gradient path"
        else:
            nearest = "none: the rollout meets no constraint"
        kinks = [str(k) for k in self.kinks[:_KINKS_PRINTED]]
        if len(self.kinks) > _KINKS_PRINTED:
            kinks.append(f"and {len(self.kinks) - _KINKS_PRINTED} more in report.kinks")
        rows = [
            ("because", [self.reason] if self.reason else []),
            ("solver residual", [f"{self.solver_residual:.1e}"]),
            ("adjoint residual", [f"{self.adjoint_residual:.1e}"]),
            ("nearest kink", [nearest]),
            ("by constraint", kinks),
            ("gradient path", path),
            ("features", self.features),
            ("warnings", [f"{w.text} (first at step {w.first_step})" for w in self.warnings]),
            ("advice", self.advice),
        ]
        lines.append("")
        for title, texts in rows:
            for i, text in enumerate(texts):
                lead = f"  {title if i == 0 else '':18}"
                lines.append(
                    textwrap.fill(text, 100, initial_indent=lead, subsequent_indent=" " * 22)
                )
        return "\n".join(lines)

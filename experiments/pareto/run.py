"""Gradient error against run time, on the cube toss: constant steps, and adaptive ones.

Time is that of one rollout and its backward pass, the best of several. Beside it what the authors
of [Paulus26, fig. 5 and app. A] published for their implementation.

The reference is the tightest solution (Dopri8 at 1e-12, interpolated adjoint). It has the jump
terms of the impacts, and agrees with differences of the loss. Constant steps do not have them,
however small they are: their gradients converge to another number, drawn as a line. So do those of
adaptive steps that do not end at impacts (events=False), which is what was published.
"""

import sys
import time

import diffmj
import mujoco

from experiments import common
from experiments.pareto.draw import draw, seconds
from experiments.pareto.ratios import MUJOCO, ratios
from experiments.toss.convergence import SPEED, reference

SCENE = "toss/box.xml"
# by the name of the integrator: steps [s] of MuJoCo's, tolerances of adaptive ones
STEPS = [1e-2, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4, 5e-5, 2e-5]
TOLERANCES = [10.0**-n for n in range(3, 13)]
CURVES = {
    "Euler": [*STEPS, 1e-5],
    "implicitfast": STEPS,
    "RK4": STEPS,
    "bosh3": TOLERANCES[:-2],  # of third order: it takes ten thousands of steps there
    "tsit5": TOLERANCES,
    "dopri5": TOLERANCES,
    "dopri8": TOLERANCES,
    "tsit5 interpolated": TOLERANCES,
    "tsit5 interpolated without jumps": TOLERANCES,
}


def simulator(curve, knob):
    """The scene under a curve's integrator; knob: time step or tolerance."""
    if curve in MUJOCO:
        model = mujoco.MjModel.from_xml_path(str(common.SCENARIOS / SCENE))
        model.opt.timestep = knob
        return diffmj.Simulator(model, integrator=curve)
    method, *words = curve.split()
    return common.adaptive(
        SCENE,
        knob,
        method,
        adjoint="interpolated" if "interpolated" in words else "discrete",
        events="without" not in words,
    )


def measure(sim, repetitions):
    """The gradient, and the seconds it takes: forward and backward, each the best of several."""
    forward, backward = [], []
    for _ in range(repetitions):
        start = time.perf_counter()
        trajectory = common.toss(sim, SPEED)
        middle = time.perf_counter()
        gradient = float(common.final_y_gradient(trajectory))
        forward.append(middle - start)
        backward.append(time.perf_counter() - middle)
        if sum(forward) + sum(backward) > 2:  # [s]: long runs are less disturbed
            break
    return gradient, min(forward), min(backward)


def run(quick, target):
    """Points of every curve, with errors to the target."""
    print(
        f"Cube at {SPEED:g} m/s. Reference {target['gradient']:.6f} s, "
        f"differences {target['differences']:.6f} s, "
        f"without jump terms {target['without_jumps']:.6f} s\n"
        f"  {'integrator':<32}  step or tol.  gradient [s]  error    forward  backward [ms]"
    )
    curves = {}
    for curve, knobs in CURVES.items():
        curves[curve] = []
        for knob in knobs[:7] if quick else knobs:
            gradient, forward, backward = measure(simulator(curve, knob), 3 if quick else 10)
            error = float(common.relative(gradient, target["gradient"]))
            print(
                f"  {curve:<32}  {common.power(knob):<12}  {gradient:12.6f}  {error:7.1e}"
                f"  {1e3 * forward:7.1f}  {1e3 * backward:8.1f}",
                flush=True,
            )
            point = {"knob": knob, "gradient": gradient, "error": error}
            curves[curve].append(point | {"forward": forward, "backward": backward})
    return curves


def main(argv=None):
    options = common.arguments(__doc__, argv)
    expected, checks = common.expected(__file__), common.Checks()
    target = reference()
    for name in ("gradient", "differences", "without_jumps"):
        error = common.relative(target[name], expected[name])
        checks.below(f"error of the reference's {name}", error, 1e-4)
    curves = run(options.quick, target)
    points = {
        f"{name} at {common.power(p['knob'])}": {"error": p["error"], "seconds": seconds(p)}
        for name, curve in curves.items()
        for p in curve
    }
    numbers = {"curves": curves, "reference": target, "points": points}
    for name, bound in expected["errors"].items():
        error = next(p["error"] for p in curves[name] if p["knob"] == expected["errors_at"])
        checks.below(f"error of {name} at {common.power(expected['errors_at'])}", error, bound)
    if not options.quick:
        numbers["ratios"] = ratios(curves, expected)
        for name, value in numbers["ratios"].items():
            print(f"  {name.replace('_', ' ')}: {value:.3g}")
            checks.above(name, value, expected[name])
    figure = draw(curves, target, expected["published"])
    rows = [{"integrator": name} | p for name, curve in curves.items() for p in curve]
    table = {column: [row[column] for row in rows] for column in rows[0]}
    common.write(options.out / "pareto", numbers, checks, {"pareto": table}, pareto=figure)
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())

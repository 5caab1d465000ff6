"""Gradient error against run time, on the cube toss: constant steps, and adaptive ones.

Time is that of one rollout and its backward sweep, the best of several. Beside it what the authors
of [Paulus26, fig. 5 and app. A] published for their implementation.

The reference is the tightest solution (Dopri8 at 1e-12, interpolated adjoint). It has the jump
terms of the impacts, and agrees with differences of the loss. Constant steps do not have them,
however small they are: their gradients converge to another number, drawn as a line. So do those of
adaptive steps that do not end at impacts (events=False), which is what was published.
"""

import sys
import time

import diffmj
import matplotlib.pyplot as plt
import mujoco

from experiments import common
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
MUJOCO = ("Euler", "implicitfast", "RK4")
DISCRETE = ("bosh3", "tsit5", "dopri5", "dopri8")
LOOKS = {  # label, marker, colour
    "Euler": ("MuJoCo's Euler", "o", common.BLACK),
    "implicitfast": ("MuJoCo's implicitfast", "x", common.GREY),
    "RK4": ("MuJoCo's RK4", "s", common.ORANGE),
    "bosh3": ("Bosh3", "v", common.GREEN),
    "tsit5": ("Tsit5", "D", common.BLUE),
    "dopri5": ("Dopri5", "<", common.SKY),
    "dopri8": ("Dopri8", "^", common.PURPLE),
    "tsit5 interpolated": ("Tsit5, interpolated adjoint", "*", common.VERMILION),
    "tsit5 interpolated without jumps": ("the same, without jump terms", "+", common.VERMILION),
    "MJX Euler": ("MJX Euler", "o", common.BLACK),
    "MJX RK4": ("MJX RK4", "s", common.ORANGE),
    "DiffMJX Tsit5": ("DiffMJX Tsit5", "D", common.BLUE),
    "DiffMJX Tsit5 backsolve": ("DiffMJX Tsit5, backsolve adjoint", "*", common.VERMILION),
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
        for knob in knobs[1:7:2] if quick else knobs:
            gradient, forward, backward = measure(simulator(curve, knob), 2 if quick else 10)
            error = float(common.relative(gradient, target["gradient"]))
            print(
                f"  {curve:<32}  {common.power(knob):<12}  {gradient:12.6f}  {error:7.1e}"
                f"  {1e3 * forward:7.1f}  {1e3 * backward:8.1f}",
                flush=True,
            )
            point = {"knob": knob, "gradient": gradient, "error": error}
            curves[curve].append(point | {"forward": forward, "backward": backward})
    return curves


def seconds(point):
    return point["forward"] + point["backward"]


def lowest_error(curves, names, budget):
    """Of all points that cost at most this [s]."""
    return min(p["error"] for name in names for p in curves[name] if seconds(p) <= budget)


def lowest_cost(curves, names, error):
    """[s], of all points that have at most this error, and so have all finer ones of their curve:
    a coarse one may be right by chance."""
    cost = []
    for name in names:
        for point in reversed(curves[name]):
            if point["error"] > error:
                break
            cost.append(seconds(point))
    return min(cost)


def ratios(curves, expected):
    """How far adaptive methods are ahead: in error at equal cost, in cost at equal error."""
    step = expected["budget_timestep"]
    budget = next(seconds(p) for p in curves["Euler"] if p["knob"] == step)
    constant = lowest_error(curves, MUJOCO, budget)
    target = expected["target"]
    cost = lowest_cost(curves, MUJOCO, target)
    return {
        "error_ratio_discrete": constant / lowest_error(curves, DISCRETE, budget),
        "error_ratio_interpolated": constant
        / lowest_error(curves, ("tsit5 interpolated",), budget),
        "cost_ratio_discrete": cost / lowest_cost(curves, DISCRETE, target),
    }


def draw(curves, target, published):
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 6.5), sharex=True, sharey=True)
    for curve, points in curves.items():
        _line(left, curve, [(seconds(p), p["error"]) for p in points])
    for curve, rows in published["curves"].items():
        errors = [common.relative(gradient, published["differences"]) for _, gradient, _ in rows]
        _line(right, curve, zip([row[2] for row in rows], errors, strict=True))
    _limit(left, common.relative(target["without_jumps"], target["gradient"]), "right")
    _limit(right, common.relative(published["limit"], published["differences"]), "left")
    left.set(title="diffmj, measured in one run", ylabel="relative error of the gradient")
    right.set_title("as published by the authors, on their machine, without compilation")
    for axes, corner in ((left, "lower right"), (right, "lower left")):
        axes.set(xscale="log", yscale="log", xlabel="forward + backward [s]")
        title = "discrete adjoint, unless said otherwise"
        axes.legend(loc=corner, fontsize=9.5, title=title).set_alignment("left")
    figure.suptitle("Cube toss: error of d(final y)/d(u0) against run time")
    return figure


def _limit(axes, error, side):
    axes.axhline(error, color="0.35", linestyle=":", linewidth=1.2)
    axes.annotate(
        "limit without jump terms",
        (1 if side == "right" else 0.02, error),
        (0, -5),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha=side,
        va="top",
        fontsize=9.5,
        color="0.35",
    )


def _line(axes, curve, points):
    label, marker, colour = LOOKS[curve]
    dashed = any(word in curve for word in ("Euler", "RK4", "implicit", "without"))
    axes.plot(
        *zip(*points, strict=True),
        marker=marker,
        color=colour,
        label=label,
        linestyle="--" if dashed else "-",
        linewidth=1.2,
        markersize=9 if marker == "*" else 6,
        mfc=colour if marker in "*x+" else "white",
    )


def main(argv=None):
    options = common.arguments(__doc__, argv)
    expected, checks = common.expected(__file__), common.Checks()
    target = reference()
    for name in ("gradient", "differences", "without_jumps"):
        error = common.relative(target[name], expected[name])
        checks.below(f"error of the reference's {name}", error, 1e-4)
    curves = run(options.quick, target)
    numbers = {"curves": curves, "reference": target}
    if not options.quick:
        numbers["ratios"] = ratios(curves, expected)
        for name, value in numbers["ratios"].items():
            print(f"  {name.replace('_', ' ')}: {value:.3g}")
            checks.above(name, value, expected[name])
    figure = draw(curves, target, expected["published"])
    common.write(options.out / "pareto", numbers, checks, pareto=figure)
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())

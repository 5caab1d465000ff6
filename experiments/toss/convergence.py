"""The cube at one speed: loss and gradient over tolerances, under the three adjoints of time."""

import matplotlib.pyplot as plt

from experiments import common

SPEED = -2.0  # [m/s]
ADJOINTS = ("discrete", "interpolated", "backsolve")
WITHOUT_JUMPS = "without jumps"  # the interpolated adjoint, steps that do not end at impacts
COLUMNS = (*ADJOINTS, WITHOUT_JUMPS)
LOOKS = {
    "discrete": ("o", common.BLUE),
    "interpolated": ("s", common.VERMILION),
    "backsolve": ("^", common.GREEN),
    WITHOUT_JUMPS: ("x", common.GREY),
}


def simulator(tolerance, column, method="tsit5"):
    if column == WITHOUT_JUMPS:
        options = {"adjoint": "interpolated", "events": False}
    else:
        options = {"adjoint": column}
    return common.adaptive("toss/box.xml", tolerance, method, **options)


def measure(tolerances):
    """One row per tolerance, and the reference."""
    rows = []
    for tolerance in tolerances:
        row = {"tolerance": tolerance}
        for column in COLUMNS:
            trajectory = common.toss(simulator(tolerance, column), SPEED)
            row[column] = float(common.final_y_gradient(trajectory))
            if column == "discrete":
                row["loss"] = float(common.final_y(trajectory))
                row["steps"] = trajectory.integrator.accepted
        rows.append(row)
    return rows, reference()


def reference():
    """The tightest solution, by another method than that of the rows."""
    sim = simulator(1e-12, "interpolated", "dopri8")
    trajectory = common.toss(sim, SPEED)
    other = common.toss(simulator(1e-12, WITHOUT_JUMPS, "dopri8"), SPEED)
    return {
        "loss": float(common.final_y(trajectory)),
        "gradient": float(common.final_y_gradient(trajectory)),
        "differences": float(common.final_y_differences(sim, SPEED, 1e-4)),
        "without_jumps": float(common.final_y_gradient(other)),
    }


def table(rows, reference):
    print(f"Cube at {SPEED:g} m/s, Tsit5: final y [m], d(final y)/d(u0) [s] and relative errors")
    print("  tolerance  steps  final y            " + "".join(f"{c:<20}" for c in COLUMNS))
    for row in rows:
        error = common.relative(row["loss"], reference["loss"])
        line = f"  {common.power(row['tolerance']):<9}  {row['steps']:5d}  "
        line += f"{row['loss']:.7f} {error:.0e}  "
        for column in COLUMNS:
            error = common.relative(row[column], reference["gradient"])
            line += f"{row[column]:9.6f}  {error:.0e}    "
        print(line.rstrip())
    print(
        f"  reference (Dopri8 at 1e-12, interpolated): {reference['loss']:.7f}, "
        f"{reference['gradient']:.6f}; differences of its loss {reference['differences']:.6f}; "
        f"without jump terms {reference['without_jumps']:.6f}"
    )


def columns(rows):
    """For the CSV."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def check(rows, reference, expected, checks):
    for name, value in reference.items():
        error = common.relative(value, expected[name])
        checks.below(f"cube, error of the reference's {name}", error, 1e-4)
    allowed = {tolerance: bounds for tolerance, *bounds in expected["allowed"]}
    for row in rows:
        bounds = allowed.get(row["tolerance"])
        if bounds is None:
            continue
        for name, bound in zip(("loss", *ADJOINTS), bounds, strict=True):
            target = expected["loss" if name == "loss" else "gradient"]
            what = f"cube at {common.power(row['tolerance'])}, error of {name}"
            checks.below(what, common.relative(row[name], target), bound)


def draw(rows, reference):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), sharex=True, sharey=True)
    tolerances = [row["tolerance"] for row in rows]
    style = {"markersize": 6, "mfc": "white"}
    error = [common.relative(row["loss"], reference["loss"]) for row in rows]
    left.loglog(tolerances, error, "D-", color=common.BLACK, **style)
    left.set(title="final y", ylabel="relative error, to the tightest solution")
    for column, (marker, colour) in LOOKS.items():
        error = [common.relative(row[column], reference["gradient"]) for row in rows]
        label = column if column in ADJOINTS else "interpolated, without jump terms"
        line = "--" if column == WITHOUT_JUMPS else "-"
        right.loglog(tolerances, error, marker + line, color=colour, label=label, **style)
    right.set(title="its derivative in the speed of the throw")
    right.legend(title="adjoint", loc="lower right", fontsize=10)
    for axes in (left, right):
        axes.set_xlabel("tolerance of Tsit5 (relative, and absolute)")
    figure.suptitle(f"The cube thrown at {-SPEED:g} m/s: convergence")
    return figure

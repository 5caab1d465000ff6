"""The figure: error against run time, ours and as published."""

import matplotlib.pyplot as plt

from experiments import common

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


def seconds(point):
    return point["forward"] + point["backward"]


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

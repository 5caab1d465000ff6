"""Figure of the comparison with mujoco.sysid."""

import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

from experiments import common

COLORS = {"mujoco.sysid": common.ORANGE, "diffmj": common.SKY, "diffmj-lbfgs": common.BLUE}


def draw(table, fits):
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6))
    curves = {
        "differences": ("Jacobian, mujoco.sysid's differences", common.ORANGE),
        "jacobian": ("Jacobian, diffmj", common.SKY),
        "gradient": ("gradient, diffmj", common.BLUE),
    }
    for key, (label, color) in curves.items():
        left.loglog(table["parameters"], table[key], "o-", color=color, label=label)
    left.set(title="one derivative", xlabel="number of parameters", ylabel="time [s]")
    left.set_xticks(table["parameters"], [str(x) for x in table["parameters"]])
    left.minorticks_off()
    left.legend()
    for name, marker in zip(fits, "os", strict=False):
        for kind, row in fits[name].items():
            right.loglog(
                row["seconds"],
                100 * row["worst strength"],
                marker,
                color=COLORS[kind],
                label=f"{kind}, {name} parameters",
            )
    right.axhline(2, color=common.GREY, linestyle=":")
    right.set(title="fits", xlabel="time [s]", ylabel="error of the worst strength [%]")
    right.legend()
    return figure


def draw_cube(found):
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6))
    for start, row in found["side"].items():
        for kind, color in (("mujoco.sysid", common.ORANGE), ("diffmj", common.BLUE)):
            left.plot(row[kind]["seconds"], row[kind]["side"], "o", color=color)
            at = (row[kind]["seconds"], row[kind]["side"])
            left.annotate(f" {start}", at, fontsize=9, color=color)
    side = 104.8
    left.axhspan(0.99 * side, 1.01 * side, color="0.88", zorder=0)
    left.set(xscale="log", xlabel="time [s]", ylabel="side [mm]", title="side alone, by start [mm]")
    colors = {"diffmj": common.BLUE, "start": common.GREY}
    for kind, row in found["all"].items():
        color = colors.get(kind, common.ORANGE)
        if kind == "start":
            right.axhline(row["error"], color=color, linestyle=":", label=kind)
        else:
            right.plot(row["seconds"], row["error"], "o", color=color, label=kind)
    right.set(xscale="log", xlabel="time [s]", ylabel="error of whole tosses", title="all together")
    right.set_ylim(0)
    right.legend()
    for axis in (left, right):
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
    figure.suptitle(found["data"])
    return figure

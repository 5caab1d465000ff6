"""Figures of the billiard."""

import matplotlib.pyplot as plt

from experiments import common


def draw(x, paths):
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(16, 4.6))
    left.plot(x["F"], x["loss"], color=common.BLACK)
    left.set(title="loss", xlabel="sideways force F [N]", ylabel="loss [m²]")
    middle.plot(x["F"], x["cfd"], color=common.BLUE, label="contacts from distance")
    middle.plot(x["F"], x["plain"], color=common.ORANGE, label="plain")
    middle.set_yscale("symlog", linthresh=0.05)
    middle.set_yticks([-1, -0.1, 0, 0.1, 1])
    middle.set(title="its gradient", xlabel="sideways force F [N]", ylabel="gradient [m²/N]")
    middle.legend()
    for kind, color in (("plain", common.ORANGE), ("cfd", common.BLUE)):
        right.plot(paths[kind], color=color, linewidth=1.2)
    right.set(title="descent", xlabel="iteration", ylabel="F [N]")
    return figure


def draw_reduced(x):
    figure, axes = plt.subplots(1, 4, figsize=(18, 4.2), sharey=True)
    titles = {
        "plain": "plain",
        "discrete": "discrete adjoint",
        "interpolated": "interpolated adjoint",
        "seen": "discrete, steps see the contacts",
    }
    for axis, (kind, title) in zip(axes, titles.items(), strict=True):
        axis.plot(x["F"], x[kind], color=common.ORANGE if kind == "plain" else common.BLUE)
        axis.set(title=title, xlabel="sideways force F [N]")
    axes[0].set_ylabel("gradient [m²/N]")
    return figure

"""Figures of the fits of all parameters."""

import matplotlib.pyplot as plt
import numpy as np

from experiments import common
from experiments.cube_all.fits import MODELS

COLOURS = dict(zip(MODELS, (common.ORANGE, common.GREEN, common.BLUE), strict=True))
SHOWN = {
    "side": "side [m]",
    "friction": "friction",
    "solref[0]": "solref[0]: time constant [s]",
    "solref[1]": "solref[1]: damping ratio",
    "solimp[0]": "solimp[0]: impedance at touch",
    "inertia": "inertia / that of a solid cube",
}


def colour(name):
    """Of a fit, by its model."""
    models = [x for x in COLOURS if name.startswith(f"{x}, ")]
    return COLOURS[max(models, key=len)] if models else common.GREY


def draw_errors(errors, shown, floor, published, title):
    """published: whether the paper's number belongs here."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 0.9 + 0.36 * max(10, len(errors))))
    places = np.arange(len(errors))[::-1]
    values = [x.error for x in errors.values()]
    left.barh(places, values, color=[colour(name) for name in errors], height=0.65)
    for place, x in zip(places, errors.values(), strict=True):
        text = f"{x.error:.3f}, {x.position:.0f} mm"
        back = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        left.text(x.error + 0.003, place, text, va="center", fontsize=9, bbox=back)
    left.set_yticks(places, list(errors))
    if published:
        left.axvline(0.25, color=common.BLACK, linestyle="--", linewidth=1, zorder=0)
        left.text(0.252, len(errors) - 0.4, "published: above 0.25", fontsize=9)
    left.axvline(floor, color=common.BLACK, linestyle=":", linewidth=1)
    left.set(xlabel="error over whole tosses, and distance of the centres")
    left.set_xlim(0, max(0.33, 1.25 * max(values)))
    labels = {"start": "tuned by hand", "paper": "the paper's model, fitted",
              "hollow": "round cone, hollow, fitted"}  # fmt: skip
    looks = {"start": common.GREY, "paper": common.ORANGE, "hollow": common.BLUE}
    for name, x in shown.items():
        share = np.arange(1, len(x.each) + 1) / len(x.each)
        right.step(np.sort(x.each), share, color=looks[name], label=labels[name], where="post")
    right.set(xlabel="error of a toss", ylabel="share of the tosses", ylim=(0, 1))
    right.legend(loc="lower right")
    figure.suptitle(title)
    return figure


def draw_parameters(fits, title):
    figure, axes = plt.subplots(2, 3, figsize=(14, 6.6))
    for axis, (parameter, label) in zip(axes.flat, SHOWN.items(), strict=True):
        for name, fit in fits.items():
            path = [x.get(parameter) for x in fit.path]
            if path[0] is not None:
                line = "--" if "random" in name else "-"
                axis.plot(path, line, color=colour(name), linewidth=1.5)
        axis.set(title=label)
    for axis in axes[1]:
        axis.set_xlabel("gradient step")
    keys = {x: plt.Line2D([], [], color=c) for x, c in COLOURS.items()}
    keys["from a random start"] = plt.Line2D([], [], color=common.GREY, linestyle="--")
    figure.legend(keys.values(), keys.keys(), loc="outside lower center", ncols=4)
    figure.suptitle(title)
    return figure

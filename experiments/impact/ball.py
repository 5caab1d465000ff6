"""A ball thrown at the floor: its final height over its initial one, by steps that get smaller."""

import diffmj
import matplotlib.pyplot as plt
import mujoco
import numpy as np

from experiments import common

SCENE = common.SCENARIOS / "impact.xml"
HEIGHTS = (0.0803, 0.1797)  # [m], range of the initial height
DURATION = 0.3  # [s]
SHOWN = {2e-3: common.ORANGE, 5e-4: common.GREEN, 1e-4: common.PURPLE}  # [s], steps drawn
STEPS = (2e-3, 1e-3, 5e-4, 2e-4, 1e-4, 5e-5, 2e-5)  # [s]
STEP = 1e-3  # [m], of the differences: the motion after one bounce is linear in the height


def rollout(sim, heights):
    start = sim.keyframe_state("throw")
    qpos = np.tile(start.qpos, (len(heights), 1))
    qpos[:, 2] = heights
    return sim.rollout(qpos, start.qvel, nstep=round(DURATION / sim.interval))


def gradient(sim, heights):
    """Final heights [m], and their derivatives in the initial ones."""
    trajectory = rollout(sim, heights)
    bar = np.zeros_like(trajectory.qpos)
    bar[:, -1, 2] = 1
    return trajectory.qpos[:, -1, 2], trajectory.backward(qpos=bar).qpos[:, 2]


def euler(step, nthread):
    model = mujoco.MjModel.from_xml_path(str(SCENE))
    model.opt.timestep = step
    return diffmj.Simulator(model, integrator="Euler", nthread=nthread)


def adaptive(nthread, **options):
    return common.adaptive(SCENE, 1e-11, interval=0.01, nthread=nthread, **options)


def measure(heights, steps, nthread=0):
    """Curves (height, gradient) by step of Euler and for Tsit5; median errors of the gradients,
    relative to the differences."""
    curves = {step: gradient(euler(step, nthread), heights) for step in steps}
    sim = adaptive(nthread, adjoint="interpolated")
    curves["events"] = gradient(sim, heights)
    curves["no events"] = gradient(adaptive(nthread, adjoint="interpolated", events=False), heights)
    ends = [rollout(sim, heights + h).qpos[:, -1, 2] for h in (STEP, -STEP)]
    differences = (ends[0] - ends[1]) / (2 * STEP)
    errors = {
        name: float(np.median(common.relative(curve[1], differences)))
        for name, curve in curves.items()
    }
    return curves, differences, errors


def draw(heights, curves, differences, errors):
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 5))
    for step, colour in SHOWN.items():
        label = f"Euler, {1e3 * step:g} ms"
        left.plot(heights, curves[step][0], color=colour, linewidth=1, label=label)
        middle.plot(heights, curves[step][1], color=colour, linewidth=1)
    looks = {
        "no events": (common.SKY, "Tsit5, events=False"),
        "events": (common.VERMILION, "Tsit5, with events"),
    }
    for name, (colour, label) in looks.items():
        left.plot(heights, curves[name][0], color=colour, linewidth=1.5, label=label)
        middle.plot(heights, curves[name][1], color=colour, linewidth=1.8)
    some = slice(None, None, max(1, len(heights) // 20))
    middle.plot(heights[some], differences[some], "o", color=common.BLACK, mfc="none")
    left.plot(
        [], [], "o", color=common.BLACK, mfc="none", label="differences of converged rollouts"
    )
    left.set(ylabel=f"height after {DURATION:g} s [m]", title="final height")
    middle.set(ylabel="d(final height)/d(initial height)", title="its derivative")
    middle.set_ylim(top=0)
    for axes in (left, middle):
        axes.set_xlabel("initial height [m]")
    steps = [name for name in errors if not isinstance(name, str)]
    right.loglog(steps, [errors[x] for x in steps], "s-", color=common.ORANGE, mfc="white")
    places = {"no events": "Tsit5, events=False", "events": "Tsit5, with events"}
    for name, label in places.items():
        right.axhline(errors[name], color=looks[name][0], linewidth=1.8)
        above = 3 if name == "no events" else 1.3
        right.text(min(steps), above * errors[name], label, va="bottom", fontsize=10)
    right.text(min(steps), errors[min(steps)] / 2, "Euler", va="top", fontsize=10)
    right.set(xlabel="step of Euler [s]", title="error of the derivative, median")
    right.set_ylabel("relative to differences")
    right.set_ylim(errors["events"] / 5, 30 * max(errors.values()))
    figure.legend(loc="outside lower center", ncols=6)
    figure.suptitle(
        "A ball meets the floor, MuJoCo's default contact: the derivative of the steps is not "
        "that of the motion"
    )
    return figure


def columns(heights, curves, differences):
    """For the CSV."""
    out = {"initial height [m]": heights, "differences": differences}
    for name, (height, slope) in curves.items():
        kind = name if isinstance(name, str) else f"Euler {name:g} s"
        out |= {f"{kind}: final height [m]": height, f"{kind}: derivative": slope}
    return out

"""Billiard: a white ball is pushed, and should send the black one to the origin.

The loss is the squared distance of the black ball from the origin after 3 s, over the sideways
force F on the white one during the first 10 ms [Paulus26, fig. 6 and app. C.4].
1. Loss and gradient over F, without and with contacts from distance; gradient descent by either.
2. The balls alone, without gravity: the discrete adjoint takes the large steps of free flight, and
   its gradient oscillates; the interpolated one, or steps that see the contacts, do not.
"""

import sys

import diffmj
import numpy as np

from experiments import common
from experiments.billiard.draw import draw, draw_reduced

CFD = {"width": 0.1, "d_c": 0.0, "d_0": 0.01, "midpoint": 1.0, "power": 2.0}
PUSH, MASS, SECONDS = 0.01, 0.17, 3.0  # [s], [kg], [s]


def black_ball(traj, cotangent):
    """The loss, and its gradient in one input, by one backward pass."""
    place = traj.qpos[:, -1, 7:10]
    bar = np.zeros_like(traj.qpos)
    bar[:, -1, 7:10] = 2 * place
    return (place**2).sum(-1), cotangent(traj.backward(qpos=bar))


def shot(force, tolerance, cfd, nthread):
    """Loss and gradient over F, on the table."""
    sim = diffmj.Simulator(
        common.SCENARIOS / "billiard/table.xml",
        "tsit5", nthread, rtol=tolerance, atol=tolerance, interval=PUSH, cfd=cfd,
    )  # fmt: skip
    nstep = round(SECONDS / PUSH)
    push = np.zeros((len(force), nstep, sim.nv))
    push[:, 0, 0], push[:, 0, 1] = 4, force
    traj = sim.rollout(qfrc_applied=push, nstep=nstep)
    return black_ball(traj, lambda g: g.qfrc_applied[:, 0, 1])


def free_shot(force, adjoint, cfd, nthread, tolerance=1e-4):
    """The same of the balls alone, from the velocity after the push, in steps as large as they
    come."""
    sim = diffmj.Simulator(
        common.SCENARIOS / "billiard/reduced.xml",
        "tsit5", nthread, rtol=tolerance, atol=tolerance,
        interval=SECONDS / 10, adjoint=adjoint, cfd=cfd,
    )  # fmt: skip
    qvel = np.zeros((len(force), sim.nv))
    qvel[:, 0], qvel[:, 1] = 4 * PUSH / MASS, force * PUSH / MASS
    traj = sim.rollout(qvel=qvel, nstep=10)
    return black_ball(traj, lambda g: g.qvel[:, 1] * PUSH / MASS)


def descend(start, iterations, tolerance, cfd, nthread):
    """Adam on F, from all starts at once; the paths."""
    force, m, v = start.copy(), np.zeros_like(start), np.zeros_like(start)
    paths = [force.copy()]
    for k in range(1, iterations + 1):
        _, gradient = shot(force, tolerance, cfd, nthread)
        m, v = 0.8 * m + 0.2 * gradient, 0.9 * v + 0.1 * gradient**2
        step = (m / (1 - 0.8**k)) / (np.sqrt(v / (1 - 0.9**k)) + 1e-12)
        force = force - 0.4 * 0.97**k * step
        paths.append(force.copy())
    return np.array(paths)


def main(argv=None):
    options = common.arguments(__doc__, argv)
    expected, checks = common.expected(__file__), common.Checks()
    n, tolerance, nthread = (41 if options.quick else 200), 1e-6, options.nthread
    cfd = diffmj.Cfd(**CFD)
    x = {"F": np.linspace(-5, 5, n)}
    x["loss"], x["plain"] = shot(x["F"], tolerance, None, nthread)
    loss, x["cfd"] = shot(x["F"], tolerance, cfd, nthread)
    checks.below("change of the loss", np.abs(loss - x["loss"]).max(), np.nextafter(0, 1))
    missed = x["plain"] == 0
    print(f"{missed.sum()} of {n} shots miss")
    checks.above("shots that miss", missed.mean(), expected["missed"])
    checks.above("least gradient of these", np.abs(x["cfd"][missed]).min(), expected["least"])
    downhill = np.sign(x["cfd"]) == np.sign(x["F"])
    checks.above("misses that are pulled to the hit", downhill[missed].mean(), 0.999)

    start = np.linspace(-5, 5, 5 if options.quick else 11)
    count = 12 if options.quick else 30
    paths = {
        k: descend(start, count, tolerance, c, nthread) for k, c in (("plain", None), ("cfd", cfd))
    }
    descent = {}
    for kind, path in paths.items():
        reached = shot(path[-1], tolerance, None, nthread)[0]
        descent[kind] = float((reached < expected["reached"]).mean())
        print(f"{kind}: {descent[kind]:.0%} of {len(start)} starts reach the hit")
    checks.above("descent with contacts from distance", descent["cfd"], 0.999)
    checks.below("descent without", descent["plain"], expected["plain"])

    free = {"F": np.linspace(-5, 5, 81 if options.quick else 200)}
    kinds = {
        "plain": ("discrete", None),
        "discrete": ("discrete", cfd),
        "interpolated": ("interpolated", cfd),
        "seen": ("discrete", diffmj.Cfd(**CFD, controls_steps=True)),
    }
    for kind, (adjoint, law) in kinds.items():
        _, free[kind] = free_shot(free["F"], adjoint, law, nthread)
    _, free["converged"] = free_shot(free["F"], "interpolated", cfd, nthread, 1e-9)
    misses = free["plain"] == 0
    largest = np.abs(free["converged"][misses]).max()
    reduced = {
        kind: float(np.abs(free[kind] - free["converged"])[misses].max() / largest)
        for kind in ("discrete", "interpolated", "seen")
    }
    print("without a table, largest error of misses:", reduced)
    checks.above("error of the discrete adjoint", reduced["discrete"], expected["discrete"])
    checks.below("error of the interpolated one", reduced["interpolated"], expected["resolved"])
    checks.below("error of steps that see", reduced["seen"], expected["resolved"])

    numbers = {"missed": float(missed.mean()), "descent": descent, "reduced": reduced}
    tables = {"billiard": x, "reduced": free}
    figures = {"billiard": draw(x, paths), "reduced": draw_reduced(free)}
    common.write(options.out / "billiard", numbers, checks, tables, **figures)
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())

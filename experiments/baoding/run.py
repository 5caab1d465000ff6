"""MyoChallenge's baoding balls, planned: the score by MyoSuite's rule.

Phase 1 has one instance; runs differ in the planner's seed. Phase 2 draws instances at random, and
each is planned twice: with its own balls in the planning model, and with nominal ones. Controls are
held for 25 ms, as an action of MyoSuite is.

Episodes take a minute or more each. `--record` adds the missing ones to recorded.json, and can be
interrupted; the page shows that record, marked as such, and the beginning of an episode that is
planned for it. Without options it plans one episode of phase 1.
"""

import argparse
import sys
import time
import tomllib
import warnings

import diffmj
import matplotlib.pyplot as plt
import numpy as np

from experiments import common, manipulation
from experiments.baoding import scene
from experiments.baoding.record import COMMAND, FOLDER, KINDS, Motion, Record, Run, summary

TASK = tomllib.loads((FOLDER / "task.toml").read_text())
RECORDED = ("start", "cost", "planner", "execution")  # of task.toml
COLOURS = dict(zip(KINDS, (common.BLUE, common.GREEN, common.VERMILION), strict=True))


def instance_of(kind: str, seed: int) -> scene.Instance:
    return scene.Instance() if kind == "phase 1" else scene.draw(seed)


def scenes() -> dict[str, dict]:
    """What a changed scene changes; of phase 2, an instance."""
    return {phase: manipulation.sums(scene.model(instance_of(phase, 0))) for phase in KINDS[:2]}


def terms(model, instance: scene.Instance) -> list[diffmj.Distance]:
    """Of task.toml, with the paths of the targets instead of their files."""
    files = {
        name: diffmj.Reference(time, path)
        for name, (time, path) in scene.files(model, instance).items()
    }
    out = []
    for term in TASK["cost"]:
        given = {key: files[x["file"]] if isinstance(x, dict) else x for key, x in term.items()}
        out.append(manipulation.TERMS[given.pop("term")](**given))
    return out


def play(kind: str, seed: int, steps: int, nthread: int = 0) -> tuple[Run, Motion]:
    """An episode of so many control steps, or until a ball falls."""
    instance = instance_of(kind, seed)
    real = scene.model(instance)
    known = scene.Instance() if kind == "phase 2, nominal balls" else instance
    sim = diffmj.Simulator(scene.model(known))
    cost = terms(real, instance)
    planner = diffmj.Planner(sim, cost, **TASK["planner"], seed=seed, nthread=nthread)
    key = sim.keyframe_state(TASK["start"]["key"])
    heights = [real.jnt_qposadr[real.body(ball).jntadr[0]] + 2 for ball in scene.BALLS]
    every = round(scene.DT / real.opt.timestep)
    began = time.process_time()
    with warnings.catch_warnings():
        # samples that diverge are left out, which is not news here
        warnings.simplefilter("ignore", RuntimeWarning)
        run = diffmj.run_mpc(
            planner,
            key.qpos,
            key.qvel,
            ctrl=np.full(sim.nu, scene.CONTROLS[0]),
            nstep=steps * every,
            execute=TASK["execution"]["execute"],
            sim=diffmj.Simulator(real),
            done=lambda run: bool(min(run.qpos[-1][heights]) < scene.LOW),
        )
    spent = time.process_time() - began
    states = run.qpos[::every]
    score, distances = scene.score(real, instance, states[1:])
    farther = (1000 * distances.max(axis=1)).round(1).tolist()
    costs = [float(x) for x in np.round([run.costs[0], run.costs[-1]], 4)]
    return (
        Run(kind, seed, round(score, 4), farther, round(spent, 1), costs),
        Motion(seed, states.round(4).tolist()),
    )


def tell(run: Run) -> None:
    words = f"score {run.score:.3f}, {len(run.farther)} steps, {run.processor:.0f} s"
    print(f"{run.kind}, seed {run.seed}: {words} of processor time", flush=True)


def record(kinds: list[str], seeds: int, nthread: int, machine: str) -> None:
    """Adds the runs that recorded.json does not have. ValueError: it is of another task."""
    task = {x: TASK[x] for x in RECORDED}
    if not (FOLDER / "recorded.json").exists():
        Record(task, COMMAND, machine, scenes()).save()
    if changed := Record.load().changed(task, scenes()):
        raise ValueError(
            f"{FOLDER / 'recorded.json'} is of another task: {', '.join(changed)} changed"
        )
    # all kinds of a seed before the next: a record that is not complete compares the same instances
    for seed in range(seeds):
        for kind in kinds:
            if Record.load().run(kind, seed):
                continue
            run, motion = play(kind, seed, scene.STEPS, nthread)
            tell(run)
            # another process may record, too
            kept = Record.load()
            kept.add(run, motion)
            kept.save()


def draw(kept: Record, live: list[Run]):
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4))
    for kind in (x for x in KINDS if kept.of(x)):
        own = kept.of(kind)
        look = {"color": COLOURS[kind], "label": f"{kind} ({len(own)})"}
        for x in own:
            left.semilogy(_ends(x), x.farther, lw=0.6, alpha=0.6, **look)
            look.pop("label", None)  # once
        label = f"{kind} ({len(own)})"
        right.plot(
            [x.seed for x in own], [x.score for x in own], "o", color=COLOURS[kind], label=label
        )
    for x in live:
        left.semilogy(_ends(x), x.farther, color=common.BLACK, ls="--")
    left.axhline(1000 * scene.NEAR, color=common.GREY, lw=0.8)
    left.set(xlabel="time [s]", ylabel="farther ball from its target [mm]", xlim=(0, 5))
    right.set(xlabel="seed", ylabel="score", xlim=(-0.5, 19.5), ylim=(0, 1), xticks=range(0, 20, 2))
    for axis in (left, right):
        axis.legend(fontsize=8)
    return figure


def _ends(run: Run) -> np.ndarray:
    """Times of the ends of its control steps [s]."""
    return scene.DT * (1 + np.arange(len(run.farther)))


def note(kept: Record, live: list[Run], needed: str) -> str:
    """What a reader has to know about the page's figure, film and table.

    Args:
        needed: what is missing here to plan.
    """
    words = (
        f"Recorded: figure, film and table are of runs on {kept.machine}; {kept.command} repeats "
        "them, in hours. "
    )
    if not live:
        return words + f"Nothing was planned for this page, which needs {needed}."
    seconds = scene.DT * sum(len(x.farther) for x in live)
    return words + (
        f"Dashed in the figure: {seconds:.2f} s of phase 1 that were planned for this page, with "
        f"{sum(x.processor for x in live):.0f} s of processor time."
    )


def rows(kept: list[Run], live: list[Run]) -> dict:
    """For a CSV."""
    runs = [*kept, *live]
    return {
        "made": ["recorded"] * len(kept) + ["now"] * len(live),
        "kind": [x.kind for x in runs],
        "seed": [x.seed for x in runs],
        "score": [x.score for x in runs],
        "control steps": [len(x.farther) for x in runs],
        "processor time [s]": [x.processor for x in runs],
    }


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--record", action="store_true", help="add missing runs to recorded.json")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="some alone")
    parser.add_argument("--seeds", type=int, help="so many alone")
    parser.add_argument("--machine", default="", help="to be noted in a new record")


def main(argv=None):
    options = common.arguments(__doc__, argv, _options)
    needed = manipulation.missing("baoding")
    if needed and not options.quick:
        sys.exit(f"baoding: needs {needed}")
    expected, checks = common.expected(__file__), common.Checks()
    chosen = expected["record" if options.record else "quick" if options.quick else "full"]
    seeds = options.seeds or chosen["seeds"]
    if options.record:
        record(options.kinds, seeds, options.nthread, options.machine)
        return 0
    live = []
    for seed in range(0 if needed else seeds):
        live.append(play("phase 1", seed, chosen["steps"], options.nthread)[0])
        tell(live[-1])
    kept = Record.load()
    found = {kind: summary(kept.of(kind)) for kind in KINDS}
    for x in live:
        if options.quick:
            what = "phase 1, now: cost of the last plan over that of the first"
            checks.below(what, x.costs[1] / x.costs[0], 1)
        else:
            checks.above("phase 1, now: score", x.score, chosen["score"])
    for kind, least in expected["score"].items():
        checks.above(f"{kind}, recorded: score", found[kind]["score"], least)
    numbers = {"note": note(kept, live, needed), "score": found}
    tables = {"runs": rows(kept.runs, live)}
    common.write(options.out / "baoding", numbers, checks, tables, baoding=draw(kept, live))
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())

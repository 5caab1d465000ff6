"""Adaptive steps on ordinary robots: what they cost, and whether gradients can be trusted.

    PYTHONPATH=build/python python -m experiments.menagerie path/to/mujoco_menagerie [names]

For every robot of a MuJoCo Menagerie checkout (it is not part of this repository): 0.5 s from its
first keyframe, or from qpos0, with free bodies lifted by 2 cm, at rtol 1e-5 and atol 1e-6. Printed
are the processor time of the rollout and of the backward pass in units of the same motion by
`mj_step` (the least of interleaved repetitions in this process), the steps, and by how much the
gradients of one random direction of the last state differ between rtol 1e-5 and 1e-7, relative to
the larger.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import diffmj
import mujoco
import numpy as np

DURATION, INTERVAL, LIFT = 0.5, 0.01, 0.02  # [s], [s], [m]


def scene_of(folder: Path) -> Path:
    """scene.xml, which has a floor, or the first model."""
    scenes = sorted(folder.glob("scene*.xml"), key=lambda x: len(x.name))
    return (scenes or sorted(folder.glob("*.xml")))[0]


def start_of(model: mujoco.MjModel, keyframe: bool) -> dict[str, np.ndarray]:
    """The state and the controls, with free bodies lifted."""
    data = mujoco.MjData(model)
    if keyframe and model.nkey > 0:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    data.qvel[:] = 0
    for joint in range(model.njnt):
        if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
            data.qpos[model.jnt_qposadr[joint] + 2] += LIFT
    return {x: getattr(data, x).copy() for x in ("qpos", "qvel", "act", "ctrl")}


def mj_step_seconds(model: mujoco.MjModel, start: dict[str, np.ndarray]) -> float:
    """One rollout of the model's own steps."""
    data = mujoco.MjData(model)
    for name, value in start.items():
        getattr(data, name)[:] = value
    begin = time.process_time()
    mujoco.mj_step(model, data, round(DURATION / model.opt.timestep))
    return time.process_time() - begin


def gradient(sim: diffmj.Simulator, start: dict[str, np.ndarray]) -> tuple[np.ndarray, float]:
    """Of one random direction of the last state; and the time of the backward pass."""
    traj = sim.rollout(**start, nstep=round(DURATION / INTERVAL))
    rng = np.random.default_rng(1)
    bars = {}
    for name in ("qpos_tangent", "qvel"):
        bars[name] = np.zeros((traj.qvel.shape[0], sim.nv))
        bars[name][-1] = rng.standard_normal(sim.nv)
    begin = time.process_time()
    grad = traj.backward(**bars)
    seconds = time.process_time() - begin
    return np.concatenate([grad.qpos_tangent, grad.qvel, grad.ctrl.sum(0)]), seconds


def measure(path: Path, keyframe: bool, options: dict, repetitions: int) -> dict:
    """A row of the table."""
    model = mujoco.MjModel.from_xml_path(str(path))
    start = start_of(model, keyframe)
    nstep = round(DURATION / INTERVAL)

    def simulator(scale: float) -> diffmj.Simulator:
        return diffmj.Simulator(
            model, nthread=1, interval=INTERVAL, rtol=1e-5 * scale, atol=1e-6 * scale, **options
        )

    sim = simulator(1)
    own, forward = [], []
    for _ in range(repetitions):
        own.append(mj_step_seconds(model, start))
        begin = time.process_time()
        traj = sim.rollout(**start, nstep=nstep)
        forward.append(time.process_time() - begin)
        if forward[-1] > 20:
            break
    record = traj.integrator
    row = {
        "forward": min(forward) / min(own),
        "steps": record.accepted,
        "rejected": record.rejected,
        "implicit": int(record.implicit.sum()),
        "events": len(record.events),
    }
    rough, seconds = gradient(sim, start)
    row["backward"] = seconds / min(own)
    fine, _ = gradient(simulator(1e-2), start)
    row["size"] = np.linalg.norm(fine)
    row["difference"] = np.linalg.norm(rough - fine) / max(
        np.linalg.norm(rough), np.linalg.norm(fine)
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--integrator", default="auto")
    parser.add_argument("--onset", type=float, default=1e-4, help="0: contacts set in at once")
    parser.add_argument("--collisions", default="mujoco", help="smooth: for robots on mesh feet")
    parser.add_argument("--smoothness", type=float, default=3e-4, help="[m] with smooth collisions")
    parser.add_argument("--max-steps", type=int, default=100000)
    parser.add_argument("--qpos0", action="store_true", help="start there, not at the keyframe")
    parser.add_argument("--repetitions", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    options = {"integrator": args.integrator, "max_steps": args.max_steps}
    if args.onset:
        options["onset"] = args.onset
    if args.collisions != "mujoco":
        options |= {"collisions": args.collisions, "smoothness": args.smoothness}
    columns = (
        "forward", "steps", "rejected", "implicit", "events", "backward", "size", "difference",
    )  # fmt: skip
    print(f"{'robot':26}" + "".join(f"{x:>12}" for x in columns))
    ratios = []
    for folder in sorted({x.parent for x in args.folder.glob("*/*.xml")}):
        if args.names and folder.name not in args.names:
            continue
        try:
            row = measure(scene_of(folder), not args.qpos0, options, args.repetitions)
        except (diffmj.Error, ValueError) as error:
            print(f"{folder.name:26} {str(error)[:300]}", flush=True)
            continue
        ratios.append(row["forward"])
        print(f"{folder.name:26}" + "".join(f"{row[x]:12.3g}" for x in columns), flush=True)
    if ratios:
        print(f"median {np.median(ratios):.3g}, largest {max(ratios):.3g}, of {len(ratios)}")


if __name__ == "__main__":
    main()

"""What a cluster costs beside threads: 10 000 short rollouts of a cube with gradients, by threads
of one process and by workers of a local Ray cluster on the same cores, in turns within one run.

    PYTHONPATH=build/python .venv-ray/bin/python bench/ray_pool.py

Options: --batch 10000, --nstep 50, --repeat 5, --cores 2, --cpu (processor time of all processes
together, Ray's own included, for a machine that is busy). It prints ratios of throughputs (least
times), the memory of the driver and the cost of a chunk; by the wall clock also what the model of
docs/ray.md says about two workers, from the time of one, beside what they took.
"""

import argparse
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import diffmj
import diffmj.ray
import numpy as np
import ray

CUBE = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 0.1"/>
    <body pos="0 0 0.08" quat="0.9 0.3 -0.2 0.2"><freejoint name="free"/>
      <geom name="cube" type="box" size="0.05 0.05 0.05" density="100"/></body>
  </worldbody>
</mujoco>
"""


def height(traj: diffmj.Trajectory):
    """The loss: how high the cube is in the end."""
    bar = np.zeros((traj.batch, 7))
    bar[:, 2] = 1
    return traj.qpos[:, -1, 2], {"final": {"qpos": bar}}


def driver_memory() -> float:
    """Megabytes of this process alone, without what it shares with the object store."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", text)[1]) / 1024


def processor_time() -> float:
    """Seconds of this process and of all that it started: Ray's own and the workers."""
    parents, times = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        parents[int(path.name)] = int(fields[1])
        times[int(path.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_ours(pid: int) -> bool:
        while pid > 1 and pid != os.getpid():
            pid = parents.get(pid, 0)
        return pid == os.getpid()

    return sum(x for pid, x in times.items() if is_ours(pid))


def least(
    ways: dict[str, Callable[[], object]], repeat: int, clock: Callable[[], float]
) -> tuple[dict[str, float], dict[str, object]]:
    """Least seconds of each, in turns, and what each returned in the first turn, which does not
    count."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    first = {name: run() for name, run in ways.items()}
    for _ in range(repeat):
        for name, run in ways.items():
            begin = clock()
            run()
            times[name].append(clock() - begin)
    return {name: min(x) for name, x in times.items()}, first


def start(cores: int) -> None:
    os.environ["RAY_worker_niceness"] = "0"  # as threads; Ray's default is 15
    ray.init(
        address="local",
        num_cpus=cores,
        include_dashboard=False,
        logging_level="error",
        object_store_memory=2 * 10**8,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--nstep", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    n, nstep, cores = options.batch, options.nstep, options.cores
    qvel = 0.5 * np.random.default_rng(0).standard_normal((n, 6))

    def threads(count: int) -> np.ndarray:
        """On threads of this process, a thousand rollouts at a time."""
        sim.nthread = count
        rows = []
        for i in range(0, n, 1000):
            traj = sim.rollout(qvel=qvel[i : i + 1000], nstep=nstep)
            rows.append(traj.backward(**height(traj)[1]).qvel)
        return np.concatenate(rows)

    def handles() -> np.ndarray:
        """Trajectories stay on the workers; their last rows come back, then gradients."""
        traj = pool.rollout(qvel=qvel, nstep=nstep)
        bar = np.zeros_like(traj.row("qpos"))
        bar[:, 2] = 1
        return traj.backward(final={"qpos": bar}, only=["qvel"]).qvel

    def fused() -> np.ndarray:
        """Nothing stays."""
        return pool.value_and_gradient(height, qvel=qvel, nstep=nstep, only=["qvel"])[1].qvel

    sim = diffmj.Simulator(CUBE)
    clock = processor_time if options.cpu else time.perf_counter
    if not options.cpu:
        start(1)
        with diffmj.ray.Pool(sim, threads=1) as pool:
            one, _ = least({"thread": lambda: threads(1), "worker": fused}, options.repeat, clock)
        ray.shutdown()

    start(cores)
    with diffmj.ray.Pool(sim, threads=1) as pool:
        while len(pool.workers) < cores:
            time.sleep(0.1)
        ways = {
            "threads": lambda: threads(cores),
            "value_and_gradient": fused,
            "rollout and backward": handles,
        }
        found, first = least(ways, options.repeat, clock)
        for x in first.values():
            assert np.array_equal(x, first["threads"])  # the same bits
        kind = "s of processor time" if options.cpu else "s"
        print(f"{n} rollouts of {nstep} steps with gradients on {cores} cores")
        for name, seconds in found.items():
            ratio = found["threads"] / seconds
            print(f"  {name:22s}{seconds:7.3f} {kind}  ratio {ratio:.3f}", flush=True)
        del first
        before = driver_memory()
        for _ in range(3):
            handles()
        after = driver_memory()
        print(
            f"memory of the driver: {before:.0f} MB, {after - before:+.1f} MB after three batches"
        )
        chunks = 500
        empty = {"": lambda: pool.map(lambda sim, x: None, range(chunks))}
        seconds = least(empty, options.repeat, clock)[0][""] / chunks
        print(f"a chunk without work: {1e3 * seconds:.2f} m{kind}")
    ray.shutdown()
    if not options.cpu:
        model, measured = one["worker"] / cores, found["value_and_gradient"]
        print(f"one thread: {one['thread']:.3f} s; one worker: {one['worker']:.3f} s")
        print(
            f"{cores} workers by the model: {model:.3f} s; measured: {measured:.3f} s, "
            f"{measured / model:.2f} times"
        )


if __name__ == "__main__":
    main()

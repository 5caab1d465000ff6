"""What a cluster costs beside threads: 10 000 short rollouts of a cube with gradients, by threads
of one process and by workers of a local Ray cluster on the same cores, in turns within one run.

    PYTHONPATH=build/python .venv-ray/bin/python bench/ray_pool.py

Options: --batch 10000, --nstep 50, --repeat 5, --cores 2. It prints ratios of
throughputs (least times), the memory of the driver, the cost of a chunk, and what the model of
docs/ray.md says about one and two workers beside what they took.
"""

import argparse
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


def least(ways: dict[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """Least seconds of each, in turns; the first turn does not count."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for i in range(repeat + 1):
        for name, run in ways.items():
            begin = time.perf_counter()
            run()
            if i > 0:
                times[name].append(time.perf_counter() - begin)
    return {name: min(x) for name, x in times.items()}


def start(cores: int) -> None:
    ray.init(
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
    start(1)
    with diffmj.ray.Pool(sim, threads=1) as pool:
        one = least({"thread": lambda: threads(1), "worker": fused}, options.repeat)
    ray.shutdown()

    start(cores)
    with diffmj.ray.Pool(sim, threads=1) as pool:
        while len(pool.workers) < cores:
            time.sleep(0.1)
        expected = threads(cores)
        assert np.array_equal(handles(), expected)
        assert np.array_equal(fused(), expected)
        before = driver_memory()
        ways = {
            "threads": lambda: threads(cores),
            "value_and_gradient": fused,
            "rollout and backward": handles,
        }
        found = least(ways, options.repeat)
        after = driver_memory()
        print(f"{n} rollouts of {nstep} steps with gradients on {cores} cores")
        for name, seconds in found.items():
            ratio = found["threads"] / seconds
            print(f"  {name:22s}{seconds:7.3f} s  {n / seconds:7.0f} per s  ratio {ratio:.3f}")
        print(f"memory of the driver: {before:.0f} MB before, {after:.0f} MB after")
        chunks = 500
        empty = least({"": lambda: pool.map(lambda sim, x: None, range(chunks))}, options.repeat)[
            ""
        ]
        print(f"a chunk without work: {1e3 * empty / chunks:.2f} ms of the driver")
        print(f"one thread: {one['thread']:.3f} s; one worker: {one['worker']:.3f} s")
        model = one["worker"] / cores
        print(
            f"{cores} workers by the model: {model:.3f} s; measured: "
            f"{found['value_and_gradient']:.3f} s, {found['value_and_gradient'] / model:.2f} times"
        )
    ray.shutdown()


if __name__ == "__main__":
    main()

"""What a call through JAX costs beside the bare rollout and backward: 100 steps of the humanoid on
the floor, one rollout and a batch of 64, in turns within one run.

    PYTHONPATH=build/python .venv/bin/python bench/jax_overhead.py [--repeat 7] [--integrator tsit5]

The ratio of gradients holds what has nothing to do with JAX, too: the backward pass finds contacts
again, which a Trajectory keeps.
"""

import argparse
import time
from pathlib import Path

import diffmj
import diffmj.jax
import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

HUMANOID = Path(__file__).parent.parent / "tests" / "testdata" / "zoo" / "humanoid.xml"
NSTEP = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--integrator", default="model")
    options = parser.parse_args()
    sim = diffmj.Simulator(str(HUMANOID), integrator=options.integrator)
    start = sim.keyframe_state("fallen").qpos
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((NSTEP + 1, sim.nq))
    rollout = diffmj.jax.Rollout(sim, ("qpos",))

    def loss(ctrl):
        return jax.numpy.sum(weights * rollout(start, ctrl=ctrl).qpos)

    def bare(ctrl):
        traj = sim.rollout(start, ctrl=ctrl)
        return traj.backward(qpos=np.broadcast_to(weights, traj.qpos.shape)).ctrl

    for batch in (1, 64):
        ctrl = 0.1 * rng.standard_normal((batch, NSTEP, sim.nu))
        slope = jax.jit(jax.vmap(jax.grad(loss)) if batch > 1 else jax.grad(loss))
        forward = jax.jit(jax.vmap(loss) if batch > 1 else loss)
        given = ctrl if batch > 1 else ctrl[0]
        kinds = {
            "rollout": lambda given=given: sim.rollout(start, ctrl=given),
            "rollout, jax": lambda given=given, f=forward: f(given).block_until_ready(),
            "rollout + backward": lambda given=given: bare(given),
            "grad, jax": lambda given=given, f=slope: f(given).block_until_ready(),
        }
        times = {name: np.inf for name in kinds}
        for i in range(options.repeat + 1):
            for name, run in kinds.items():
                begin = time.perf_counter()
                run()
                if i > 0:  # the first compiles
                    times[name] = min(times[name], time.perf_counter() - begin)
        forward_ratio = times["rollout, jax"] / times["rollout"]
        ratio = times["grad, jax"] / times["rollout + backward"]
        print(f"batch {batch:3d}: forward {forward_ratio:.3f}, with gradient {ratio:.3f}")


if __name__ == "__main__":
    main()

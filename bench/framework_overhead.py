"""What a call through JAX or PyTorch costs beside the bare rollout and backward: 100 steps of the
humanoid on the floor, one rollout and a batch of 64, in turns within one run. The gradient pulls
back the same cotangents as the bare backward pass. The last number has a loss, the sum of weighted
states, which the framework computes and differentiates itself.

    PYTHONPATH=build/python .venv/bin/python bench/framework_overhead.py jax
    PYTHONPATH=build/python .venv-torch/bin/python bench/framework_overhead.py torch

Options: --repeat 7, --integrator tsit5, --compile (PyTorch's compiler), --cpu (processor time, for
a machine that is busy). The ratio of gradients holds what has nothing to do with the framework,
too: the backward pass finds contacts again, which a Trajectory keeps.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import diffmj
import numpy as np

HUMANOID = Path(__file__).parent.parent / "tests" / "testdata" / "zoo" / "humanoid.xml"
NSTEP = 100

Work = Callable[[np.ndarray], object]


def with_jax(sim: diffmj.Simulator, start: np.ndarray, weights: np.ndarray, batch: int) -> list:
    import diffmj.jax
    import jax

    jax.config.update("jax_enable_x64", True)
    rollout = diffmj.jax.Rollout(sim, ("qpos",))

    def states(ctrl):
        return rollout(start, ctrl=ctrl).qpos

    def pull_back(ctrl):
        return jax.vjp(states, ctrl)[1](weights)[0]

    def loss(ctrl):
        return jax.numpy.sum(weights * states(ctrl))

    each = jax.vmap if batch > 1 else lambda f: f
    calls = [jax.jit(each(f)) for f in (states, pull_back, jax.grad(loss))]
    return [lambda u, f=f: f(u).block_until_ready() for f in calls]


def with_torch(
    sim: diffmj.Simulator, start: np.ndarray, weights: np.ndarray, batch: int, compiled: bool
) -> list:
    import diffmj.torch
    import torch

    rollout = diffmj.torch.Rollout(sim, ("qpos",))
    first, scale = torch.tensor(start), torch.tensor(weights)

    def states(ctrl):
        return rollout(first, ctrl=ctrl).qpos

    f = torch.func.vmap(states) if batch > 1 else states
    f = torch.compile(f, fullgraph=True) if compiled else f

    def forward(ctrl):
        with torch.no_grad():
            return f(torch.from_numpy(ctrl))

    def pull_back(ctrl):
        u = torch.from_numpy(ctrl).requires_grad_()
        qpos = f(u)
        return torch.autograd.grad(qpos, u, scale.expand(qpos.shape))

    def slope(ctrl):
        u = torch.from_numpy(ctrl).requires_grad_()
        return torch.autograd.grad((scale * f(u)).sum(), u)

    return [forward, pull_back, slope]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("framework", choices=("jax", "torch"))
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--integrator", default="model")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    sim = diffmj.Simulator(str(HUMANOID), integrator=options.integrator)
    start = sim.keyframe_state("fallen").qpos.copy()
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((NSTEP + 1, sim.nq))

    def backward(ctrl):
        traj = sim.rollout(start, ctrl=ctrl)
        return traj.backward(qpos=np.broadcast_to(weights, traj.qpos.shape)).ctrl

    for batch in (1, 64):
        ctrl = 0.1 * rng.standard_normal((batch, NSTEP, sim.nu))
        given = ctrl if batch > 1 else ctrl[0]
        if options.framework == "jax":
            ways = with_jax(sim, start, weights, batch)
        else:
            ways = with_torch(sim, start, weights, batch, options.compile)
        kinds: dict[str, Work] = {
            "rollout": lambda u: sim.rollout(start, ctrl=u),
            "framework": ways[0],
            "rollout + backward": backward,
            "gradient, framework": ways[1],
            "loss, framework": ways[2],
        }
        times: dict[str, list[float]] = {name: [] for name in kinds}
        repeat = options.repeat * (10 if batch == 1 else 1)
        for i in range(repeat + 2):
            # in random order: what runs after another call of the framework finds it in the caches
            for name, run in rng.permutation(list(kinds.items())):
                begin = clock()
                run(given)
                if i > 1:  # the first compile
                    times[name].append(clock() - begin)
        best = {name: min(x) for name, x in times.items()}
        median = {name: float(np.median(x)) for name, x in times.items()}
        for what, t in (("least", best), ("median", median)):
            forward = t["framework"] / t["rollout"]
            bare = t["rollout + backward"]
            gradient, loss = t["gradient, framework"] / bare, t["loss, framework"] / bare
            print(
                f"batch {batch:3d}, {what:6s}: forward {forward:.3f}, with gradient "
                f"{gradient:.3f}, with the framework's own loss {loss:.3f} ({1e3 * bare:.1f} ms)"
            )


if __name__ == "__main__":
    main()

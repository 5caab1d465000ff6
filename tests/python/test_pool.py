"""What a pool of workers is made of, without the machines: chunks, sums, workers. test_ray.py has
the rest.
"""

import importlib
import pickle
import sys

import diffmj
import numpy as np
import pytest
from conftest import CUBE, PENDULUM
from diffmj import _pool_worker
from diffmj._pool_chunks import Chunk, Chunks
from diffmj._pool_worker import Worker
from diffmj._tree_sum import TreeSum, tree_sum

SIZES = (1, 2, 3, 7, 8, 100, 1023)


def cut(total: int, nworker: int = 2, threads: int = 1, seed: int = 0, **options) -> list[Chunk]:
    """Chunks of a batch whose rollouts take random times."""
    rng = np.random.default_rng(seed)
    chunks = Chunks(total)
    for name, value in options.items():
        setattr(chunks, name, value)
    out = []
    while (chunk := chunks.next(nworker, threads)) is not None:
        out.append(chunk)
        chunks.measured(chunk, len(chunk) * 10.0 ** rng.uniform(-4, 0))
    return out


def test_a_sum_is_a_sum():
    rng = np.random.default_rng(0)
    for n in SIZES:
        x = rng.standard_normal((n, 3))
        np.testing.assert_allclose(tree_sum(x), x.sum(axis=0), rtol=1e-12, atol=1e-12)
    assert tree_sum(np.arange(5.0)) == 10
    # (((a + b) + (c + d)) + e): large numbers that cancel tell the order
    assert tree_sum(np.array([1e20, -1e20, 1.0, 2.0, 1e20])) == 1e20
    assert tree_sum(np.array([1.0, 1e20, -1e20, 1.0])) == 0.0


@pytest.mark.parametrize("n", SIZES)
def test_sums_of_chunks_have_the_bits_of_the_whole(n):
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, 4)) * 10.0 ** rng.uniform(-8, 8, (n, 1))
    whole = tree_sum(x)
    for seed in range(20):
        chunks = cut(n, nworker=1 + seed % 5, threads=1 + seed % 3, seed=seed)
        assert [c.begin for c in chunks[1:]] == [c.end for c in chunks[:-1]]
        assert (chunks[0].begin, chunks[-1].end) == (0, n)
        total = TreeSum(n)
        for i in rng.permutation(len(chunks)):
            assert total.total is None
            c = chunks[i]
            total.add(c.begin, c.end, {"x": tree_sum(x[c.begin : c.end])})
        np.testing.assert_array_equal(total.total["x"], whole)


def test_chunks_follow_what_was_measured():
    def sizes(**options):
        return [len(x) for x in cut(1 << 14, **options)]

    for x in cut(1 << 14):
        assert x.begin % len(x) == 0
    assert max(sizes(most=32)) == 32
    assert max(sizes(most=33)) == 32
    # slow rollouts are sent one by one
    chunks = Chunks(1000)
    chunks.seconds = 10.0
    assert len(chunks.next(2, 1)) == 1
    # fast ones are shared among the workers, and chunks get smaller towards the end
    chunks = Chunks(1 << 14)
    chunks.seconds = 1e-9
    lengths = []
    while (chunk := chunks.next(4, 1)) is not None:
        lengths.append(len(chunk))
    assert lengths[0] == 2048 and lengths == sorted(lengths, reverse=True) and lengths[-1] == 1
    # a worker with many threads gets a rollout for each
    chunks = Chunks(1000)
    chunks.seconds = 10.0
    assert len(chunks.next(2, 16)) == 16
    assert str(Chunk(3, 4)) == "3" and str(Chunk(4, 8)) == "4 to 7"


def test_gradients_are_summed(cube):
    qvel = np.random.default_rng(0).standard_normal((5, 6))
    traj = cube.rollout(qvel=qvel, nstep=20)
    grad = traj.backward(qpos=np.ones_like(traj.qpos), params=["geom_size"])
    total = grad.sum()
    for name in ("qpos", "qpos_tangent", "qvel", "act", "ctrl", "qfrc_applied"):
        x = getattr(grad, name)
        np.testing.assert_array_equal(getattr(total, name), tree_sum(x))
        np.testing.assert_allclose(getattr(total, name), x.sum(axis=0), rtol=1e-9, atol=1e-9)
    assert total.params["geom_size"].shape == (2, 3)
    assert total.xfrc_applied is None and total.statistics == {}
    single = cube.rollout(nstep=3)
    with pytest.raises(diffmj.InputError, match="single rollout, expected a batch"):
        single.backward(qpos=np.ones_like(single.qpos)).sum()


def test_a_worker_makes_what_it_lost_again():
    fetched = []
    worker = Worker(2, lambda x: fetched.append(x) or pickle.loads(x))
    sim = diffmj.Simulator(CUBE)
    qvel = np.random.default_rng(0).standard_normal((3, 6))
    inputs = pickle.dumps({"qvel": qvel})
    shared = {
        "sim": (1, [pickle.dumps(sim)]),
        "common": (2, [pickle.dumps({"nstep": 30, "sensors": False})]),
    }
    arguments = {"number": 2, "inputs": [inputs]}
    seconds, out = worker.run(_pool_worker.rollout, 8, shared, arguments)
    assert seconds > 0 and out["ok"].tolist() == [True] * 3 and out["message"] == {}
    assert worker.state() == {"kept": 1, "shared": 2, "loads": 2}
    more = arguments | {"function": _pool_worker.fetch, "arguments": {"name": "qpos"}}
    _, qpos = worker.run(_pool_worker.of_trajectory, 8, shared, more)
    np.testing.assert_array_equal(qpos, sim.rollout(qvel=qvel, nstep=30).qpos)
    assert fetched.count(inputs) == 1
    worker.forget([2])
    assert worker.state() == {"kept": 0, "shared": 1, "loads": 2}
    _, again = worker.run(_pool_worker.of_trajectory, 8, shared, more)
    np.testing.assert_array_equal(again, qpos)
    assert fetched.count(inputs) == 2
    assert worker.hello()["threads"] == 2


def test_segments_are_pickled():
    sim = diffmj.Simulator(PENDULUM)
    traj = sim.rollout(qpos=[0.3], nstep=20)
    recording = diffmj.Recording(
        traj.time, qpos=traj.qpos, qvel=traj.qvel, ctrl=np.zeros((21, 1)), weights={"qvel": 2.0}
    )
    one = diffmj.segments(sim, recording, 5)[2]
    copy = pickle.loads(pickle.dumps(one))
    assert (copy.recording, copy.first, copy.length) == (one.recording, one.first, one.length)
    residuals = copy.residuals(sim.rollout(**copy.inputs))
    for name, x in one.residuals(sim.rollout(**one.inputs)).items():
        np.testing.assert_array_equal(residuals[name], x)
    for a, b in zip(one._record.targets, copy._record.targets, strict=True):
        assert (a.name, a.observable, a.offset) == (b.name, b.observable, b.offset)
        np.testing.assert_array_equal(a.weights, b.weights)


def test_without_ray_an_error_says_so(monkeypatch):
    for name in [x for x in sys.modules if x == "diffmj.ray" or x.startswith("diffmj._pool")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r"pip install 'diffmj\[ray\]'"):
        importlib.import_module("diffmj.ray")

"""diffmj.ray: the same bits as one process, on a cluster of two nodes that loses and gains workers.

`make test-ray` runs it, in an environment with Ray; `make test` has none.
"""

import functools
import gc
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import diffmj
import numpy as np
import pytest
from conftest import (
    BALLS_IN_A_ROW,
    CUBE,
    DIVERGES,
    PENDULUM,
    REACHING_ARM,
    SLIDER,
    ZOO,
    cap_is_said,
    fallen,
)

if "DIFFMJ_REQUIRE_RAY" not in os.environ:
    pytest.importorskip("ray", reason="no Ray here: make test-ray runs these tests")

# on a machine that is busy
os.environ.setdefault("RAY_worker_register_timeout_seconds", "300")
os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's default is 15

import diffmj.ray
import ray
from ray.cluster_utils import Cluster

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
)

# workers have no such module
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

ARRAYS = ("qpos", "qpos_tangent", "qvel", "act", "ctrl", "qfrc_applied")
STORE = 100 * 2**20  # bytes


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one core each, on this machine."""
    head = {"num_cpus": 1, "object_store_memory": STORE}
    made = Cluster(initialize_head=True, connect=True, head_node_args=head)
    made.add_node(num_cpus=1, object_store_memory=STORE)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


def with_workers(pool: diffmj.ray.Pool, count: int = 2) -> diffmj.ray.Pool:
    """The pool, once it has this many workers."""
    deadline = time.monotonic() + 120
    while len(pool.workers) != count and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(pool.workers) == count
    return pool


@pytest.fixture(scope="module")
def cube_pool(cluster):
    with diffmj.ray.Pool(diffmj.Simulator(CUBE), address=cluster.address) as pool:
        yield with_workers(pool)


def throws(n: int) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, 6))


def assert_same(a: diffmj.Gradient, b: diffmj.Gradient) -> None:
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert a.params.keys() == b.params.keys()
    for name, x in a.params.items():
        np.testing.assert_array_equal(x, b.params[name], err_msg=name)


def height(traj: diffmj.Trajectory):
    bar = np.zeros_like(traj.qpos[:, -1])
    bar[:, 2] = 1
    return traj.qpos[:, -1, 2], {"final": {"qpos": bar}}


def test_the_cube_has_the_bits_of_one_process(cube_pool):
    sim, n = cube_pool.simulator, 77
    assert {x["threads"] for x in cube_pool.workers} == {1}
    assert len({x["node"] for x in cube_pool.workers}) == 2
    here = sim.rollout(qvel=throws(n), nstep=60)
    there = cube_pool.rollout(qvel=throws(n), nstep=60)
    assert isinstance(there, diffmj.Trajectory) and there.batch == n and there.nstep == 60
    assert len({x.worker for x in there._record.chunks}) == 2
    for name in ("time", "qpos", "qvel", "act", "qacc", "xpos", "site_xmat", "steps", "completed"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name), err_msg=name)
    assert here.steps.ncon.max() > 0 and there.ok.all() and there.outcome == here.outcome
    bars = {"qpos": np.random.default_rng(1).standard_normal(here.qpos.shape)}
    params = ["geom_size", "geom_friction"]
    gradient = here.backward(**bars, params=params)
    assert_same(there.backward(**bars, params=params), gradient)
    assert_same(there.backward(bars["qpos"], params=params, sum=True), gradient.sum())
    final = {"final": {"qpos": bars["qpos"][:, -1]}}
    some = there.backward(**final, only=["qvel"])
    np.testing.assert_array_equal(some.qvel, here.backward(**final).qvel)
    assert some.ctrl is None and some.qpos is None
    for a, b in zip(there.linearize(), here.linearize(), strict=True):
        np.testing.assert_array_equal(a, b)
    tangents = np.random.default_rng(2).standard_normal((n, 2, 6))
    np.testing.assert_array_equal(
        there.forward(qvel=tangents).qpos, here.forward(qvel=tangents).qpos
    )
    forces = {3: 40, 60 - 1: 41}
    for step, rollout in forces.items():
        a, b = (x.constraint_forces(step, rollout) for x in (there, here))
        np.testing.assert_array_equal(a.force, b.force)
    np.testing.assert_array_equal(there.row("xpos", 10), here.xpos[:, 10])
    np.testing.assert_array_equal(there.row("qpos"), here.qpos[:, -1])
    speed = there.apply(lambda t, axis: {"v": t.qvel[:, -1, axis]}, 2)["v"]
    np.testing.assert_array_equal(speed, here.qvel[:, -1, 2])
    # one step each
    A, B = cube_pool.linearize(qvel=throws(n), qfrc_applied=np.ones((n, 6)))
    C, D = sim.linearize(qvel=throws(n), qfrc_applied=np.ones((n, 6)))
    np.testing.assert_array_equal(A, C)
    np.testing.assert_array_equal(B, D)
    # in one go
    values, gradient = cube_pool.value_and_gradient(
        height, qvel=throws(n), nstep=60, params=["geom_size"]
    )
    np.testing.assert_array_equal(values, here.qpos[:, -1, 2])
    expected = here.backward(**height(here)[1], params=["geom_size"])
    assert_same(gradient, expected)
    total, gradient = cube_pool.value_and_gradient(height, qvel=throws(n), nstep=60, sum=True)
    assert total == pytest.approx(values.sum(), rel=1e-12)
    np.testing.assert_array_equal(gradient.qvel, expected.sum().qvel)


def test_the_humanoid_has_the_bits_of_one_process_for_any_chunks(cluster):
    sim = diffmj.Simulator(str(ZOO / "humanoid.xml"))
    rng = np.random.default_rng(0)
    given = {
        "qpos": fallen(sim),
        "qvel": 0.1 * rng.standard_normal((11, sim.nv)),
        "ctrl": 0.1 * rng.standard_normal((11, 20, sim.nu)),
        "sensors": True,
    }
    here = sim.rollout(**given)
    bars = {"qvel": rng.standard_normal(here.qvel.shape)}
    gradient = here.backward(**bars, params=["body_mass"])
    for chunk in (1, 3, None):
        with diffmj.ray.Pool(sim, chunk=chunk) as pool:
            there = pool.rollout(**given)
            np.testing.assert_array_equal(there.qpos, here.qpos)
            np.testing.assert_array_equal(there.sensordata, here.sensordata)
            assert_same(there.backward(**bars, params=["body_mass"]), gradient)
            assert_same(there.backward(**bars, params=["body_mass"], sum=True), gradient.sum())
            if chunk is not None:
                assert max(len(x) for x in there._record.chunks) == {1: 1, 3: 2}[chunk]
    assert ray.is_initialized()  # the cluster was joined, not started


def test_other_batches(cluster):
    # parameters of their own, adaptive steps, steps of another rollout
    family = diffmj.ParametricSimulator(PENDULUM, ["hinge/damping"])
    damping = np.linspace(0.05, 0.4, 9)
    sim = family.at({"hinge/damping": damping})
    here = sim.rollout(qpos=[0.5], nstep=40)
    with diffmj.ray.Pool(sim) as pool:
        there = pool.rollout(qpos=[0.5], nstep=40)
        np.testing.assert_array_equal(there.qpos, here.qpos)
        bars = {"qpos": np.ones_like(here.qpos)}
        for name, x in family.backward(here, **bars).items():
            np.testing.assert_array_equal(family.backward(there, **bars)[name], x)
        with pytest.raises(diffmj.InputError, match="parameters for 9 rollouts"):
            pool.rollout(qpos=np.zeros((3, 1)), nstep=2)
    sim = diffmj.Simulator(PENDULUM, "tsit5", rtol=1e-4)
    starts = np.linspace(-1, 1, 6)[:, None]
    given = sim.rollout(qpos=[0.2], nstep=10)
    with diffmj.ray.Pool(sim) as pool:
        for extra in ({}, {"steps_of": given}):
            here = sim.rollout(qpos=starts, nstep=10, **extra)
            there = pool.rollout(qpos=starts, nstep=10, **extra)
            np.testing.assert_array_equal(there.qpos, here.qpos)
            assert [x.accepted for x in there.integrator] == [x.accepted for x in here.integrator]
            a, b = (x.backward(final={"qpos": np.ones((6, 1))}) for x in (there, here))
            assert_same(a, b)
            assert a.statistics == b.statistics


def test_what_is_wrong_is_told_as_on_one_machine(cube_pool, cluster):
    for wrong, message in (
        ({"nstep": 3}, "no argument has a batch dimension"),
        ({"qvel": np.zeros((3, 5)), "nstep": 3}, r"qvel has shape \(3, 5\)"),
        ({"qvel": np.zeros((3, 6))}, "nstep is not given"),
    ):
        with pytest.raises(diffmj.InputError, match=message):
            cube_pool.rollout(**wrong)
    bad = throws(40)
    bad[33, 2] = np.nan
    with pytest.raises(diffmj.InputError, match="nan") as caught:
        cube_pool.rollout(qvel=bad, nstep=3)
    # the worker counts from the first of its chunk
    shift = re.search(r"count from rollout (\d+)", str(caught.value))
    number = re.search(r"rollout (\d+)", str(caught.value))
    assert int(number[1]) + int(shift[1]) == 33
    traj = cube_pool.rollout(qvel=throws(3), nstep=3)
    with pytest.raises(diffmj.InputError, match=r"expected \(B, nstep \+ 1, nq\) = \(3, 4, 7\)"):
        traj.backward(qpos=np.zeros((3, 7)))
    with pytest.raises(diffmj.InputError, match="only has 'ctrls'"):
        traj.backward(qpos=np.zeros((3, 4, 7)), only=["ctrls"])
    with pytest.raises(diffmj.InputError, match="no array 'qpose'"):
        traj.row("qpose")
    with pytest.raises(diffmj.InputError, match="one row each"):
        traj.apply(lambda t: t.qpos[0])
    with pytest.raises(diffmj.InputError, match="one number per rollout"):
        cube_pool.value_and_gradient(lambda t: (0.0, height(t)[1]), qvel=throws(3), nstep=2)
    with pytest.raises(ZeroDivisionError):
        cube_pool.map(lambda sim, x: 1 / x, [1, 0])
    with pytest.raises(diffmj.InputError, match="cannot be pickled"):
        traj.__reduce__()
    with pytest.raises(diffmj.InputError, match="Ray client"):
        diffmj.ray.Pool(address="ray://somewhere:10001")
    with pytest.raises(diffmj.InputError, match="this process is connected to"):
        diffmj.ray.Pool(address="somewhere:6379")
    with pytest.raises(diffmj.InputError, match="has no simulator"):
        with diffmj.ray.Pool() as pool:
            pool.rollout(qvel=throws(3), nstep=3)
    with pytest.raises(diffmj.InputError, match="it is closed"):
        pool.map(len, ["x"])


def test_rollouts_that_fail(cluster):
    sim = diffmj.Simulator(SLIDER)
    ctrl = np.zeros((8, 5, 1))
    ctrl[[2, 6]] = DIVERGES
    with pytest.warns(RuntimeWarning) as expected:
        here = sim.rollout(ctrl=ctrl)
    with diffmj.ray.Pool(sim) as pool:
        with pytest.warns(RuntimeWarning, match=r"2 of 8 rollouts failed \(rollout 2, 6\)") as told:
            there = pool.rollout(ctrl=ctrl)
        assert str(told[0].message) == str(expected[0].message)
        assert told[0].filename == __file__
        assert there.ok.tolist() == here.ok.tolist() and there.message == here.message
        np.testing.assert_array_equal(there.qpos, here.qpos)
        bars = {"final": {"qpos": np.ones((8, 1))}}
        assert_same(there.backward(**bars), here.backward(**bars))
        assert np.isnan(there.backward(**bars, sum=True).qvel).all()


def test_a_worker_that_is_killed_costs_time_not_results(cluster):
    sim, n = diffmj.Simulator(CUBE), 64
    here = sim.rollout(qvel=throws(n), nstep=100)
    bars = {"final": {"qpos": np.ones((n, 7))}}
    killed, shares = [], []

    def progress(share: float) -> None:
        """Kills a worker in the middle of a batch."""
        shares.append(share)
        if not killed and share < 1:
            killed.append(pool.workers[0]["pid"])
            os.kill(killed[0], signal.SIGKILL)

    with diffmj.ray.Pool(sim, chunk=8, progress=progress) as pool:
        there = pool.rollout(qvel=throws(n), nstep=100)
        assert killed and shares == sorted(shares) and shares[-1] == 1
        np.testing.assert_array_equal(there.qpos, here.qpos)
        # and in the middle of the gradient: trajectories that were lost are made again
        killed.clear()
        assert_same(there.backward(**bars), here.backward(**bars))
        assert killed
        assert_same(there.backward(**bars, sum=True), here.backward(**bars).sum())
        with_workers(pool)
        assert killed[0] not in [x["pid"] for x in pool.workers]


def test_a_chunk_that_kills_every_worker_is_named(cluster):
    def fatal(traj):
        if traj.qvel[0, 0, 0] == throws(16)[8, 0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return height(traj)

    with diffmj.ray.Pool(diffmj.Simulator(CUBE), chunk=4) as pool:
        with pytest.raises(diffmj.Error, match=r"(?s)rollouts 8( to \d+)?: 3 workers died"):
            pool.value_and_gradient(fatal, qvel=throws(16), nstep=2)
        # the pool goes on
        values, _ = pool.value_and_gradient(height, qvel=throws(16), nstep=2)
        assert values.shape == (16,)


def test_a_chunk_that_does_not_fit_in_memory_is_named(cube_pool):
    with pytest.raises(diffmj.OutOfMemoryError, match=r"rollouts 0 to \d+ do not fit .*needs"):
        cube_pool.rollout(qvel=throws(5), nstep=2**31 - 10)

    def large(traj):
        if traj.qvel[0, 0, 0] == throws(16)[8, 0]:
            raise MemoryError("no memory for that")
        return height(traj)

    with pytest.raises(diffmj.OutOfMemoryError, match=r"rollouts? 8.* do not fit .*no memory for"):
        cube_pool.value_and_gradient(large, qvel=throws(16), nstep=2)


def test_nodes_that_join_are_used_and_those_that_leave_are_not_missed(cluster):
    sim, n = diffmj.Simulator(CUBE), 256
    here = sim.rollout(qvel=throws(n), nstep=100)
    nodes = []

    def progress(share: float) -> None:
        if not nodes:
            nodes.append(cluster.add_node(num_cpus=1, object_store_memory=STORE))

    with diffmj.ray.Pool(sim, chunk=8, progress=progress) as pool:
        with_workers(pool)
        deadline = time.monotonic() + 120
        while True:
            there = pool.rollout(qvel=throws(n), nstep=100)
            used = {x.worker.node for x in there._record.chunks}
            if len(used) == 3 or time.monotonic() > deadline:
                break
        assert len(used) == 3
        cluster.remove_node(nodes[0])
        np.testing.assert_array_equal(there.qpos, here.qpos)
        bars = {"final": {"qpos": np.ones((n, 7))}}
        assert_same(there.backward(**bars), here.backward(**bars))
        with_workers(pool)


def test_models_are_shipped_once_and_trajectories_are_forgotten(cluster):
    sim = diffmj.Simulator(CUBE)
    with diffmj.ray.Pool(sim, chunk=2) as pool:
        with_workers(pool)
        gc.collect()
        before = pool._cluster.states()

        def more(what: str) -> list[int]:
            after = pool._cluster.states()
            return [a[what] - b[what] for a, b in zip(after, before, strict=True)]

        trajectories = [pool.rollout(qvel=throws(32), nstep=2) for _ in range(3)]
        # the simulator once, and what the rollouts of a call share once for each call
        assert max(more("loads")) <= 1 + 3
        kept = sum(len(x._record.chunks) for x in trajectories)
        assert sum(more("kept")) == kept >= 3 * 16
        pool.value_and_gradient(height, qvel=throws(32), nstep=2)
        assert sum(more("kept")) == kept
        del trajectories
        gc.collect()
        assert more("kept") == [0, 0] and max(more("shared")) <= 1


def anonymous() -> float:
    """Megabytes of memory of this process alone, without what it shares with the object store."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", text)[1]) / 1024


def test_the_memory_of_the_driver_is_flat(cluster):
    n, nstep = 500, 100
    qpos = np.random.default_rng(0).standard_normal((n, 1))
    with diffmj.ray.Pool(diffmj.Simulator(PENDULUM)) as pool:

        def gradient() -> diffmj.Gradient:
            traj = pool.rollout(qpos=qpos, nstep=nstep)
            return traj.backward(final={"qpos": traj.row("qpos")}, sum=True)

        first = gradient()
        before = anonymous()
        for _ in range(10):
            again = gradient()
        assert_same(again, first)
        # the states alone of ten batches are 10 * 500 * 101 * 2 * 8 bytes = 8 MB
        assert anonymous() - before < 4


def lift(batch):
    tip = batch.site_xpos[:, -1, 0, 2]
    bar = np.zeros_like(batch.site_xpos)
    bar[:, -1, 0, 2] = -1e-2
    return -1e-2 * tip, {"site_xpos": bar}


@pytest.mark.parametrize("method", ["sampling", "hybrid", "gradient"])
def test_planners_have_the_same_bits(cube_pool, method):
    sim = diffmj.Simulator(REACHING_ARM)
    cost = [diffmj.SiteDistance("tip", "goal"), diffmj.OwnCost(lift, ["site_xpos"])]
    given = {"horizon": 40, "knots": 8, "iterations": 3, "rate": 0.1, "samples": 12, "starts": 3}
    here = diffmj.Planner(sim, cost, method, **given)
    there = diffmj.Planner(sim, cost, method, **given, pool=cube_pool)
    seen = []
    for _ in range(2):
        a, b = here.plan([0.1, 0.2]), there.plan([0.1, 0.2], progress=seen.append)
        np.testing.assert_array_equal(a.ctrl, b.ctrl)
        assert (a.cost, a.terms, a.rollouts) == (b.cost, b.terms, b.rollouts)
        here.shift(0.05)
        there.shift(0.05)
    assert [x.rollouts for x in seen[-len(b.history) :]] == [x.rollouts for x in b.history]
    if method == "sampling":
        a, b = (diffmj.run_mpc(x, [0.1, 0.2], nstep=20, execute=10) for x in (here, there))
        np.testing.assert_array_equal(a.qpos, b.qpos)
    with pytest.raises(diffmj.InputError, match="unavailable with method ilqr"):
        diffmj.Planner(sim, cost[:1], "ilqr", pool=cube_pool)


def test_plans_and_fits_say_that_contacts_were_left_out(cube_pool):
    for most, says in ((1, True), (30, False)):
        cfd = diffmj.Cfd(width=1, max_contacts=most)
        sim = diffmj.Simulator(BALLS_IN_A_ROW, cfd=cfd)
        cost = [diffmj.JointPosition(["x0"], [0.1])]
        planner = diffmj.Planner(sim, cost, "gradient", horizon=3, iterations=2, pool=cube_pool)
        assert cap_is_said(planner.plan) == says
        traj = sim.rollout(qvel=[0.1, 0, 0, 0], nstep=5)
        ctrl = np.zeros((6, 1))
        data = [diffmj.Recording(traj.time, qpos=traj.qpos, qvel=traj.qvel, ctrl=ctrl)]
        given = {"method": "adam", "iterations": 2, "simulator": {"cfd": cfd}, "pool": cube_pool}
        fit = functools.partial(diffmj.identify, BALLS_IN_A_ROW, {"ball0/mass": 1.1}, data, **given)
        assert cap_is_said(fit) == says


def test_ctrl_c_ends_a_plan_with_the_best_until_then(cube_pool):
    sim = diffmj.Simulator(REACHING_ARM)
    planner = diffmj.Planner(
        sim, [diffmj.SiteDistance("tip", "goal")], "sampling", horizon=20, pool=cube_pool,
        iterations=1000, samples=8,
    )  # fmt: skip

    def progress(x):
        if x.iteration == 2:
            os.kill(os.getpid(), signal.SIGINT)

    plan = planner.plan([0.1, 0.2], progress=progress)
    assert plan.interrupted and 3 <= len(plan.history) < 1000


def recordings() -> list[diffmj.Recording]:
    sim = diffmj.Simulator(REACHING_ARM)
    rng = np.random.default_rng(0)
    out = []
    for i in range(3):
        ctrl = 3 * rng.standard_normal((30, 2))
        traj = sim.rollout(rng.standard_normal(2), ctrl=ctrl)
        rows = np.vstack([ctrl, np.full((1, 2), np.nan)])
        out.append(
            diffmj.Recording(traj.time, qpos=traj.qpos, qvel=traj.qvel, ctrl=rows, name=f"{i}")
        )
    return out


def test_fits_have_the_same_bits(cube_pool):
    start = {"elbow/damping[0]": 0.1, "rod/mass": 0.9}
    given = {"bounds": dict.fromkeys(start, (0, 10)), "segment": 5, "iterations": 4}
    for method, extra in (("adam", {"minibatch": 7}), ("adam", {}), ("lbfgs", {})):
        shown: list = []
        both = ({}, {"pool": cube_pool, "progress": lambda *x, to=shown: to.append(x)})
        a, b = (
            diffmj.identify(
                REACHING_ARM, start, recordings(), method=method, **given, **extra, **more
            )
            for more in both
        )
        assert a.values == b.values and a.loss == b.loss and a.errors == b.errors
        assert [x.loss for x in a.history] == [x.loss for x in b.history]
        assert len(shown) == len(b.history)
    with pytest.raises(diffmj.InputError, match="method 'lm' runs on threads"):
        diffmj.identify(REACHING_ARM, start, recordings(), method="lm", pool=cube_pool)


def test_sweeps(cube_pool):
    def search(sim, seed):
        qvel = np.random.default_rng(seed).standard_normal(6)
        return sim.nthread, sim.rollout(qvel=qvel, nstep=10).qpos[-1, 2], os.getpid()

    found = cube_pool.map(search, range(40))
    sim = with_workers(cube_pool).simulator
    assert [x[0] for x in found] == [1] * 40
    assert [x[1] for x in found] == [search(sim, i)[1] for i in range(40)]
    assert {x[2] for x in found} == {x["pid"] for x in cube_pool.workers}
    assert cube_pool.map(search, []) == []
    with diffmj.ray.Pool() as pool:
        assert pool.map(lambda x: 2 * x, [1, 2]) == [2, 4]


CTRL_C = """
import os, sys
import numpy as np
import diffmj, diffmj.ray
from conftest import CUBE

pool = diffmj.ray.Pool(diffmj.Simulator(CUBE), threads=1, progress=lambda share: None)
print("ready", flush=True)
try:
    while True:
        pool.rollout(qvel=np.zeros((200, 6)), nstep=2000)
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
    # the pool goes on, with new workers
    assert pool.rollout(qvel=np.zeros((2, 6)), nstep=2).ok.all()
    print("again", flush=True)
"""


def processes_with(mark: str) -> list[str]:
    """Command lines of all processes that have this in their environment."""
    out = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes():
                out.append((path / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it ended meanwhile
    return out


def test_ctrl_c_leaves_no_process_behind():
    mark = f"DIFFMJ_TEST_RAY={os.getpid()}"
    environment = {k: x for k, x in os.environ.items() if k != "RAY_ADDRESS"}
    environment |= dict([mark.split("=")])
    process = subprocess.Popen(
        [sys.executable, "-c", CTRL_C],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
        env=environment,
        start_new_session=True,
    )
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(1)
        assert len(processes_with(mark)) > 3  # the driver, Ray's own, workers
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert out == "KeyboardInterrupt\nagain\n"
    deadline = time.monotonic() + 30
    while processes_with(mark) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_with(mark) == []


def test_examples_of_the_page_run(cluster, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.xml").write_text(REACHING_ARM)
    text = (Path(__file__).parents[2] / "docs" / "ray.md").read_text()
    names: dict = {}
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    for code in blocks:
        exec(code, names)
    names["pool"].close()

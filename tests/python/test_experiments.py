"""The experiments: their numbers at two tolerances, and that every one of them runs and draws."""

import json

import diffmj
import numpy as np
import pytest

from experiments import common, declaration
from experiments.impact import tosses
from experiments.toss import convergence, speeds


@pytest.mark.parametrize("body", speeds.BODIES)
def test_tosses_are_scenes_of_the_fast_path(body):
    sim = diffmj.Simulator(common.SCENARIOS / f"toss/{body}.xml", fallback=False)
    start = sim.keyframe_state("throw")
    np.testing.assert_array_equal(start.qpos, sim.default_state().qpos)
    np.testing.assert_array_equal(start.qvel, [0, -0.1, -2, 0, 0, 0])


def test_toss_converges():
    rows, reference = convergence.measure((1e-8, 1e-10))
    expected = common.expected(convergence.__file__)["cube"]
    for row in rows:
        assert row["loss"] == pytest.approx(expected["loss"], rel=1e-5)
        for adjoint in convergence.ADJOINTS:
            assert row[adjoint] == pytest.approx(expected["gradient"], rel=1e-2)
    for name, value in reference.items():
        assert value == pytest.approx(expected[name], rel=1e-4)


def test_oscillation():
    smooth = np.linspace(0, 1, 11)
    rough = smooth + 0.5 * (-1.0) ** np.arange(11)
    curves = dict.fromkeys((*speeds.KINDS, "differences"), smooth) | {"Euler": rough}
    out = speeds.summary(curves)
    assert out["Euler"]["oscillation"] == pytest.approx(10)
    assert out["discrete"] == {"oscillation": 1, "median": 0, "95 %": 0}


def test_a_body_may_have_bounds_of_its_own():
    checks = common.Checks()
    summaries = {"box": {"smooth": {"median": 2}}, "cylinder": {"smooth": {"median": 2}}}
    speeds.check(summaries, {"smooth": {"median": 1, "cylinder": {"median": 3}}}, checks)
    assert [x["ok"] for x in checks.rows] == [False, True]


def test_a_missed_check_is_an_exit_code(capsys):
    checks = common.Checks()
    checks.below("small", 1, 2)
    assert checks.report() == 0
    checks.above("large", 1, 2)
    checks.below("not a number", np.nan, 2)
    assert checks.report() == 1
    assert "large: 1, expected > 2" in capsys.readouterr().out


@pytest.mark.parametrize("experiment", declaration.experiments(), ids=lambda x: x.name)
def test_quick(experiment, tmp_path):
    """It runs, meets its numbers, and leaves what its declaration promises."""
    assert experiment.module().main(["--quick", "--out", str(tmp_path)]) == 0
    folder = tmp_path / experiment.name
    for figure in experiment.figures:
        assert (folder / f"{figure['file']}.png").stat().st_size > 10_000
    record = json.loads((folder / "numbers.json").read_text())
    assert record["checks"]
    assert all(check["ok"] for check in record["checks"])
    for row in experiment.numbers:
        format(declaration.lookup(record["numbers"], row["ours"]), row.get("format", ""))
    tables = list(folder.glob("*.csv"))
    assert tables
    for table in tables:
        head, *rows = table.read_text().splitlines()
        assert len(rows) > 1
        assert head


def test_classes_of_tosses():
    """What an experiment calls agreement, and what it does not."""
    x = {
        "gradient": np.array([1.00005, 1.1, 1.1, 1.1, np.nan]),
        "differences": np.ones(5),
        "bar": np.array([0, 0, 0, 1e-2, 0]),
        "slowest": np.array([1e-3, 1e-3, 1, 1, 1]),
    }
    words = ["agrees", "grazing", "differs", "no differences", "budget"]
    assert tosses.classify(x).tolist() == words

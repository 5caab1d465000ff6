"""scripts/certify.py: certificates of a folder of scenes."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PENDULUM

SCRIPT = Path(__file__).parents[2] / "scripts" / "certify.py"
WEDGED = """
<mujoco>
  <worldbody><body><joint name="x" type="slide"/><geom size="0.1"/></body></worldbody>
  <actuator>
    <motor name="wedged" joint="x" ctrllimited="true" ctrlrange="-1e-13 1e-13"/>
  </actuator>
</mujoco>
"""


def certify(*arguments):
    command = [sys.executable, SCRIPT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path):
    for name, text in (("good", PENDULUM), ("wedged", WEDGED), ("broken", "<mujoco><nonsense/>")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scene.xml").write_text(text)
    (tmp_path / "good" / "other.xml").write_text(PENDULUM)
    return tmp_path


def test_table_and_summary(folder, tmp_path):
    reports = tmp_path / "reports"
    done = certify(folder, "--jobs", "2", "--directions", "2", "--nstep", "3", "--reports", reports)
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "passed" in rows["good/scene.xml"]
    assert "inconclusive" in rows["wedged/scene.xml"]
    assert "control of actuator 'wedged' is clamped" in rows["wedged/scene.xml"]
    assert "not loaded" in rows["broken/scene.xml"]
    assert "good/other.xml" not in rows
    last = done.stdout.splitlines()[-1]
    assert last.startswith("3 of 3 scenes: 1 passed, 1 inconclusive, 1 not loaded")
    assert "PASSED" in (reports / "good_scene.xml.txt").read_text()


def test_pattern_and_single_file(folder):
    done = certify(folder, "--pattern", "good/*.xml", "--directions", "1", "--settle", "0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("2 of 2 scenes: 2 passed")
    done = certify(folder / "good" / "other.xml", "--directions", "1")
    assert done.stdout.splitlines()[-1].startswith("1 of 1 scenes: 1 passed")


def test_a_crash_is_reported(folder):
    # check refuses the number of steps, as an exception that nothing expects would end it
    done = certify(folder, "--pattern", "good/scene.xml", "--seed", "-1")
    assert done.returncode == 1
    assert "crashed" in done.stdout
    assert "seed" in done.stdout


def test_wrong_arguments(folder):
    assert certify(folder / "absent").returncode == 2
    assert "--jobs is 0" in certify(folder, "--jobs", "0").stderr
    assert "--tolerance is -1.0" in certify(folder, "--tolerance", "-1").stderr
    done = certify(folder, "--pattern", "*.mjb")
    assert done.returncode == 2
    assert "matches *.mjb" in done.stderr

"""Ctrl-C stops a long call, and other Python threads run meanwhile."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

CODE = """
import sys
import numpy as np
import diffmj
from conftest import CUBE, PENDULUM

# a record of little memory that takes long, so that the signal arrives while C++ runs
sim = diffmj.Simulator(PENDULUM, nthread=2)
cube = diffmj.Simulator(CUBE)
record = sim.rollout(nstep=200_000)
weights = np.ones_like(record.qpos)
work = {
    "rollout": lambda: sim.rollout(nstep=3_000_000),
    "batch": lambda: sim.rollout(qpos=np.zeros((4, 1)), nstep=1_000_000),
    "backward": lambda: record.backward(qpos=weights),
    "check": lambda: cube.check(nstep=200, directions=100_000),
}[sys.argv[1]]
print("ready", flush=True)
try:
    while True:
        work()
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
    assert sim.rollout(nstep=10).ok  # everything still works
"""


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize("what", ["rollout", "batch", "backward", "check"])
def test_interrupt(what):
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, what],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
    )
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "KeyboardInterrupt" in out
    assert time.monotonic() - sent < 5


def test_exception_of_a_signal_handler():
    code = """
import signal
import diffmj
from conftest import PENDULUM

class Alarm(Exception):
    pass

def ring(signum, frame):
    raise Alarm("ring")

signal.signal(signal.SIGALRM, ring)
sim = diffmj.Simulator(PENDULUM)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    sim.rollout(nstep=3_000_000)
except Alarm as error:
    print("Alarm", error)
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parent
    )
    assert run.stdout == "Alarm ring\n", run.stderr


def test_other_threads_run_meanwhile(pendulum):
    done = threading.Event()
    ticks = 0

    def tick():
        nonlocal ticks
        while not done.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    pendulum.rollout(nstep=300_000)
    seconds = time.perf_counter() - start
    done.set()
    thread.join()
    assert ticks > 20 * seconds  # with the lock held it would be one or two

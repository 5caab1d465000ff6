#!/usr/bin/env python3
"""Certificates of the gradients of a folder of MJCF scenes.

Settles every scene, checks the gradient at the state it reaches, and prints one row per scene and a
summary. Each scene has a process of its own: one that crashes or takes too long is reported as
such.

    scripts/certify.py mujoco_menagerie
    scripts/certify.py mujoco_menagerie --pattern "unitree*/scene.xml" --jobs 4 --reports out

The exit status is 1 if a certificate failed or a scene crashed, 2 for a wrong argument, 130 after
Ctrl-C, else 0. Scenes that cannot be loaded or settled and inconclusive certificates do not change
it; the table says why they are.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

# in the order of the summary
VERDICTS = ("passed", "inconclusive", "failed", "crashed", "not settled", "not loaded")

children: set[subprocess.Popen] = set()


def certify(scene: Path, settle: int, options: dict) -> dict:
    """Settles one scene and checks it, in this process."""
    import warnings

    import diffmj

    warnings.simplefilter("ignore", diffmj.FallbackWarning)
    result = {"nv": 0, "reason": "", "seconds": 0.0, "report": ""}
    try:
        sim = diffmj.Simulator(scene)
    except diffmj.Error as error:
        return result | {"verdict": "not loaded", "reason": str(error)}
    result["nv"] = sim.nv
    # models that have keyframes begin at the first one, with its controls
    try:
        start = sim.keyframe_state(0)
    except diffmj.InputError:
        start = sim.default_state()
    inputs = {name: value for name, value in vars(start).items() if value is not None}
    if settle > 0:
        try:
            end = sim.rollout(**inputs, nstep=settle)
        except diffmj.RolloutError as error:
            return result | {"verdict": "not settled", "reason": str(error)}
        last = {name: getattr(end, name)[-1] for name in ("time", "qpos", "qvel", "act")}
        inputs |= {name: value for name, value in last.items() if name in inputs}
    begin = time.perf_counter()
    report = sim.check(**inputs, **options)
    result["seconds"] = time.perf_counter() - begin
    result["verdict"] = report.verdict
    result["reason"] = report.reason
    result["report"] = str(report)
    result["agree"] = sum(d.verdict == "agrees" for d in report.directions)
    result["directions"] = len(report.directions)
    return result


def certify_apart(scene: Path, arguments: argparse.Namespace) -> dict:
    """The same in another process, which may crash."""
    command = [sys.executable, __file__, str(scene), "--only-this", "--settle", arguments.settle]
    for name in ("nstep", "directions", "seed", "tolerance"):
        command += [f"--{name}", getattr(arguments, name)]
    failure = {"nv": 0, "seconds": 0.0, "report": "", "verdict": "crashed"}
    # a session of its own: Ctrl-C comes to this process alone
    child = subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    children.add(child)
    try:
        output, errors = child.communicate(timeout=arguments.timeout)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return failure | {"reason": f"not finished after {arguments.timeout:g} s"}
    finally:
        children.discard(child)
    if child.returncode != 0:
        last = (errors.strip().splitlines() or ["no message"])[-1]
        if child.returncode < 0:
            last = f"ended by {signal.Signals(-child.returncode).name}: {last}"
        return failure | {"reason": last}
    return json.loads(output.splitlines()[-1])


def first_line(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def print_row(name: str, result: dict, width: int) -> None:
    print(
        f"{name:<{width}} {result['nv']:>4} {result['verdict']:<12} {result['seconds']:>8.1f}  "
        + first_line(result["reason"], 160),
        flush=True,
    )


def run_all(scenes: dict[str, Path], arguments: argparse.Namespace, results: dict) -> None:
    """Prints a row as soon as a scene is finished."""
    width = max(len(name) for name in scenes)
    print(f"{'scene':<{width}} {'nv':>4} {'verdict':<12} {'seconds':>8}  reason", flush=True)
    pool = concurrent.futures.ThreadPoolExecutor(arguments.jobs)
    try:
        futures = {
            pool.submit(certify_apart, path, arguments): name for name, path in scenes.items()
        }
        for future in concurrent.futures.as_completed(futures):
            name = futures[future]
            results[name] = future.result()
            print_row(name, results[name], width)
            if arguments.reports and results[name]["report"]:
                file = arguments.reports / (name.replace("/", "_") + ".txt")
                file.write_text(results[name]["report"] + "\n")
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in list(children):
            child.kill()
        raise
    pool.shutdown()


def summary(results: dict, scenes: dict) -> str:
    counts = {verdict: 0 for verdict in VERDICTS}
    for result in results.values():
        counts[result["verdict"]] += 1
    text = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    seconds = sorted(r["seconds"] for r in results.values() if r["seconds"] > 0)
    text = f"{len(results)} of {len(scenes)} scenes: {text or 'none'}"
    if seconds:
        text += f"; a check took {seconds[len(seconds) // 2]:.1f} s in the median, "
        text += f"{seconds[-1]:.1f} s at most"
    return text


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a folder of scenes, or one file")
    parser.add_argument("--pattern", default="**/scene*.xml", help="default: %(default)s")
    parser.add_argument("--settle", type=int, default=200, help="steps; default: %(default)s")
    parser.add_argument("--nstep", type=int, default=10, help="that are checked; %(default)s")
    parser.add_argument("--directions", type=int, default=8, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--tolerance", type=float, default=1e-5, help="default: %(default)s")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="scenes at a time")
    parser.add_argument("--timeout", type=float, default=600, help="seconds a scene may take")
    parser.add_argument("--reports", type=Path, help="folder for the certificates as text")
    parser.add_argument("--only-this", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    for name, least in (("settle", 0), ("nstep", 1), ("directions", 1), ("jobs", 1)):
        if getattr(arguments, name) < least:
            parser.error(f"--{name} is {getattr(arguments, name)}, expected at least {least}")
    for name in ("tolerance", "timeout"):
        if not getattr(arguments, name) > 0:
            parser.error(f"--{name} is {getattr(arguments, name)}, expected a number above 0")
    if not arguments.folder.exists():
        parser.error(f"there is no folder or file {arguments.folder}")
    return arguments


def main(argv: list[str] | None = None) -> int:
    arguments = parse(argv)
    if arguments.only_this:
        options = {
            name: getattr(arguments, name) for name in ("nstep", "directions", "seed", "tolerance")
        }
        print(json.dumps(certify(arguments.folder, arguments.settle, options)))
        return 0
    if arguments.folder.is_file():
        scenes = {arguments.folder.name: arguments.folder}
    else:
        paths = sorted(arguments.folder.glob(arguments.pattern))
        scenes = {str(path.relative_to(arguments.folder)): path for path in paths}
    if not scenes:
        print(f"no file in {arguments.folder} matches {arguments.pattern}", file=sys.stderr)
        return 2
    if arguments.reports:
        arguments.reports.mkdir(parents=True, exist_ok=True)
    results: dict[str, dict] = {}
    status = 0
    try:
        run_all(scenes, arguments, results)
    except KeyboardInterrupt:
        print("\ninterrupted; what was finished:", flush=True)
        status = 130
    print(summary(results, scenes), flush=True)
    if status == 0:
        status = int(any(r["verdict"] in ("failed", "crashed") for r in results.values()))
    if status == 130:
        sys.stdout.flush()
        os._exit(status)  # the pool's threads need not end first
    return status


if __name__ == "__main__":
    sys.exit(main())

"""Runs the experiments and writes one page to look at: out/report/index.html.

usage: python -m experiments.demo [--full] [--only NAME ...] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from experiments import declaration, film
from experiments.page import Result, page

ROOT = declaration.FOLDER.parent
NO_FILM = (
    "MuJoCo found neither EGL nor OSMesa to render with; on Debian, libegl1, libegl-mesa0 and "
    "libgl1-mesa-dri provide it (scripts/setup.sh installs them where it may)."
)


class Progress:
    """A bar on a terminal, otherwise a line per experiment."""

    def __init__(self, total: int):
        self.total, self.done, self.start = total, 0, time.perf_counter()
        self.terminal = sys.stdout.isatty()

    def show(self, doing: str) -> None:
        if not self.terminal:
            return
        width = max(10, min(30, shutil.get_terminal_size().columns - 50))
        full = width * self.done // self.total
        bar = "#" * full + "-" * (width - full)
        seconds = time.perf_counter() - self.start
        print(f"\r\033[K[{bar}] {self.done}/{self.total} {seconds:4.0f} s  {doing}", end="")
        sys.stdout.flush()

    def finish(self, line: str) -> None:
        self.done += 1
        print(("\r\033[K" if self.terminal else "") + line, flush=True)


def run(experiment, quick: bool, out: Path, progress: Progress) -> Result:
    """One experiment, in a process of its own."""
    start = time.perf_counter()
    folder = out / experiment.name
    (folder / "numbers.json").unlink(missing_ok=True)  # of an earlier run
    command = [sys.executable, "-m", f"experiments.{experiment.name}.run", "--out", str(out)]
    log = out / f"{experiment.name}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command + ["--quick"] * quick, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while process.poll() is None:
                progress.show(experiment.title)
                time.sleep(0.2)
        finally:
            process.kill()
    file = folder / "numbers.json"
    record = json.loads(file.read_text()) if file.exists() else None
    seconds = time.perf_counter() - start
    return Result(experiment, folder, seconds, log.read_text(), record)


def add_film(result: Result, renderer: str) -> None:
    """MuJoCo chooses a renderer when it is imported: a process of its own."""
    name = result.experiment.name
    command = [sys.executable, "-m", "experiments.film", name, str(result.folder)]
    environment = os.environ | film.variables(renderer)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode == 0:
        result.strip = (result.folder / "strip.png").read_bytes()
        result.film = (result.folder / "film.webp").read_bytes()
    else:
        print(f"no film of {name}: {done.stderr.strip()}")
        result.no_film = (done.stderr.splitlines() or ["the renderer ended without a word"])[-1]


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="all points: minutes, not seconds")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the experiments")
    parser.add_argument("--out", type=Path, default="out/report", help="where files go")
    options = parser.parse_args(argv)
    options.out = options.out.resolve()
    chosen = declaration.experiments()
    if options.only:
        unknown = set(options.only) - {x.name for x in chosen}
        if unknown:
            names = ", ".join(x.name for x in chosen)
            parser.error(f"no experiment {', '.join(sorted(unknown))}; there are {names}")
        chosen = [x for x in chosen if x.name in options.only]

    options.out.mkdir(parents=True, exist_ok=True)
    progress, results = Progress(len(chosen)), []
    renderer = film.backend()
    for experiment in chosen:
        result = run(experiment, not options.full, options.out, progress)
        results.append(result)
        if experiment.film and renderer and result.record:
            add_film(result, renderer)
        state = "failed" if result.record is None else f"{len(result.missed)} numbers missed"
        progress.finish(f"  {experiment.title}: {result.seconds:.0f} s, {state}")

    versions = next((x.record["versions"] for x in results if x.record), {})
    about = (
        f"{'All points' if options.full else 'Quick mode: fewer points than the recorded runs'}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + f"; {time.perf_counter() - progress.start:.0f} s in all."
    )
    file = options.out / "index.html"
    file.write_text(page(results, about, NO_FILM))
    print(f"wrote {os.path.relpath(file)}: open it in a browser")
    return int(any(x.record is None or x.missed for x in results))


if __name__ == "__main__":
    sys.exit(main())

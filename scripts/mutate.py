#!/usr/bin/env python3
"""Which wrong line would the tests not notice?

Changes one operator, sign or index of a source file at a time, builds, runs the C++ tests until
one fails, and puts the file back. A change that no test notices is printed: it needs a test, or a
reason why it makes no difference.

    python scripts/mutate.py build-mutate --tests 'stages|adjoint' --count 100 src/adjoint/*.cc

BUILD is a build directory with shared libraries (cmake -DBUILD_SHARED_LIBS=ON --preset dev -B
build-mutate), in which a mutant costs one file and one link. Work on a copy of the repository.
"""

import argparse
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

# what is replaced, and by what; applied to code without strings and comments
CHANGES = [
    (r"(?<=[\w)\]]) \+ (?=[\w(])", " - "),
    (r"(?<=[\w)\]]) - (?=[\w(])", " + "),
    (r" \+= ", " -= "),
    (r" -= ", " += "),
    (r"(?<=[\w)\]]) \* (?=[\w(])", " / "),
    (r"(?<=[\w)\]]) / (?=[\w(])", " * "),
    (r" < ", " > "),
    (r" > ", " < "),
    (r" <= ", " < "),
    (r" >= ", " > "),
    (r" == ", " != "),
    (r" != ", " == "),
    (r" && ", " || "),
    (r" \|\| ", " && "),
    (r"(?<=[=(,] )-(?=[a-z(])", ""),
    (r"\[0\]", "[1]"),
    (r"\[1\]", "[0]"),
    (r"\b0\.5\b", "1.5"),
    (r"\b2 \* ", "3 * "),
    (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"),
]
SKIPPED = re.compile(r"^\s*(//|#|template|using|static_assert|for \(|throw|namespace|\*)|Error\(")


def mutants(path: Path) -> list[tuple[int, int, int, str]]:
    """Line, begin, end and replacement of every change that the file allows."""
    out = []
    for number, line in enumerate(path.read_text().splitlines()):
        code = re.sub(r'"[^"]*"', lambda m: "~" * len(m.group()), line.split("//")[0])
        if SKIPPED.search(code):
            continue
        for pattern, replacement in CHANGES:
            for match in re.finditer(pattern, code):
                out.append((number, match.start(), match.end(), replacement))
    return out


def run(command: list[str], seconds: float) -> bool:
    try:
        return (
            subprocess.run(
                command, capture_output=True, timeout=seconds, start_new_session=True, check=False
            ).returncode
            == 0
        )
    except subprocess.TimeoutExpired:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=Path, help="build directory with shared libraries")
    parser.add_argument("files", type=Path, nargs="+", help="source files")
    parser.add_argument("--tests", default=".", help="names of the tests to run, as of ctest -R")
    parser.add_argument("--exclude", default="packaging|benchmark", help="as of ctest -E")
    parser.add_argument("--count", type=int, default=100, help="mutants, at most")
    parser.add_argument("--seed", type=int, default=1, help="of the choice among all of them")
    parser.add_argument("--jobs", type=int, default=2, help="tests at a time")
    parser.add_argument("--seconds", type=float, default=600, help="a mutant may take")
    args = parser.parse_args()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    build = ["cmake", "--build", str(args.build), "--target", "diffmj"]
    test = [
        "ctest", "--test-dir", str(args.build), "-R", args.tests, "-E", args.exclude,
        "--stop-on-failure", "-j", str(args.jobs), "--no-tests=error",
    ]  # fmt: skip
    if not run(build, args.seconds) or not run(test, 10 * args.seconds):
        print("the tests fail without any change")
        return 2

    chosen = [(path, *m) for path in args.files for m in mutants(path)]
    random.Random(args.seed).shuffle(chosen)
    survivors, killed, broken = [], 0, 0
    for path, number, begin, end, replacement in chosen:
        if killed + len(survivors) >= args.count:
            break
        original = path.read_text()
        lines = original.splitlines(keepends=True)
        before = lines[number]
        lines[number] = before[:begin] + replacement + before[end:]
        started = time.monotonic()
        try:
            path.write_text("".join(lines))
            if not run(build, args.seconds):
                broken += 1
                continue
            if run(test, args.seconds):
                survivors.append((path, number))
                verdict = "SURVIVED"
            else:
                killed += 1
                verdict = "killed  "
        finally:
            path.write_text(original)
        print(
            f"{verdict} {path}:{number + 1}: {lines[number].strip()}    "
            f"(was: {before[begin:end].strip()!r}, {time.monotonic() - started:.0f} s)",
            flush=True,
        )
    print(f"{killed} killed, {len(survivors)} survived, {broken} did not compile")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())

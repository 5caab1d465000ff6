#!/usr/bin/env python3
"""Installs the wheels of a folder as a user would, and tests what a user would do first.

    check_wheels.py --wheels dist --work build-wheel python3.11 python3.12 ...

For every Python and every supported MuJoCo: a fresh virtual environment in which there is no
compiler, the import, a gradient of a humanoid beside differences, the program, and an
uninstallation that leaves nothing. Once for every Python, an old numpy, and a MuJoCo that is not
supported.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from build_wheels import version_of
from fetch_mujoco import ROOT, releases

HUMANOID = ROOT / "tests" / "testdata" / "zoo" / "humanoid.xml"
UNSUPPORTED = "3.16.0"
SECONDS = 10  # for import and gradient together
OLD_NUMPY = {(3, 11): "1.26.4", (3, 12): "1.26.4", (3, 13): "2.1.3"}

GRADIENT = """
import time
begin = time.perf_counter()
import sys
import mujoco, numpy as np, diffmj
assert diffmj.mujoco_version == mujoco.__version__, (diffmj.mujoco_version, mujoco.__version__)
sim = diffmj.Simulator(sys.argv[1])
start = sim.default_state()
ctrl = np.zeros((100, sim.nu))
traj = sim.rollout(qpos=start.qpos, qvel=start.qvel, ctrl=ctrl)
bar = np.zeros(sim.nq)
bar[2] = 1
grad = traj.backward(final={"qpos": bar})
seconds = time.perf_counter() - begin
assert np.isfinite(grad.ctrl).all() and np.abs(grad.qvel).max() > 0
report = sim.check(qpos=start.qpos, qvel=start.qvel, nstep=5, directions=4)
assert report.passed, str(report)
print(f"{diffmj.__version__} {np.__version__} {seconds:.2f}")
"""


class Environment:
    """A fresh virtual environment, whose programs are the only ones on the path."""

    def __init__(self, python: str, folder: Path):
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", folder], check=True)
        self.folder, self.bin = folder, folder / "bin"
        keep = ("HOME", "LANG", "PIP_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
        proxies = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
        self.environment = {x: os.environ[x] for x in (*keep, *proxies) if x in os.environ}
        self.environment["PATH"] = str(self.bin)
        for compiler in ("cc", "c++", "gcc", "g++", "clang", "cmake", "ninja"):
            assert shutil.which(compiler, path=self.environment["PATH"]) is None, compiler

    def run(self, *command: object, code: int = 0) -> str:
        done = subprocess.run(
            [str(x) for x in command],
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=600,
        )
        words = " ".join(str(x)[:60] for x in command)
        assert done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stdout}"
        return done.stdout

    def python(self, *arguments: object, code: int = 0) -> str:
        return self.run(self.bin / "python", *arguments, code=code)

    def pip(self, *arguments: object) -> None:
        self.python("-m", "pip", "--disable-pip-version-check", "-q", *arguments)

    def files(self) -> set[str]:
        """Everything that is installed; caches of bytecode belong to who imports."""
        paths = (x.relative_to(self.folder) for x in self.folder.rglob("*") if not x.is_dir())
        return {str(x) for x in paths if "__pycache__" not in x.parts}


def wheel_for(wheels: Path, version: tuple[int, int]) -> Path:
    tag = f"cp{version[0]}{version[1]}"
    for wheel in wheels.glob("*.whl"):
        if f"-{tag}-{tag}-" in wheel.name or (version >= (3, 12) and "-cp312-abi3-" in wheel.name):
            return wheel
    sys.exit(f"check_wheels: no wheel in {wheels} is for Python {version[0]}.{version[1]}")


def check_contents(wheel: Path) -> None:
    """One extension and one program for each release, and no library of MuJoCo."""
    names = zipfile.ZipFile(wheel).namelist()
    assert "manylinux" in wheel.name, wheel.name
    assert not [x for x in names if "libmujoco" in x], names
    for release in releases():
        folder = f"diffmj/_releases/{release}/"
        assert [x for x in names if x.startswith(f"{folder}_diffmj.")], (release, names)
        assert f"{folder}bin/diffmj" in names, (release, names)
    for name in ("diffmj/py.typed", "diffmj/_diffmj.pyi", "diffmj/__main__.py"):
        assert name in names, name


def check(environment: Environment, wheel: Path, release: str, numpy: str) -> str:
    # what a wheel depends on is there before: what the uninstallation leaves is compared with that
    environment.pip(
        *("install", "--only-binary", ":all:", f"mujoco=={release}"),
        *([f"numpy=={numpy}"] if numpy else []),
    )
    before = environment.files()
    environment.pip("install", "--only-binary", ":all:", wheel)
    version, numpy_version, seconds = environment.python("-c", GRADIENT, HUMANOID).split()
    assert float(seconds) < SECONDS, f"import and gradient took {seconds} s"
    assert not numpy or numpy_version == numpy, numpy_version

    program = environment.bin / "diffmj"
    expected = f"diffmj {version} (MuJoCo compiled {release}, loaded {release})\n"
    assert environment.run(program, "--version") == expected
    assert environment.python("-m", "diffmj", "--version") == expected
    doctor = environment.run(program, "doctor")
    for word in ("works", version, release, numpy_version):
        assert word in doctor, f"{word} is not in\n{doctor}"
    assert "passed" in environment.run(program, "check", HUMANOID, "--nstep", "3").splitlines()[0]

    environment.pip("uninstall", "-y", "diffmj")
    left = {x for x in environment.files() - before if "diffmj" in x}
    assert not left, f"the uninstallation leaves {sorted(left)}"
    return seconds


def check_unsupported(environment: Environment, wheel: Path) -> None:
    """A MuJoCo that is not supported: errors that name those that are, and a doctor that works."""
    environment.pip("install", "--only-binary", ":all:", f"mujoco=={UNSUPPORTED}")
    environment.pip("install", "--no-deps", wheel)
    error = environment.python("-c", "import diffmj", code=1).splitlines()[-1]
    program = environment.run(environment.bin / "diffmj", "check", HUMANOID, code=2)
    doctor = environment.run(environment.bin / "diffmj", "doctor", code=2)
    assert error.startswith("ImportError") and program.count("\n") == 1, (error, program)
    for text in (error, program, doctor):
        for release in (UNSUPPORTED, *releases()):
            assert release in text, f"{release} is not in\n{text}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("pythons", nargs="+")
    args = parser.parse_args()
    folder = args.work.resolve() / "fresh"
    for python in args.pythons:
        version = version_of(python)
        wheel = wheel_for(args.wheels.resolve(), version)
        check_contents(wheel)
        # every release with the newest numpy, the newest release with an old one
        cases = [(release, "") for release in releases()]
        if version in OLD_NUMPY:
            cases.append((releases()[0], OLD_NUMPY[version]))
        for release, numpy in cases:
            begin = time.perf_counter()
            seconds = check(Environment(python, folder), wheel, release, numpy)
            print(
                f"Python {version[0]}.{version[1]}, MuJoCo {release}, numpy {numpy or 'newest'}: "
                f"import and gradient in {seconds} s ({time.perf_counter() - begin:.0f} s in all)",
                flush=True,
            )
        check_unsupported(Environment(python, folder), wheel)
        print(f"Python {version[0]}.{version[1]}, MuJoCo {UNSUPPORTED}: refused", flush=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()

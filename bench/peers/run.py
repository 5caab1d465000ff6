"""The same gradient by diffmj and by its peers, as one table of ratios.

Each runs in a process of its own, on one core, and times a loop of mj_step over the same steps in
turn with its gradient: that is the unit. Times are those of the processor. What a peer cannot do is
a row too, with its reason.

usage: python bench/peers/run.py [--limit SECONDS] [--only WORD ...]     (after make package)

Peers live in virtual environments of their own, out/peers/<name>, made when they are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from scenes import SCENES, _myosuite

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# title: environment, script and its arguments
PEERS = {
    "diffmj": ("", ["peer_diffmj.py"]),
    "mjd_transitionFD, forward": ("", ["peer_transition_fd.py", "forward"]),
    "mjd_transitionFD, centred": ("", ["peer_transition_fd.py", "centred"]),
    "MJX": ("mjx", ["peer_mjx.py", "as it is"]),
    "MJX, one solver iteration": ("mjx", ["peer_mjx.py", "one iteration"]),
    "MJX, solver loop as a scan": ("mjx", ["peer_mjx.py", "scan"]),
    "MJX + Diffrax, Tsit5 at 1e-6": ("mjx", ["peer_mjx_diffrax.py", "1e-6"]),
}
ANOTHER_MOTION = ("one solver iteration", "Diffrax")  # not comparable number by number


def python(environment: str) -> str:
    """The interpreter of an environment; makes the environment if it is not there."""
    if not environment:
        return sys.executable
    folder = ROOT / "out/peers" / environment
    if not (folder / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        requirements = HERE / f"requirements-{environment}.txt"
        pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "-r", requirements]
        subprocess.run(pip, check=True)
    return str(folder / "bin/python")


def measure(title: str, scene: str, limit: float) -> dict:
    """What a peer printed, or {"failure": its reason}."""
    environment, (script, *arguments) = PEERS[title]
    one_core = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    variables = os.environ | dict.fromkeys(one_core, "1")
    variables |= {"MYOSUITE": str(_myosuite()), "JAX_PLATFORMS": "cpu"}
    variables["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    command = ["taskset", "-c", "1", python(environment), HERE / script, scene, *arguments]
    try:
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=limit, cwd=HERE
        )
    except subprocess.TimeoutExpired:
        return {"failure": f"not done after {limit:.0f} s, compilation included"}
    if done.returncode:
        return {"failure": reason(done.stderr)}
    return json.loads(done.stdout.splitlines()[-1])


def reason(stderr: str) -> str:
    """The line that names the error, of a Python traceback or of the system."""
    lines = [x.strip() for x in stderr.splitlines() if x.strip()]
    errors = [x for x in lines if "Error" in x.split(":")[0] and " " not in x.split(":")[0]]
    return (errors or lines or ["no message"])[-1][:200]


def row(title: str, x: dict, reference: np.ndarray | None) -> list[str]:
    if "failure" in x:
        return [title, "–", "–", "–", x["failure"]]
    gradient = np.array(x["gradient"])
    bad = int(np.sum(~np.isfinite(gradient)))
    note = ""
    if bad:
        note = f"{bad} of {len(gradient)} entries are not finite"
    elif reference is not None and reference is not gradient:
        if any(word in title for word in ANOTHER_MOTION):
            note = "the gradient of other steps"
        else:
            off = np.linalg.norm(gradient - reference) / np.linalg.norm(reference)
            note = f"differs by {off:.1e} from diffmj's" if title != "diffmj" else ""
    ratio = x["seconds"] / x["mj_step"]
    return [title, f"{ratio:.3g}", f"{1e3 * x['seconds']:.3g}", f"{x['compile']:.0f}", note]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit", type=float, default=600, help="seconds for one row")
    parser.add_argument("--only", nargs="+", default=[""], help="rows whose title has a word")
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=list(SCENES))
    options = parser.parse_args()
    versions = set()
    for scene in options.scenes:
        print(f"\n{scene}, {SCENES[scene][3]} steps\n")
        print("| | in units of mj_step | ms | compilation [s] | |\n| --- | --- | --- | --- | --- |")
        reference = None
        for title in PEERS:
            if title != "diffmj" and not any(word in title for word in options.only):
                continue
            x = measure(title, scene, options.limit)
            if title == "diffmj" and "failure" not in x:
                reference = np.array(x["gradient"])
            versions.add(x.get("version", ""))
            print("| " + " | ".join(row(title, x, reference)) + " |", flush=True)
    print("\n" + "; ".join(sorted(versions - {""})))


if __name__ == "__main__":
    main()

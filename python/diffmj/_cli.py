"""The console program `diffmj`: hands over to the binary packed beside this file."""

import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).parent / "bin" / "diffmj"
    if not program.exists():
        sys.exit(f"diffmj: this package was built without its command-line program ({program})")
    # whose renderer makes films
    os.environ["DIFFMJ_PYTHON"] = sys.executable
    # exec: signals, exit code and standard streams are the program's own
    os.execv(program, [sys.argv[0], *sys.argv[1:]])


if __name__ == "__main__":
    main()

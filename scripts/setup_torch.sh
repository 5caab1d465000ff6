#!/usr/bin/env bash
# Makes a virtual environment with PyTorch on top of the one that diffmj is built with, whose packages
# it uses. PyTorch's wheel for Linux needs its CUDA libraries when it is imported: 5 GB in all. It can
# be removed at any time.
#   usage: setup_torch.sh <venv> <venv with PyTorch>
set -euo pipefail

base=$1
venv=$2
here=$(cd "$(dirname "$0")" && pwd)

"$base/bin/python" -m venv "$venv"
site='import sysconfig; print(sysconfig.get_path("purelib"))'
"$base/bin/python" -c "$site" >"$("$venv/bin/python" -c "$site")/diffmj_base.pth"
echo "setup: installing PyTorch into $venv (5 GB)" >&2
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements-torch.txt"

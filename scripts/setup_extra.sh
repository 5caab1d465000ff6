#!/usr/bin/env bash
# Makes a virtual environment with further packages on top of the one that diffmj is built with, whose
# packages it uses. It can be removed at any time. PyTorch's wheel for Linux needs its CUDA libraries
# when it is imported, 5 GB in all; Ray takes 300 MB.
#   usage: setup_extra.sh <venv> <new venv> <requirements>
set -euo pipefail

base=$1
venv=$2
requirements=$3

"$base/bin/python" -m venv "$venv"
site='import sysconfig; print(sysconfig.get_path("purelib"))'
"$base/bin/python" -c "$site" >"$("$venv/bin/python" -c "$site")/diffmj_base.pth"
echo "setup: installing $(grep -v '^#' "$requirements" | tr '\n' ' ')into $venv" >&2
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"

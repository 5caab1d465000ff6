#!/usr/bin/env bash
# Makes a virtual environment with everything diffmj is built and tested with.
#   usage: setup.sh <python3> <venv> <MuJoCo version>
# C++ packages that are missing come from apt-get, where there is one and we may use it; CMake
# downloads the rest. Nothing is installed that is there already.
set -euo pipefail

python=$1
venv=$2
mujoco=$3
here=$(cd "$(dirname "$0")" && pwd)

say() { echo "setup: $*" >&2; }

# does the compiler find this header?
has_header() {
  echo "#include <$1>" | "${CXX:-c++}" -std=c++20 -I/usr/include/eigen3 -E -x c++ - >/dev/null 2>&1
}

missing=()
command -v cmake >/dev/null || missing+=(cmake)
command -v "${CXX:-c++}" >/dev/null || missing+=(g++)
has_header Eigen/Core || missing+=(libeigen3-dev)
has_header gtest/gtest.h || missing+=(libgtest-dev)
has_header benchmark/benchmark.h || missing+=(libbenchmark-dev)
has_header CLI/CLI.hpp || missing+=(libcli11-dev)
has_header nlohmann/json.hpp || missing+=(nlohmann-json3-dev)
has_header toml++/toml.h || missing+=(libtomlplusplus-dev)

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  say "$python is $("$python" --version), and 3.11 is the oldest that works: set PYTHON=<python3>"
  exit 1
}
# Debian packs these apart from its python3
"$python" -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
"$python" - <<'PY' || missing+=(python3-dev)
import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
PY

if ((${#missing[@]})); then
  "$here/apt_install.sh" "CMake will try to download what it needs" "${missing[@]}"
fi

# a test builds the package once more, and ccache spares it the compiler
command -v ccache >/dev/null || "$here/apt_install.sh" "make test takes longer" ccache

# MuJoCo renders the films of `make demo` with EGL or OSMesa
has_library() { "$python" -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' "$1" 2>/dev/null; }
has_library libEGL.so.1 || has_library libOSMesa.so.8 || has_library libOSMesa.so.6 ||
  "$here/apt_install.sh" "the report of make demo has no films" \
    libegl1 libegl-mesa0 libgl1-mesa-dri

if [[ ! -x $venv/bin/python ]]; then
  "$python" -m venv "$venv"
fi
pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check)
say "installing mujoco $mujoco and the Python packages into $venv"
"${pip[@]}" "mujoco==$mujoco" -r "$here/requirements.txt"
"${pip[@]}" --no-deps -r "$here/requirements-fixtures.txt"

# the presets need CMake 3.25
version=$(cmake --version 2>/dev/null | sed -n 's/^cmake version //p')
if [[ $(printf '%s\n' 3.25 "$version" | sort -V | head -n1) != 3.25 ]]; then
  say "cmake is ${version:-missing}: installing a newer one into $venv"
  "${pip[@]}" "cmake>=3.25"
fi

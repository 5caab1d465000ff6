#!/usr/bin/env bash
# Installs Debian packages where there is apt-get and we may use it; says so and goes on where not.
#   usage: apt_install.sh <what is lost without them> <package>...
set -euo pipefail

lost=$1
shift
say() { echo "setup: $*" >&2; }

if ! command -v apt-get >/dev/null; then
  say "missing $*, and no apt-get: $lost"
  exit 0
fi
as_root=()
if [[ $(id -u) != 0 ]]; then as_root=(sudo -n); fi
if ! "${as_root[@]}" true 2>/dev/null; then
  say "missing $*, and no right to use apt-get: $lost"
  exit 0
fi
say "installing $*"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq || true
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "$@" >&2 ||
  say "apt-get could not install $*: $lost"

#!/usr/bin/env bash
# A browser for the test that looks at the report, if there is none.
set -euo pipefail

for name in chromium-headless-shell chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null; then exit 0; fi
done
"$(dirname "$0")/apt_install.sh" "the test of the report in a browser is skipped" \
  chromium-headless-shell

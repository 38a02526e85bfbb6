#!/usr/bin/env bash
# Debian's headless Chromium for the browser tests; where it cannot be had, they are skipped and say so.
set -uo pipefail
LIMIT_S=300

for name in chromium-headless-shell chromium chromium-browser google-chrome-stable google-chrome; do
    command -v "$name" >/dev/null && exit 0
done
if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
    echo "Browser tests will be skipped: install Chromium (as root: apt-get install chromium-headless-shell)."
    exit 0
fi
echo "Installing Chromium for the browser tests (once) ..."
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# Each step is bounded, and a package manager that is busy elsewhere is waited for, not fought.
if timeout "$LIMIT_S" apt-get -qq -o DPkg::Lock::Timeout=120 update >"$log" 2>&1 &&
    timeout "$LIMIT_S" apt-get -qq -y -o DPkg::Lock::Timeout=120 install --no-install-recommends \
        chromium-headless-shell fonts-dejavu-core >>"$log" 2>&1; then
    rm -f "$log"
else
    echo "Browser tests will be skipped: Chromium could not be installed ($(tail -n 1 "$log"))."
    rm -f "$log"
fi
exit 0

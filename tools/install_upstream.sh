#!/usr/bin/env bash
# Upstream's packages, each in an environment of its own under .venv-upstream, for `rhapsode bench published --beside
# upstream` and its tests. A package that cannot be had on this machine is left out with a line that says so; its test is skipped.
set -euo pipefail
PYTHON=${PYTHON:-python3}
HERE=${1:-.venv-upstream}

install() {  # NAME PACKAGE_WITH_VERSION DEPENDENCY...
    local name=$1 package=$2
    shift 2
    if [[ -f $HERE/$name/.installed ]]; then
        return
    fi
    echo "Installing $package ..."
    "$PYTHON" -m venv --clear "$HERE/$name"
    # The package itself comes without its dependencies: some of them (torchaudio, gradio) are only imported.
    if "$HERE/$name/bin/pip" install -q --disable-pip-version-check "$@" \
        && "$HERE/$name/bin/pip" install -q --disable-pip-version-check --no-deps "$package"; then
        touch "$HERE/$name/.installed"
    else
        rm -rf "${HERE:?}/$name"
        echo "The tests beside $package will be skipped: it cannot be installed here."
    fi
}

mkdir -p "$HERE"
install qwen-tts qwen-tts==0.1.1 torch==2.13.0 transformers==4.57.3 accelerate==1.12.0 librosa soundfile einops pydantic
install voxcpm voxcpm==2.0.3 torch==2.13.0 transformers==5.22.2 einops soundfile librosa pydantic tqdm safetensors inflect wetext
install hibari-tts hibari-tts==0.2.1 numpy onnxruntime

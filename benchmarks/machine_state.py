"""The state of the machine that a measurement ran on: GPU, clocks, driver, CPU, load, versions."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from rhapsode.bench.machine import machine, revision, versions

FIELDS = (
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "power.draw",
    "temperature.gpu",
    "memory.used",
)


def gpu_state() -> dict[str, str]:
    """Returns what `nvidia-smi` says of the first GPU; empty where there is none."""
    command = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader"]
    try:
        printed = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(FIELDS, (value.strip() for value in printed.splitlines()[0].split(",")), strict=False))


def machine_state() -> dict[str, Any]:
    state = {key: value for key, value in machine().items() if key != "gpus"}
    return {**state, "gpu": gpu_state(), "versions": versions(), "revision": revision(), "load": os.getloadavg()}


def machine_lines(state: Mapping[str, Any]) -> Iterator[str]:
    gpu = ", ".join(f"{name} {value}" for name, value in state["gpu"].items()) or "none"
    load = " ".join(f"{one:.1f}" for one in state["load"])
    yield f"GPU: {gpu}"
    for name, after in state.items():
        if name.startswith("gpu after") and after:
            yield f"{name}: {', '.join(f'{key} {value}' for key, value in after.items())}"
    yield f"CPU: {state['cpu']}, {state['cores']} cores, {state['memory_bytes'] / 2**30:.0f} GiB; load average {load}"
    yield f"versions: {', '.join(f'{name} {version}' for name, version in state['versions'].items())}"
    yield f"revision: {state['revision'] or 'unknown'}; {state['platform']}"

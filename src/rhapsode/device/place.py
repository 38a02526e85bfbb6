"""Picks the device and the number format that a stage runs on."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from rhapsode.errors import ConfigError, did_you_mean

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}


def pick_device(name: str) -> torch.device:
    """Returns the device of this name; `auto` is the first GPU, or the CPU without one."""
    if name == "auto":
        name = "cuda:0" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"unknown device '{name}': use auto, cpu, cuda or cuda:N.") from None
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device '{name}' is not supported: use auto, cpu, cuda or cuda:N.")
    if device.type == "cuda":
        index = device.index or 0
        if index >= torch.cuda.device_count():
            raise ConfigError(f"there is no device '{name}' here: {torch.cuda.device_count()} GPUs are visible.")
        return torch.device("cuda", index)
    return device


def own_stream(device: str) -> Callable[[], AbstractContextManager[Any]]:
    """Returns a function that makes a context for a thread beside the device loop: on a GPU, a CUDA stream of its own.

    On the default stream, the kernels of such threads and the talker's would wait for each other.
    """
    if not device.startswith("cuda"):
        return nullcontext
    torch.cuda.synchronize(device)  # weights were copied on the default stream
    return lambda: torch.cuda.stream(torch.cuda.Stream(torch.device(device)))


def pick_dtype(name: str, device: torch.device) -> torch.dtype:
    """Returns the number format of this name; `auto` is bfloat16 on a GPU and float32 on a CPU."""
    if name == "auto":
        name = "bfloat16" if device.type == "cuda" else "float32"
    if name not in DTYPES:
        raise ConfigError(f"unknown dtype '{name}': {did_you_mean(name, DTYPES)}")
    return DTYPES[name]


def use_threads(threads: int | None, loops: int | None) -> None:
    """Sets how many CPU threads one operation may use; torch has one setting for the whole process.

    By default the loops share the cores equally: with more threads than cores, operations wait for each other. If
    `OMP_NUM_THREADS` is set, that number stays.
    """
    if threads is None and loops is not None and "OMP_NUM_THREADS" not in os.environ:
        threads = max(1, (os.cpu_count() or 1) // loops)
    if threads is not None and threads != torch.get_num_threads():
        torch.set_num_threads(threads)

"""Starts CUDA and Triton in threads, while the main thread imports modules and loads weights."""

from __future__ import annotations

import ctypes
import importlib
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

CUDA = "libcuda.so.1"


def has_gpu() -> bool:
    """Returns whether this process seems to have a GPU, without importing torch."""
    return any(Path("/dev").glob("nvidia[0-9]*")) and os.environ.get("CUDA_VISIBLE_DEVICES") != ""


def start_cuda(device: str) -> threading.Thread | None:
    """Starts CUDA on a device (`auto`, `cuda`, `cuda:N`) while torch is being imported; torch then finds it running."""
    kind, _, number = device.partition(":")
    if kind not in ("auto", "cuda") or not has_gpu():
        return None
    return _beside("cuda-start", lambda: _retain_context(int(number or 0)))


def _retain_context(number: int) -> None:
    """Creates the context that the whole process shares. Errors are ignored: torch will meet and report them."""
    os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")  # as torch does before it starts CUDA
    cuda, device, context = ctypes.CDLL(CUDA), ctypes.c_int(), ctypes.c_void_p()
    if cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), number) == 0:
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def start_triton() -> threading.Thread | None:
    """Computes the hashes that are in every kernel's cache key: of Triton's files (400 MB) and of its assembler.

    Triton keeps both. The imports run in the calling thread, because imports in two threads may wait for each other.
    """
    try:
        cache = importlib.import_module("triton.runtime.cache")
        compiler = importlib.import_module("triton.compiler.compiler")
        driver = importlib.import_module("triton.runtime").driver
    except (ImportError, AttributeError):
        return None

    def work() -> None:
        cache.triton_key()
        compiler.make_backend(driver.active.get_current_target()).hash()

    return _beside("triton-start", work)


def _beside(name: str, work: Callable[[], None]) -> threading.Thread:
    def run() -> None:
        with suppress(Exception):  # the work only saves time: without it the start is slower
            work()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread

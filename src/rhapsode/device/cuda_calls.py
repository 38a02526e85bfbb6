"""Calls to CUDA that keep Python's lock (the GIL).

Every call of torch releases the lock. Another thread, such as one that reads requests, then takes it and keeps it for
5 ms: under load, a turn of ten calls waited for most of 50 ms. These calls take microseconds, so they keep the lock.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

import torch

_NOT_READY = 600
_NO_TIMING = 2
_BY_ADDRESS = 4
"""Tells CUDA to find the direction of a copy from its two addresses."""


@cache
def _runtime() -> ctypes.PyDLL:
    """Returns the CUDA runtime that torch has loaded."""
    version = str(torch.version.cuda).partition(".")[0]
    runtime = ctypes.PyDLL(f"cudart64_{version}.dll" if sys.platform == "win32" else f"libcudart.so.{version}")
    address, size = ctypes.c_void_p, ctypes.c_size_t
    signatures: dict[str, list[Any]] = {
        "cudaGraphLaunch": [address, address],
        "cudaMemcpyAsync": [address, address, size, ctypes.c_int, address],
        "cudaEventCreateWithFlags": [ctypes.POINTER(address), ctypes.c_uint],
        "cudaEventRecord": [address, address],
        "cudaEventQuery": [address],
        "cudaEventElapsedTime": [ctypes.POINTER(ctypes.c_float), address, address],
        "cudaEventDestroy": [address],
        "cudaStreamWaitEvent": [address, address, ctypes.c_uint],
    }
    for name, arguments in signatures.items():
        getattr(runtime, name).argtypes = arguments
    runtime.cudaGetErrorString.restype = ctypes.c_char_p
    return runtime


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"CUDA: {_runtime().cudaGetErrorString(status).decode()}")


def _stream(device: torch.device) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream)


def launch(graph: int, device: torch.device) -> None:
    """Launches a graph, given as its `raw_cuda_graph_exec`, on the device's current stream."""
    _check(_runtime().cudaGraphLaunch(graph, _stream(device)))


def copy(target: int, source: int, nbytes: int, device: torch.device) -> None:
    """Starts a copy from one address to another on the device's current stream. Host memory must be pinned."""
    _check(_runtime().cudaMemcpyAsync(target, source, nbytes, _BY_ADDRESS, _stream(device)))


class CudaEvent:
    """A point in the work of a stream."""

    def __init__(self, device: torch.device, timed: bool = False) -> None:
        self._device, self._handle = device, ctypes.c_void_p()
        self._destroy = _runtime().cudaEventDestroy  # at the end of the interpreter this module may be gone
        with torch.cuda.device(device):
            _check(_runtime().cudaEventCreateWithFlags(ctypes.byref(self._handle), 0 if timed else _NO_TIMING))

    def __del__(self) -> None:
        self._destroy(self._handle)

    def record(self) -> None:
        """Marks this point of the device's current stream: it is reached when all launched before it has ended."""
        _check(_runtime().cudaEventRecord(self._handle, _stream(self._device)))

    def is_past(self) -> bool:
        """Returns whether the point has been reached. An event that was never recorded counts as past."""
        status = _runtime().cudaEventQuery(self._handle)
        if status == _NOT_READY:
            return False
        _check(status)
        return True

    def hold_back(self) -> None:
        """Makes later launches on the device's current stream wait for this point. The host does not wait."""
        _check(_runtime().cudaStreamWaitEvent(_stream(self._device), self._handle, 0))

    def seconds_since(self, earlier: CudaEvent) -> float:
        """Returns the seconds between two points. Both must have been made with `timed`, and be past."""
        elapsed_ms = ctypes.c_float()
        _check(_runtime().cudaEventElapsedTime(ctypes.byref(elapsed_ms), earlier._handle, self._handle))
        return elapsed_ms.value / 1e3

"""Measures the memory bandwidth of a device, which bounds the time of a frame from below."""

from __future__ import annotations

import torch

from rhapsode.bench.engine.clock import clock_for

GPU_BYTES, CPU_BYTES = 4 * 2**30, 2**28
TRIES = 8


def copy_bandwidth(device: torch.device) -> float:
    """Returns bytes per second, read and written, of the fastest of a few large copies."""
    size = GPU_BYTES if device.type == "cuda" else CPU_BYTES
    source = torch.ones(size // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    clock = clock_for(device)
    best_s = float("inf")
    for _ in range(TRIES):
        clock.wait()
        started = clock.mark()
        target.copy_(source)
        ended = clock.mark()
        clock.wait()
        best_s = min(best_s, clock.between_s(started, ended))
    return 2 * size / best_s

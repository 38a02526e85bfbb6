"""The operations that take most of a frame's time: each has a plain PyTorch reference and a GPU kernel.

A module here defines an operation: the reference, and the choice between it and the kernel. Operations take tensors and
the plain records defined here, never modules of `nn`. The GPU kernels are in `gpu/`; they and Triton are imported when
a CUDA tensor first needs one. `cpu/` has C kernels that run whole layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import Literal

import torch
from torch import Tensor

Mode = Literal["auto", "off", "always"]

_mode: ContextVar[Mode] = ContextVar("kernels", default="auto")  # of each thread


def on(x: Tensor) -> bool:
    """Returns whether GPU kernels process `x`."""
    mode = _mode.get()
    if mode == "auto":
        return x.is_cuda and x.dtype != torch.float64 and _has_triton()
    return mode == "always"


@contextmanager
def use(mode: Mode) -> Iterator[None]:
    """Sets when GPU kernels run in this thread. `off`: never. `always`: also for CPU tensors (Triton's interpreter)."""
    before = _mode.set(mode)
    try:
        yield
    finally:
        _mode.reset(before)


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None

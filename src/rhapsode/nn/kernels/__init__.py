"""The few operations a frame spends its time in: each one has a plain PyTorch reference and, beside it, a GPU twin.

A module here holds an operation's meaning: the reference, and the choice between it and the kernel. The kernels are in
`gpu/`, one module of the same name each, and nothing imports them (or Triton) before a CUDA tensor asks for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Literal

import torch
from torch import Tensor

Mode = Literal["auto", "off", "always"]

_mode: Mode = "auto"


def on(x: Tensor) -> bool:
    """Whether what is done to `x` is done by a kernel."""
    if _mode == "auto":
        return x.is_cuda and x.dtype != torch.float64 and _has_triton()
    return _mode == "always"


@contextmanager
def use(mode: Mode) -> Iterator[None]:
    """`off`: references alone, to compare with. `always`: kernels even for CPU tensors, for Triton's interpreter."""
    global _mode
    before, _mode = _mode, mode
    try:
        yield
    finally:
        _mode = before


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None

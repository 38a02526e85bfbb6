"""Compiles kernels without running them: one of several processes that fill Triton's cache together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_active = False


def active() -> bool:
    """Whether launches compile their kernels and do nothing else."""
    return _active


@contextmanager
def compile_only(shard: int, shards: int) -> Iterator[None]:
    """Makes every kernel launch compile, not run, where the kernel belongs to this shard of all kernels.

    Tensors that kernels would fill are zero, so that whatever is looked up with them exists.
    """
    global _active
    from triton import knobs
    from triton.runtime.jit import KernelInterface

    def skip(*_: Any, key: Any = None, fn: Any = None, **__: Any) -> bool:
        digest = hashlib.md5(f"{getattr(fn, 'name', fn)}{key}".encode(), usedforsecurity=False).digest()
        return int.from_bytes(digest[:4], "little") % shards != shard

    def compiling(kernel: Any, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: kernel.run(*args, grid=grid, warmup=True, **kwargs)

    interface: Any = KernelInterface
    launch, hook = interface.__getitem__, knobs.runtime.jit_cache_hook
    interface.__getitem__, knobs.runtime.jit_cache_hook = compiling, skip
    _active = True
    try:
        with _Zeros():  # type: ignore[no-untyped-call]
            yield
    finally:
        interface.__getitem__, knobs.runtime.jit_cache_hook = launch, hook
        _active = False


class _Zeros(TorchDispatchMode):
    """Fills new tensors with zeros."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if "empty" in func._schema.name and isinstance(made, Tensor) and made.is_cuda:
            made.zero_()
        return made


def available() -> bool:
    """Whether kernels are compiled here at all: on a GPU, by Triton."""
    if not torch.cuda.is_available():
        return False
    try:
        import triton.knobs  # noqa: F401
    except ImportError:
        return False
    return True

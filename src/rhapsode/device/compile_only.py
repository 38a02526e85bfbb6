"""Compiles kernels without running them: one of several processes that fill Triton's cache together."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_active = False
_ELSEWHERE = object()
"""Stands in Triton's table for a kernel that another process compiles: launches of it return at once."""


def active() -> bool:
    """Whether launches compile their kernels and do nothing else."""
    return _active


@contextmanager
def compile_only(claims: Path) -> Iterator[list[tuple[str, float]]]:
    """Makes every kernel launch compile, not run. Yields the kernels that were compiled here, with the seconds of each.

    Processes that share the folder `claims` share the work: a kernel is compiled by the first one that launches it.
    Tensors that kernels would fill are zero, so that whatever is looked up with them exists.
    """
    global _active
    from triton import knobs
    from triton.runtime.jit import KernelInterface

    compiled: list[tuple[str, float]] = []
    claimed = ""

    def is_done_elsewhere(*_: Any, key: Any, fn: Any, compile: Any, **__: Any) -> bool:
        nonlocal claimed
        if claim(claims, f"{fn.name}{key}"):
            claimed = fn.name
            return False
        fn.jit_function.device_caches[compile["device"]][0][key] = _ELSEWHERE
        return True

    def compiling(kernel: Any, grid: Any) -> Callable[..., None]:
        def launch(*args: Any, **kwargs: Any) -> None:
            nonlocal claimed
            claimed, started_s = "", time.perf_counter()
            kernel.run(*args, grid=grid, warmup=True, **kwargs)
            if claimed:
                compiled.append((claimed, time.perf_counter() - started_s))

        return launch

    interface: Any = KernelInterface
    launch, hook = interface.__getitem__, knobs.runtime.jit_cache_hook
    interface.__getitem__, knobs.runtime.jit_cache_hook = compiling, is_done_elsewhere
    _active = True
    try:
        with _Zeros():  # type: ignore[no-untyped-call]
            yield compiled
    finally:
        interface.__getitem__, knobs.runtime.jit_cache_hook = launch, hook
        _active = False


def claim(folder: Path, name: str) -> bool:
    """Returns whether this process is the first to claim a name in this folder."""
    try:
        (folder / hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


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

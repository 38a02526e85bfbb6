"""Makes launches without running their kernels: they are only compiled, here or by other processes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_EMPTY = [(torch, "empty"), (torch, "empty_like"), (torch, "empty_strided"), (Tensor, "new_empty")]
"""The functions that make the tensors which kernels fill."""
_active = False
_ELSEWHERE = object()
"""Stands in Triton's table for a kernel that another process compiles: launches of it return at once."""
GivesAway = Callable[[Any, Any, Mapping[str, Any]], bool]
"""Decides if another process compiles a kernel. Called once for each, with Triton's function, key and arguments."""


def active() -> bool:
    """Returns whether launches only compile their kernels now."""
    return _active


@contextmanager
def compile_only(gives_away: GivesAway) -> Iterator[list[tuple[str, float]]]:
    """Makes every kernel launch compile, not run. Yields the kernels that were compiled here, with the seconds of each.

    Tensors that kernels would fill are zero, so that indices read from them are valid.
    """
    global _active
    from triton import knobs
    from triton.runtime.jit import KernelInterface

    compiled: list[tuple[str, float]] = []
    kept = ""

    def is_done_elsewhere(*_: Any, key: Any, fn: Any, compile: Any, **__: Any) -> bool:
        nonlocal kept
        if not gives_away(fn, key, compile):
            kept = fn.name
            return False
        fn.jit_function.device_caches[compile["device"]][0][key] = _ELSEWHERE
        return True

    def compiling(kernel: Any, grid: Any) -> Callable[..., None]:
        def launch(*args: Any, **kwargs: Any) -> None:
            nonlocal kept
            kept, started_s = "", time.perf_counter()
            kernel.run(*args, grid=grid, warmup=True, **kwargs)
            if kept:
                compiled.append((kept, time.perf_counter() - started_s))

        return launch

    interface: Any = KernelInterface
    launch, hook = interface.__getitem__, knobs.runtime.jit_cache_hook
    interface.__getitem__, knobs.runtime.jit_cache_hook = compiling, is_done_elsewhere
    _active = True
    try:
        with _zeros():
            yield compiled
    finally:
        interface.__getitem__, knobs.runtime.jit_cache_hook = launch, hook
        _active = False


def claimed_by_others(claims: Path) -> GivesAway:
    """Makes a `GivesAway` for processes that make the same launches: the first one to claim a kernel compiles it."""
    return lambda function, key, _: not claim(claims, f"{function.name}{key}")


def claim(folder: Path, name: str) -> bool:
    """Claims a name for this process; returns whether it was free. Processes that share the folder share the names."""
    try:
        (folder / hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@contextmanager
def _zeros() -> Iterator[None]:
    """Fills new tensors with zeros. A `TorchDispatchMode` would do so too, but imports all of torch's compiler."""

    def filled(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *args, **kwargs: make(*args, **kwargs).zero_()

    before = [getattr(owner, name) for owner, name in _EMPTY]
    for (owner, name), make in zip(_EMPTY, before, strict=True):
        setattr(owner, name, filled(make))
    try:
        yield
    finally:
        for (owner, name), make in zip(_EMPTY, before, strict=True):
            setattr(owner, name, make)


def available() -> bool:
    """Returns whether Triton compiles kernels on this machine: it needs a GPU."""
    if not torch.cuda.is_available():
        return False
    try:
        import triton.knobs  # noqa: F401
    except ImportError:
        return False
    return True

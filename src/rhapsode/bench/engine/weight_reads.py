"""Counts the bytes of weights that the operators of a step read, by section."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

COUNTED = ("talker", "codec")
"""The sections that are counted, together with those inside them."""
PACKED = ("program", "packed")
"""Attributes of networks that hold packed weights."""
LOOKUPS = ("embedding", "index", "index_select", "gather", "_unsafe_index")


def modules_of(worker: Any) -> Iterator[nn.Module]:
    """Yields the networks that a stage's worker holds as attributes."""
    if isinstance(worker, nn.Module):
        yield worker
        return
    for value in vars(worker).values() if hasattr(worker, "__dict__") else ():
        if isinstance(value, nn.Module):
            yield value


@contextmanager
def unpacked(workers: Iterable[Any]) -> Iterator[None]:
    """Removes packed weights for a while: reads by the C kernels of a CPU are not seen, but operators read as much."""
    held = [
        (part, name, vars(part)[name])
        for worker in workers
        for module in modules_of(worker)
        for part in module.modules()
        for name in PACKED
        if vars(part).get(name) is not None
    ]
    for part, name, _ in held:
        setattr(part, name, None)
    try:
        yield
    finally:
        for part, name, packed in held:
            setattr(part, name, packed)


def weights_of(workers: Iterable[Any]) -> Iterator[Tensor]:
    """Yields parameters and buffers of all workers, each storage once."""
    seen: set[int] = set()
    for module in (module for worker in workers for module in modules_of(worker)):
        for tensor in (*module.parameters(), *module.buffers()):
            storage = tensor.untyped_storage().data_ptr()
            if storage not in seen:
                seen.add(storage)
                yield tensor


def weight_bytes(workers: Iterable[Any]) -> int:
    """Returns the memory that the weights of these workers take."""
    return sum(tensor.untyped_storage().nbytes() for tensor in weights_of(workers))


class _ThreadCount(threading.local):
    def __init__(self) -> None:
        self.open: list[str] = []
        self.reads: Reads | None = None


class WeightReads:
    """A recorder of sections that counts the first talker step and the first codec launch that read any weights."""

    def __init__(self, workers: Iterable[Any]) -> None:
        self.bytes: dict[str, int] = {}
        """Bytes by section. Those of `depth` and `sampling` are read by the same step as those of `talker`."""
        self._weights = list(weights_of(workers))
        self._thread = _ThreadCount()

    def begin(self, name: str) -> None:
        here = self._thread
        here.open.append(name)
        if len(here.open) == 1 and name in COUNTED and not self.bytes.get(name):
            here.reads = Reads(self._weights, lambda: here.open[-1])
            here.reads.__enter__()  # type: ignore[no-untyped-call]

    def end(self) -> None:
        here = self._thread
        if not here.open:
            return
        name = here.open.pop()
        if here.open or here.reads is None:
            return
        here.reads.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self.bytes |= {name: 0, **here.reads.bytes}
        here.reads = None

    def captured(self) -> None:
        """Counts nothing in graphs: an operator is seen once, when it is captured."""

    def replayed(self, events: object) -> None:
        """Does nothing: the operators of a replay are not seen."""


class Reads(TorchDispatchMode):
    """Adds up the bytes that operators read of these weights: a whole matrix, or the selected rows of a table."""

    def __init__(self, weights: Iterable[Tensor], section: Callable[[], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._storages = {tensor.untyped_storage().data_ptr() for tensor in weights}
        self._section = section
        self.bytes: dict[str, int] = defaultdict(int)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if any(made.untyped_storage().data_ptr() in self._storages for made in _tensors([result])):
            return result  # a view: nothing is read through it yet
        read = sum(_nbytes(arg) for arg in _tensors(args) if arg.untyped_storage().data_ptr() in self._storages)
        if read:
            if func._schema.name.removeprefix("aten::") in LOOKUPS and isinstance(result, Tensor):
                read = min(read, _nbytes(result))
            self.bytes[self._section()] += read
        return result


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _nbytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()

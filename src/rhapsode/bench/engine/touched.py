"""Counts the bytes of weights that operators read, while it is active."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

LOOKUPS = ("embedding", "index", "index_select", "gather", "_unsafe_index")


def modules_of(worker: Any) -> Iterator[nn.Module]:
    """The networks a stage's worker holds as attributes."""
    if isinstance(worker, nn.Module):
        yield worker
        return
    for value in vars(worker).values() if hasattr(worker, "__dict__") else ():
        if isinstance(value, nn.Module):
            yield value


def tensors_of(modules: Iterable[nn.Module]) -> Iterator[Tensor]:
    """Weights, and what was derived from them; each storage once."""
    seen: set[int] = set()
    for module in modules:
        for tensor in (*module.parameters(), *module.buffers()):
            where = tensor.untyped_storage().data_ptr()
            if where not in seen:
                seen.add(where)
                yield tensor


def weight_bytes(workers: Iterable[Any]) -> int:
    """What the weights of these workers take."""
    modules = [module for worker in workers for module in modules_of(worker)]
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors_of(modules))


class Touched(TorchDispatchMode):
    """Adds up, by part, what each operator reads of these weights: all of a matrix, the found rows of a table."""

    def __init__(self, weights: Iterable[Tensor], part: Callable[[], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._storages = {tensor.untyped_storage().data_ptr() for tensor in weights}
        self._part = part
        self.bytes_by_part: dict[str, int] = defaultdict(int)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if any(made.untyped_storage().data_ptr() in self._storages for made in _tensors([result])):
            return result  # a view: nothing is read through it yet
        read = sum(_nbytes(arg) for arg in _tensors(args) if arg.untyped_storage().data_ptr() in self._storages)
        if read:
            if func._schema.name.removeprefix("aten::") in LOOKUPS and isinstance(result, Tensor):
                read = min(read, _nbytes(result))
            self.bytes_by_part[self._part()] += read
        return result


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _nbytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()

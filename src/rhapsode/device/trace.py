"""Traced launches on a CPU: the same operators in the same order, without Python between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

Function = TypeVar("Function", bound=Callable[..., Any])

_jit: Any = torch.jit  # its type stubs lack some names
_torch: Any = torch._C
_tensor: Any = Tensor
_SIZES = (_tensor.shape.__get__, Tensor.size, Tensor.numel, Tensor.__len__)
_VALUES = (
    *(Tensor.__bool__, Tensor.__int__, Tensor.__float__, Tensor.__complex__, Tensor.__index__),
    *(Tensor.__contains__, Tensor.__array__, Tensor.item, Tensor.tolist, Tensor.numpy),
)


def decides(function: Function) -> Function:
    """Marks a function whose control flow depends on tensor values: a trace keeps the condition, not one outcome."""
    scripted: Function = _jit.script_if_tracing(function)
    return scripted


class Untraceable(Exception):
    """A launch that cannot be traced, mostly because its control flow depends on tensor values."""


class Trace:
    """A TorchScript trace of `function(*inputs)` for inputs of these shapes.

    Everything that changes between launches must be among `inputs` and `buffers`: all other tensors become constants,
    and equal constants may be merged.
    """

    def __init__(
        self, function: Callable[..., Tensor | None], inputs: Sequence[Tensor], buffers: Sequence[Tensor]
    ) -> None:
        self.inputs = inputs
        self._given = (*inputs, *buffers)
        with _OneShape():
            try:
                graph, _ = _torch._create_graph_by_tracing(
                    lambda *given: function(*given[: len(inputs)]), self._given, lambda tensor: "", True, False
                )
            except (RuntimeError, AttributeError) as error:  # private parts of torch, which may change
                raise Untraceable(str(error)) from error
        # `torch.jit.trace` would keep the graph, and with it all weights, until the process ends.
        self._launch = _torch._create_function_from_graph("launch", graph)
        self.replay()  # warm-up: everything lazy happens now

    def replay(self) -> Tensor | None:
        with _jit.optimized_execution(False):  # profiling would take long and find nothing to fuse
            output: Tensor | None = self._launch(*self._given)
        return output


class _OneShape(TorchFunctionMode):
    """Makes sizes plain numbers while this thread traces, since a trace is for one shape, and forbids reading values.

    torch only warns when the host reads values, and warning filters belong to the whole process: another thread's may
    hide the warning.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _VALUES:
            raise Untraceable(f"the host asks for values (Tensor.{func.__name__})")
        if func not in _SIZES:
            return func(*args, **(kwargs or {}))
        tracing = _torch._get_tracing_state()
        _torch._set_tracing_state(None)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            _torch._set_tracing_state(tracing)

"""A launch on a CPU, recorded: the same operators in the same order, without Python between them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

Function = TypeVar("Function", bound=Callable[..., Any])

_jit: Any = torch.jit  # its types say less than there is
_torch: Any = torch._C
_tensor: Any = Tensor
_SIZES = (_tensor.shape.__get__, Tensor.size, Tensor.numel, Tensor.__len__)


def decides(function: Function) -> Function:
    """For what looks at values to choose its way: a trace keeps the choice, and not how it went when it was made."""
    scripted: Function = _jit.script_if_tracing(function)
    return scripted


class Untraceable(Exception):
    """A launch that cannot be recorded: mostly one that asks the host about values, and so is not always the same."""


class Trace:
    """`function(*inputs)` by TorchScript, for inputs of these shapes.

    What changes between launches has to be among `inputs` and `buffers`: all other tensors are constants, and of those
    that are equal one may stand for all.
    """

    def __init__(
        self, function: Callable[..., Tensor | None], inputs: Sequence[Tensor], buffers: Sequence[Tensor]
    ) -> None:
        self.inputs = inputs
        self._given = (*inputs, *buffers)
        with warnings.catch_warnings(record=True) as warned, _PlainSizes():
            warnings.simplefilter("always")
            try:
                graph, _ = _torch._create_graph_by_tracing(
                    lambda *given: function(*given[: len(inputs)]), self._given, lambda tensor: "", True, False
                )
            except (RuntimeError, AttributeError) as error:  # these parts of torch are its own, and may move
                raise Untraceable(str(error)) from error
        asked = [str(one.message) for one in warned if issubclass(one.category, _jit.TracerWarning)]
        if asked:
            raise Untraceable(asked[0])
        # `torch.jit.trace` would keep it, and with it all weights, for as long as the process lives.
        self._launch = _torch._create_function_from_graph("launch", graph)
        self.replay()  # once, so that everything lazy has happened

    def replay(self) -> Tensor | None:
        with _jit.optimized_execution(False):  # which takes long to find that there is nothing to fuse
            output: Tensor | None = self._launch(*self._given)
        return output


class _PlainSizes(TorchFunctionMode):
    """Sizes are numbers, as they are outside of a trace: a recording is of one shape."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func not in _SIZES:
            return func(*args, **(kwargs or {}))
        tracing = _torch._get_tracing_state()
        _torch._set_tracing_state(None)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            _torch._set_tracing_state(tracing)

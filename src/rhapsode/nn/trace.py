"""A launch on a CPU, recorded: the same operators in the same order, without Python between them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_SIZES = (Tensor.shape.__get__, Tensor.size, Tensor.numel, Tensor.__len__)


class Untraceable(Exception):
    """A launch that asks the host about values, and so is not the same every time."""


class Trace:
    """`function(*inputs)` by TorchScript, for inputs of these shapes.

    What changes between launches has to be among `inputs` and `buffers`: all other tensors are constants, of which those
    that are equal may become one.
    """

    def __init__(
        self, function: Callable[..., Tensor | None], inputs: Sequence[Tensor], buffers: Sequence[Tensor]
    ) -> None:
        self.inputs = inputs
        self._given = (*inputs, *buffers)
        with (
            warnings.catch_warnings(record=True) as warned,
            _PlainSizes(),
        ):  # upstream points to compilers, which many lack
            warnings.simplefilter("always")
            self._traced = torch.jit.trace(
                lambda *given: function(*given[: len(inputs)]), self._given, check_trace=False
            )
        asked = [str(one.message) for one in warned if issubclass(one.category, torch.jit.TracerWarning)]
        if asked:
            raise Untraceable(asked[0])
        self.replay()  # once, so that everything lazy has happened

    def replay(self) -> Tensor | None:
        with torch.jit.optimized_execution(False):  # it takes long, to fuse what is not worth it
            output: Tensor | None = self._traced(*self._given)
        return output


class _PlainSizes(TorchFunctionMode):
    """Sizes are numbers, as they are outside of a trace: a recording is of one shape."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func not in _SIZES:
            return func(*args, **(kwargs or {}))
        state = torch._C._get_tracing_state()
        torch._C._set_tracing_state(None)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            torch._C._set_tracing_state(state)

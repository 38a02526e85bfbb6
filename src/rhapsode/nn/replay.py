"""The one graph wrapper: a launch recorded once per set of input shapes, and replayed from then on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Shapes = tuple[torch.Size, ...]


@dataclass
class Captured:
    """A recorded launch and the buffers it reads from and writes to."""

    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]
    output: Tensor | None


class Replay:
    """Runs `function(*tensors)`, which works in place on buffers that stay where they are.

    Eager is the reference and the fallback: shapes that were not captured run as they are.
    """

    def __init__(self, function: Callable[..., Tensor | None]) -> None:
        self._function = function
        self._captured: dict[Shapes, Captured] = {}
        self._pool: Any = None

    def capture(self, *inputs: Tensor) -> Captured:
        """Record a launch of these shapes; `inputs` become its static buffers. Largest first saves memory."""
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        self._function(*inputs)  # once, so that everything lazy has happened
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            output = self._function(*inputs)
        captured = self._captured[tuple(x.shape for x in inputs)] = Captured(graph, inputs, output)
        return captured

    def __call__(self, *inputs: Tensor) -> Tensor | None:
        captured = self._captured.get(tuple(x.shape for x in inputs))
        if captured is None:
            return self._function(*inputs)
        for static, given in zip(captured.inputs, inputs, strict=True):
            static.copy_(given, non_blocking=True)
        captured.graph.replay()
        return captured.output

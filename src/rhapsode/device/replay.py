"""The one graph wrapper: a launch recorded once per set of input shapes, and replayed from then on."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from rhapsode.device import sections
from rhapsode.device.trace import Trace

Shapes = tuple[torch.Size, ...]


class Recording(Protocol):
    """A launch that is done over again on what is now in its buffers."""

    @property
    def inputs(self) -> Sequence[Tensor]: ...

    def replay(self) -> Tensor | None: ...


@dataclass(frozen=True)
class CudaGraph:
    """What a GPU was told to do, and the buffers it reads from and writes to."""

    graph: torch.cuda.CUDAGraph
    inputs: Sequence[Tensor]
    output: Tensor | None
    events: Any = None
    """Of its sections, if a recorder was installed at capture."""

    def replay(self) -> Tensor | None:
        self.graph.replay()
        sections.replayed(self.events)
        return self.output


def _own_stream() -> torch.cuda.Stream | None:
    """Where to record what the current stream will replay.

    The memory cuBLAS works in belongs to the stream a graph was recorded on. Graphs that run at the same time must not
    share it; those of one stream run one after the other. On the default stream nothing can be recorded: `None`, for
    the one that PyTorch keeps for this.
    """
    current = torch.cuda.current_stream()
    return None if current == torch.cuda.default_stream() else current


@contextmanager
def _uncollected() -> Iterator[None]:
    """An old graph that goes while another is recorded would end the recording."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class Replay:
    """Runs `function(*tensors)`, which works in place on buffers that stay where they are.

    Eager is the reference and the fallback: shapes that were not captured run as they are. On a CPU `buffers` are those
    that change between launches; whatever else the function reads stays as it is when it is captured.
    """

    def __init__(self, function: Callable[..., Tensor | None], buffers: Sequence[Tensor] = ()) -> None:
        self._function = function
        self._buffers = buffers
        self._captured: dict[Shapes, Recording] = {}
        self._pool: Any = None

    def capture(self, *inputs: Tensor) -> Recording:
        """Record a launch of these shapes; `inputs` become its static buffers. Largest first saves memory."""
        self._function(*inputs)  # once, so that everything lazy has happened
        recording: Recording
        recording = self._record(inputs) if inputs[0].is_cuda else Trace(self._function, inputs, self._buffers)
        self._captured[tuple(x.shape for x in inputs)] = recording
        return recording

    def _record(self, inputs: Sequence[Tensor]) -> CudaGraph:
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with _uncollected(), torch.cuda.graph(graph, pool=self._pool, stream=_own_stream()):
            output = self._function(*inputs)
        return CudaGraph(graph, inputs, output, sections.captured())

    def __call__(self, *inputs: Tensor) -> Tensor | None:
        captured = self._captured.get(tuple(x.shape for x in inputs))
        if captured is None:
            return self._function(*inputs)
        for static, given in zip(captured.inputs, inputs, strict=True):
            static.copy_(given, non_blocking=True)
        return captured.replay()

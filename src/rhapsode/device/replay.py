"""Capture and replay: a launch is captured once per set of input shapes, and replayed from then on."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor

from rhapsode.device import compilations, compile_only, cuda_calls, sections
from rhapsode.device.trace import Trace

Shapes = tuple[torch.Size, ...]
log = logging.getLogger("rhapsode.engine")


class Recording(Protocol):
    """A captured launch. A replay reads what its buffers hold at that time."""

    @property
    def inputs(self) -> Sequence[Tensor]: ...

    def replay(self) -> Tensor | None: ...


@dataclass(frozen=True)
class CudaGraph:
    """A captured CUDA graph, and the static buffers it reads from and writes to."""

    graph: torch.cuda.CUDAGraph
    executable: int
    """The address of the executable graph, which `graph` keeps alive."""
    inputs: Sequence[Tensor]
    output: Tensor | None
    events: Any = None
    """The timing events of its sections, if a recorder was installed at capture."""

    def replay(self) -> Tensor | None:
        cuda_calls.launch(self.executable, self.inputs[0].device)
        sections.replayed(self.events)
        return self.output


@dataclass(frozen=True)
class NotCaptured:
    """Stands for a launch whose kernels were only compiled."""

    inputs: Sequence[Tensor]

    def replay(self) -> Tensor | None:
        raise RuntimeError("a launch that was only compiled cannot be replayed")


def _own_stream() -> torch.cuda.Stream | None:
    """Returns the stream to capture on, for graphs that the current stream will replay.

    The workspace of cuBLAS belongs to the stream a graph was captured on. Graphs that run at the same time must not
    share it; those of one stream run one after the other. Nothing can be captured on the default stream: `None` is
    PyTorch's own capture stream.
    """
    current = torch.cuda.current_stream()
    return None if current == torch.cuda.default_stream() else current


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pauses garbage collection: freeing a graph during a capture would end the capture."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class Replay:
    """Calls `function(*tensors)`, and for input shapes that were captured replays a recording of it instead.

    The function keeps its results in tensors that live as long as this object. A recording is a CUDA graph on a GPU, or
    a trace on a CPU; for a trace, `buffers` are all tensors that change between launches, since everything else the
    function reads becomes a constant. Calling the function itself gives the same results, and takes longer.
    """

    def __init__(self, function: Callable[..., Tensor | None], buffers: Sequence[Tensor] = ()) -> None:
        self._function = function
        self._buffers = buffers
        self._captured: dict[Shapes, Recording] = {}
        self._pool: Any = None

    def capture(self, *inputs: Tensor) -> Recording:
        """Captures a launch of these shapes; `inputs` become its static buffers.

        Capturing the largest shape first saves memory.
        """
        if compile_only.active():
            self._function(*inputs)
            return NotCaptured(inputs)
        recording: Recording
        if inputs[0].is_cuda:
            recording = self._record_later(inputs) if self._captured else self._record_first(inputs)
        else:
            self._run_eagerly(inputs)
            recording = Trace(self._function, inputs, self._buffers)
        self._captured[tuple(x.shape for x in inputs)] = recording
        return recording

    def _record_first(self, inputs: Sequence[Tensor]) -> CudaGraph:
        """Records after an eager launch, which makes all that is made on first use, such as a library's memory."""
        self._run_eagerly(inputs)
        return self._record(inputs)

    def _record_later(self, inputs: Sequence[Tensor]) -> CudaGraph:
        """Records a further shape without an eager launch. Kernels may still have to load, which `relaxed` allows."""
        stream = torch.cuda.current_stream() if inputs[0].is_cuda else None
        try:
            return self._record(inputs, "relaxed")
        except RuntimeError as error:
            log.warning("a launch is captured again, after an eager one: %s", error)
        if stream is not None:
            torch.cuda.set_stream(stream)  # a failed capture leaves its own stream as the current one
        return self._record_first(inputs)

    def _run_eagerly(self, inputs: Sequence[Tensor]) -> None:
        started_s = time.perf_counter()
        self._function(*inputs)
        compilations.spent("eager", time.perf_counter() - started_s)

    def _record(self, inputs: Sequence[Tensor], mode: str = "global") -> CudaGraph:
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        compilations.captured("x".join(str(size) for size in inputs[0].shape))
        graph, marks_s = torch.cuda.CUDAGraph(), [time.perf_counter()]
        capturing = torch.cuda.graph(graph, pool=self._pool, stream=_own_stream(), capture_error_mode=mode)
        with _uncollected(), capturing:
            marks_s.append(time.perf_counter())
            output = self._function(*inputs)
            marks_s.append(time.perf_counter())
        marks_s.append(time.perf_counter())
        for part, (begun_s, ended_s) in zip(("wait", "record", "instantiate"), pairwise(marks_s), strict=True):
            compilations.spent(part, ended_s - begun_s)
        return CudaGraph(graph, graph.raw_cuda_graph_exec(), inputs, output, sections.captured())

    def __call__(self, *inputs: Tensor) -> Tensor | None:
        captured = self._captured.get(tuple(x.shape for x in inputs))
        if captured is None:
            return self._function(*inputs)
        for static, given in zip(captured.inputs, inputs, strict=True):
            static.copy_(given, non_blocking=True)
        return captured.replay()

"""Where the time of a frame goes: calls of a model's parts, timed from outside.

Each call opens a part, and the time until the next mark belongs to the innermost open one: a step is the talker's but
for what its depth head takes, and that is the head's but for what is spent drawing. On a GPU marks are events; inside
a captured graph they are nodes of it, read after each replay.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isclass, isfunction
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rhapsode.bench.engine.clock import Clock, clock_for
from rhapsode.bench.engine.touched import Touched, modules_of, tensors_of
from rhapsode.device.launcher import Launcher
from rhapsode.models.base import Step
from rhapsode.nn import kernels, sampling
from rhapsode.nn.fixed_positions import FixedPositionStack

PARTS = ("prefill", "talker", "depth", "sampling", "codec", "generator")
SAMPLERS = ("rhapsode.nn.sampling", "rhapsode.nn.kernels.sampling")
Key = tuple[str, int]
Timeline = list[tuple[Any, str]]  # a moment, and the part that goes on from there


class Ledger:
    """Seconds by part, and how often it ran."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)

    def settle(self, timeline: Timeline, clock: Clock) -> None:
        for (mark, part), (following, _) in pairwise(timeline):
            if part:
                self.seconds[part] += clock.between_s(mark, following)
        self.calls[timeline[0][1]] += 1


class _Marks(threading.local):
    """Of the call under way: on a CPU talker and codec each have a thread."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.now: Timeline = []


class Parts:
    """Wrapped around an engine's workers before it starts. Counts weights once, times only while `timing`."""

    def __init__(self, workers: dict[str, Any], kinds: dict[str, str], device: torch.device, *, endless: bool) -> None:
        self.timing = False
        self.ledger = Ledger()
        self.touched: dict[str, int] = {}
        """Bytes of weights one step at batch 1 reads, by part; `codec` is one launch of one frame."""
        self.notes: list[str] = []
        self._clock = clock_for(device)
        self._marks = _Marks()
        self._pending: list[Timeline] = []
        self._captured: dict[Key, dict[int, Timeline]] = defaultdict(dict)
        self._undo: list[Callable[[], None]] = []
        self._endless = endless
        for name, worker in workers.items():
            self._wrap_worker(worker, kinds[name])

    # --- reading ---

    def start_timing(self) -> None:
        self._pending.clear()
        self.ledger = Ledger()
        self.timing = True

    def stop_timing(self) -> Ledger:
        self._clock.wait()
        self.timing = False
        for timeline in self._pending:
            self.ledger.settle(timeline, self._clock)
        self._pending.clear()
        return self.ledger

    @contextmanager
    def reading_graphs(self) -> Iterator[None]:
        """Graphs captured while `timing` are read after each replay; that waits, so totals are measured without it."""
        original = Launcher.__call__

        def launch(launcher: Launcher, slots: NDArray[np.int64], *statics: int) -> torch.Tensor:
            before = len(self._pending)
            result = original(launcher, slots, *statics)
            if self.timing and len(self._pending) == before:
                self._read_graph(len(slots), statics)
            return result

        setattr(Launcher, "__call__", launch)  # noqa: B010
        try:
            yield
        finally:
            setattr(Launcher, "__call__", original)  # noqa: B010

    def remove(self) -> None:
        """Leave nothing behind in what other engines use too."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()

    def _read_graph(self, rows: int, statics: tuple[int, ...]) -> None:
        sizes = self._captured.get(("codec", sum(statics)) if statics else ("talker", 1), {})
        bucket = min((size for size in sizes if size >= rows), default=None)
        if bucket is not None:
            self._clock.wait()
            self.ledger.settle(sizes[bucket], self._clock)

    # --- wrapping ---

    def _wrap_worker(self, worker: Any, kind: str) -> None:
        if kind == "frame":
            weights = list(tensors_of(modules_of(worker)))
            worker.prefill = self._around(worker.prefill, "prefill")
            worker.step = self._wrap_step(worker.step, weights)
            for module in modules_of(worker):
                for owner in module.modules():
                    if any(isinstance(child, FixedPositionStack) for child in owner.children()):
                        owner.forward = self._inside(owner.forward, "depth")
            self._wrap_sampling()
        elif kind == "stream":
            weights = list(tensors_of(modules_of(worker)))
            worker.open = self._around(worker.open, "codec")
            worker.decode = self._wrap_decode(worker.decode, weights)
        elif kind == "generator":
            worker.speak = self._wrap_generator(worker.speak)

    def _wrap_step(self, step: Callable[..., Step], weights: list[torch.Tensor]) -> Callable[..., Step]:
        def stepped(rows: Any, state: Any) -> Step:
            size = rows.slots.shape[0]
            made: Step = self._run("talker", ("talker", 1), size, lambda: step(rows, state), weights)
            if not self._endless:
                return made
            # Random weights end when they like: here a request ends at its frame count and nowhere else.
            return Step(made.frames, torch.ones_like(made.emitted), torch.zeros_like(made.stopped))

        return stepped

    def _wrap_decode(self, decode: Callable[..., Any], weights: list[torch.Tensor]) -> Callable[..., Any]:
        def decoded(frames: Any, ahead: int, rows: Any, state: Any) -> Any:
            size, length = frames.shape[:2]
            return self._run("codec", ("codec", length), size, lambda: decode(frames, ahead, rows, state), weights)

        return decoded

    def _wrap_generator(self, speak: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def spoken(prompt: Any, seed: int) -> Iterator[Any]:
            chunks = speak(prompt, seed)
            advance = self._around(lambda: next(chunks, self), "generator")
            while (chunk := advance()) is not self:
                yield chunk

        return spoken

    def _wrap_sampling(self) -> None:
        """One sampler serves every family: wherever its functions were imported to, they are timed."""
        for name, module in list(sys.modules.items()):
            if name.startswith("rhapsode.models."):
                for attribute, value in list(vars(module).items()):
                    if isfunction(value) and value.__module__ in SAMPLERS:
                        self._set(module, attribute, self._inside(value, "sampling"))
        for value in list(vars(sampling).values()):
            if isclass(value) and value.__module__ in SAMPLERS and "__call__" in vars(value):
                self._set(value, "__call__", self._inside(value.__call__, "sampling"))

    def _set(self, owner: Any, name: str, value: Any) -> None:
        original = getattr(owner, name)
        self._undo.append(lambda: setattr(owner, name, original))
        setattr(owner, name, value)

    # --- running ---

    def _run(self, part: str, key: Key, size: int, function: Callable[[], Any], weights: list[torch.Tensor]) -> Any:
        capturing = self._clock.capturing()
        if part not in self.touched and size == 1 and not capturing:
            return self._count(part, function, weights)
        if not self.timing:
            return function()
        result = self._timed(part, function)
        timeline, self._marks.now = self._marks.now, []
        if capturing:
            self._captured[key][size] = timeline
        else:
            self._pending.append(timeline)
        return result

    def _around(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        """A call nobody captures."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            if not self.timing:
                return function(*args, **kwargs)
            result = self._timed(part, lambda: function(*args, **kwargs))
            self._pending.append(self._marks.now)
            self._marks.now = []
            return result

        return timed

    def _inside(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        """A part of a call that is being timed or counted; nothing otherwise."""

        @wraps(function)  # so that a second engine's parts find it here, too
        def inner(*args: Any, **kwargs: Any) -> Any:
            if not self._marks.open:
                return function(*args, **kwargs)
            return self._timed(part, lambda: function(*args, **kwargs))

        return inner

    def _timed(self, part: str, function: Callable[[], Any]) -> Any:
        self._marks.open.append(part)
        self._marks.now.append((self._clock.mark(), part))
        try:
            return function()
        finally:
            self._marks.open.pop()
            self._marks.now.append((self._clock.mark(), self._marks.open[-1] if self._marks.open else ""))

    def _count(self, part: str, function: Callable[[], Any], weights: list[torch.Tensor]) -> Any:
        self._marks.open.append(part)
        self.touched[part] = 0
        touched = Touched(weights, lambda: self._marks.open[-1])
        try:
            with kernels.use("off"), touched:  # no mode sees into a kernel
                result = function()
        except Exception as error:  # a model without references can be timed all the same
            if self._clock.host:
                raise
            self.notes.append(f"the weights of the {part} could not be counted: {type(error).__name__}: {error}")
        self._marks.open.clear()
        self._marks.now = []
        for name, count in touched.bytes_by_part.items():
            self.touched[name] = self.touched.get(name, 0) + count
        # On a GPU this may be the one call before a capture: what is compiled lazily has to be compiled in it.
        return result if self._clock.host else function()

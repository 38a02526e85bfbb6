"""Client processes that apply one load together: one Python process cannot read a thousand streams in time."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from rhapsode.bench.serve.apply_load import LoadResult, apply_load
from rhapsode.bench.serve.client import SpeechClient, make_session
from rhapsode.bench.serve.load_level import LoadLevel, Share
from rhapsode.bench.serve.server import SpeechServer
from rhapsode.errors import Unavailable

AHEAD_S = 0.05
"""How long before a load begins every process is told of it."""


@dataclass(frozen=True)
class ClientTask:
    """The next load for the client processes."""

    server: SpeechServer
    load: LoadLevel
    numbers: Sequence[int]
    texts: Sequence[str]
    seed: int
    sample_rate: int | None = None
    timeout_s: float = 120.0
    share: Share | None = None


class ClientProcesses:
    """Processes that are started once, and then apply any number of loads, to any server."""

    def __init__(self, count: int) -> None:
        spawned = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        self._are_ready = False
        for _ in range(count):
            here, there = spawned.Pipe()
            process = spawned.Process(target=_work, args=(there,), daemon=True)
            process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)

    def apply(self, task: ClientTask) -> LoadResult:
        """Applies a load that the processes share. A burst begins when the one before is complete in all processes."""
        whole = [task.numbers]
        if task.load.kind.endswith("burst"):
            size = int(task.load.level)
            whole = [task.numbers[first : first + size] for first in range(0, len(task.numbers), size)]
        return joined([joined(self._apply(replace(task, numbers=numbers))) for numbers in whole], in_turn=True)

    def _apply(self, task: ClientTask) -> list[LoadResult]:
        count = len(self._pipes)
        try:
            if not self._are_ready:
                self._are_ready = all(pipe.recv() for pipe in self._pipes)
            begins_s = time.perf_counter() + AHEAD_S
            for index, pipe in enumerate(self._pipes):
                pipe.send(replace(task, share=Share(index, count, begins_s)))
            return [pipe.recv() for pipe in self._pipes]
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise Unavailable("a client process ended before its load was applied.") from None

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def joined(results: Sequence[LoadResult], *, in_turn: bool = False) -> LoadResult:
    """Joins the results of concurrent processes or, with `in_turn`, of bursts one after the other."""
    responses = tuple(response for one in results for response in one.responses)
    walls_s = [one.wall_s for one in results]
    client = {name: max(one.client[name] for one in results) for name in results[0].client}
    return LoadResult(results[0].load, responses, sum(walls_s) if in_turn else max(walls_s), client)


def _work(pipe: Connection) -> None:
    gc.freeze()  # the garbage collector need not scan imported modules again and again
    asyncio.run(_apply_all(pipe))


async def _apply_all(pipe: Connection) -> None:
    """Applies each task that arrives, until the other end of the pipe is closed."""
    loop = asyncio.get_running_loop()
    async with make_session() as session:
        pipe.send(True)  # ready
        while True:
            try:
                task: ClientTask = await loop.run_in_executor(None, pipe.recv)
            except (EOFError, ConnectionResetError):
                return
            client = SpeechClient(session, task.server, task.sample_rate, task.timeout_s)
            given = (task.load, task.numbers, client, task.texts, task.seed)
            pipe.send(await apply_load(*given, lambda: None, task.share))

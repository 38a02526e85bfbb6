"""A second thread for kernels that are cut into two halves of about equal work."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self


class SecondThread:
    """Does what it is given, in order, beside this thread; where there is one core, this thread does it.

    Leaving the context waits for all of it, and raises what failed.
    """

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(1, "kernels") if cores() > 1 else None  # it ends with the call: 0.1 ms
        self._futures: list[Future[None]] = []
        return self

    def do(self, function: Callable[..., None], *given: Any) -> None:
        if self._pool is None:
            function(*given)
        else:
            self._futures.append(self._pool.submit(function, *given))

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        for future in self._futures:
            future.result()


def cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0))

"""Keeps one bad request from failing others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from rhapsode.errors import GenerationFailed, RhapsodeError

log = logging.getLogger("rhapsode.engine")

Row = TypeVar("Row")
Result = TypeVar("Result")


class StageFailed(GenerationFailed):
    """A stage raised an exception: a bug, or a fault of the machine such as too little memory. Clients see the code of
    `GenerationFailed`; a warm-up tells it from errors that only its sentence has, such as empty audio."""


def failure(stage: str, error: BaseException) -> RhapsodeError:
    """Returns the typed error that a listener gets for an exception of a stage."""
    if isinstance(error, RhapsodeError):
        return error
    log.error("stage '%s' failed", stage, exc_info=error)
    return StageFailed(f"the '{stage}' stage failed on this request ({type(error).__name__}).")


def isolate(
    rows: Sequence[Row],
    launch: Callable[[Sequence[Row]], Result],
    fail: Callable[[Row, BaseException], None],
) -> Iterator[tuple[Sequence[Row], Result]]:
    """Runs a batch; where a row is reported as bad, runs the others without it.

    A `RhapsodeError` says that no slot was changed, so every row can be tried alone. After any other error the state of
    these rows cannot be trusted: all of them fail.
    """
    if not rows:
        return
    try:
        result = launch(rows)
    except RhapsodeError as error:
        if len(rows) == 1:
            fail(rows[0], error)
            return
    except Exception as error:
        for row in rows:
            fail(row, error)
        return
    else:
        yield rows, result
        return
    for row in rows:
        yield from isolate([row], launch, fail)

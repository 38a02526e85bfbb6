"""Turns the errors that a broken checkpoint causes in a family's code into checkpoint errors. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rhapsode.errors import CheckpointError

_CAUSES = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


@contextmanager
def blaming(checkpoint: Path | None) -> Iterator[None]:
    """Turns an error of the block into a `CheckpointError` that names the checkpoint.

    Families check for the usual mistakes. A configuration can be wrong in more ways: sizes that are negative, lists
    that are too short, numbers that divide by zero. The original error is kept as the cause. A lack of GPU memory is
    not the checkpoint's fault, and stays as it is.
    """
    try:
        yield
    except _CAUSES as error:
        if checkpoint is None or type(error).__name__ == "OutOfMemoryError":
            raise
        reason = (str(error).splitlines() or [""])[0][:200]
        raise CheckpointError(
            f"the model in {checkpoint} cannot be built from its files: {type(error).__name__}: {reason}"
        ) from error

"""Reports what a broken checkpoint makes a family raise as an error of the checkpoint. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rhapsode.errors import CheckpointError

_CAUSES = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


@contextmanager
def blaming(checkpoint: Path | None) -> Iterator[None]:
    """Turns any error of the block into a `CheckpointError` that names the checkpoint.

    Families check what they know to go wrong. A configuration can be wrong in more ways: sizes that are negative, lists
    that are too short, numbers that divide by zero. The original error is kept as the cause.
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

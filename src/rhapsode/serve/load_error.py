"""What is said of a model that cannot be loaded."""

from __future__ import annotations

import logging

from rhapsode.errors import NoMemory, RhapsodeError, Unavailable

log = logging.getLogger("rhapsode.serve")


def load_error(error: Exception) -> RhapsodeError:
    """Returns the error as users see it. One that nobody foresaw is logged."""
    if isinstance(error, RhapsodeError):
        return error
    log.error("the model cannot be loaded", exc_info=error)
    name = type(error).__name__  # torch has an error of its own, and may not be imported here
    if name in ("MemoryError", "OutOfMemoryError"):
        return NoMemory("there is not enough memory for the model.")
    return Unavailable(f"the model cannot be loaded ({name}).")

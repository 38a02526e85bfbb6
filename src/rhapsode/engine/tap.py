"""A tap: what listens to a request's audio on its way to the listener, and may decide where it ends."""

from __future__ import annotations

from typing import Protocol

from rhapsode.errors import RhapsodeError
from rhapsode.types import AudioChunk


class Tap(Protocol):
    """Gets what the stages deliver instead of the listener, and passes it on. It ends the request: `Job.complete`."""

    def push(self, chunk: AudioChunk) -> None:
        """Takes the next chunk."""

    def finish(self) -> None:
        """Called when all chunks have come."""

    def run_away(self, error: RhapsodeError) -> None:
        """Called if the speech did not end in time, before its last chunks: an error, unless all words were said."""

    def drop(self) -> None:
        """Called when the request has ended, for whatever reason."""

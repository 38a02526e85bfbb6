"""Downloads voices of the wrapped package, one at a time, and remembers for a while that it failed."""

from __future__ import annotations

import threading
import time

from hibari.voices import voice_path

from rhapsode.checkpoints.hub import is_offline
from rhapsode.errors import Unavailable
from rhapsode.models.hibari.info import is_here

AGAIN_S = 60.0
"""After a failure, no download is tried for so long: each may take a minute to fail, and others wait behind it."""


class VoiceDownload:
    """Gets a voice when it is first asked for. Whoever asks for another one meanwhile is told to come back."""

    def __init__(self) -> None:
        self._running = threading.Lock()
        self._failed_s: float | None = None

    def __call__(self, voice: str) -> None:
        """Returns once the voice is here; raises if it cannot be had."""
        if is_here(voice):
            return
        if is_offline() or (self._failed_s is not None and time.monotonic() - self._failed_s < AGAIN_S):
            raise _missing(voice)
        if not self._running.acquire(blocking=False):
            raise Unavailable("a voice is being downloaded: try again in a few seconds.", param="voice")
        try:
            voice_path(voice)
        except Exception as error:  # the package raises what the network does
            self._failed_s = time.monotonic()
            raise _missing(voice) from error
        finally:
            self._running.release()


def _missing(voice: str) -> Unavailable:
    why = "HF_HUB_OFFLINE is set" if is_offline() else "huggingface.co could not be reached"
    return Unavailable(f"the voice '{voice}' is not here yet, and {why}; 'heart' is always here.", param="voice")

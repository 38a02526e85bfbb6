"""Downloads voices of the wrapped package, one at a time; after a failure, it tries again only after a while."""

from __future__ import annotations

import threading
import time

from hibari.voices import voice_path

from rhapsode.checkpoints.hub import is_offline
from rhapsode.errors import Unavailable
from rhapsode.models.hibari.info import is_here

AGAIN_S = 60.0
"""Seconds without any attempt after a failure: each may take a minute to fail, and other requests wait behind it."""


class VoiceDownload:
    """Downloads a voice when it is first requested. Meanwhile, requests for missing voices fail, and may be retried."""

    def __init__(self) -> None:
        self._running = threading.Lock()
        self._failed_s: float | None = None

    def __call__(self, voice: str) -> None:
        """Returns once the voice is on this machine; raises `Unavailable` if it cannot be downloaded now."""
        if is_here(voice):
            return
        if is_offline() or (self._failed_s is not None and time.monotonic() - self._failed_s < AGAIN_S):
            raise _missing(voice)
        if not self._running.acquire(blocking=False):
            raise Unavailable("a voice is being downloaded: try again in a few seconds.", param="voice")
        try:
            voice_path(voice)
        except Exception as error:  # the package raises any error of the network
            self._failed_s = time.monotonic()
            raise _missing(voice) from error
        finally:
            self._running.release()


def _missing(voice: str) -> Unavailable:
    why = "HF_HUB_OFFLINE is set" if is_offline() else "huggingface.co could not be reached"
    return Unavailable(f"the voice '{voice}' is not here yet, and {why}; 'heart' is always here.", param="voice")

"""Detects watermarks in audio that clients send, one file at a time and off the event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from rhapsode.config.marking import MarkingConfig
from rhapsode.errors import Busy
from rhapsode.marking.detect import Detection, detect
from rhapsode.types import Clip

MOST_WAITING = 16


class DetectionDesk:
    """Runs detections in one thread. At most `MOST_WAITING` requests run or wait; further ones are refused."""

    def __init__(self, config: MarkingConfig) -> None:
        self._deployment = config.deployment
        self._thread = ThreadPoolExecutor(1, "rhapsode-detect")
        self._inside = 0

    async def detect(self, clip: Clip) -> dict[str, Any]:
        """Returns the JSON body that answers a detection request; raises `Busy` if too many wait."""
        if self._inside >= MOST_WAITING:
            raise Busy("too much audio is waiting to be searched for watermarks.")
        self._inside += 1
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._thread, detect, clip)
        finally:
            self._inside -= 1
        return self._body(found, clip)

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _body(self, found: Detection, clip: Clip) -> dict[str, Any]:
        payload = found.payload
        return {
            "object": "audio.detection",
            "found": found.found,
            "confidence": round(found.confidence, 6),
            "score": found.score,
            "speed": found.speed if found.found else None,
            "deployment": f"{payload.deployment:04x}" if payload else None,
            "is_this_deployment": payload.is_from(self._deployment) if payload else None,
            "time": utc(payload.time) if payload else None,
            "duration_s": round(clip.duration_s, 3),
        }


def utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

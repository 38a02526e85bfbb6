"""Detects watermarks in audio that clients send, one file at a time and off the event loop."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from rhapsode.config.marking import MarkingConfig
from rhapsode.marking.detect import Detection, detect
from rhapsode.serve.fair_threads import FairThreads
from rhapsode.serve.listener import Listener, listener
from rhapsode.types import Clip

MOST_WAITING = 16


class DetectionDesk:
    """Runs detections in one thread, in a fair order among clients; `MOST_WAITING` may wait."""

    def __init__(self, config: MarkingConfig) -> None:
        self._deployment = config.deployment
        self._thread = FairThreads("rhapsode-detect", "searches", threads=1, each=1, waiting=MOST_WAITING)

    async def detect(self, clip: Clip) -> dict[str, Any]:
        """Returns the JSON body that answers a detection request; raises `Busy` if too many wait."""
        client = (listener.get() or Listener("")).client
        return self._body(await asyncio.wrap_future(self._thread.submit(client, detect, clip)), clip)

    def close(self) -> None:
        self._thread.close()

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

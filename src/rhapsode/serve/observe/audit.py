"""The audit log: one line of JSON for every request, for operators who must be able to tell who made which audio."""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rhapsode.errors import ConfigError
from rhapsode.serve.observe.caller import caller
from rhapsode.serve.observe.outcomes import Record
from rhapsode.serve.request.intake import Order

log = logging.getLogger("rhapsode.serve")

MOST_WAITING = 10_000


class AuditLog:
    """Appends lines to a file in a thread of its own, so that no request waits for the disk.

    The file is opened again for every batch of lines, so that it may be moved away or rotated at any time.
    """

    def __init__(self, file: Path, model: str, *, with_text: bool = False) -> None:
        self._file = file.expanduser()
        self._model = model
        self._with_text = with_text
        self._lines: queue.Queue[str | None] = queue.Queue(MOST_WAITING)
        self._lost = 0
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._append("")
        except OSError as error:
            raise ConfigError(f"the audit log {self._file} cannot be written: {error.strerror}.") from None
        self._writer = threading.Thread(target=self._write_all, name="rhapsode-audit", daemon=True)
        self._writer.start()

    def record(self, order: Order, request_id: str, ended: Record | None, text: str) -> None:
        """Queues the line that says how a request ended; `ended` is None if it was refused. Never blocks."""
        line = self._line(order, request_id, ended)
        if self._with_text:
            line["text"] = text
        try:
            self._lines.put_nowait(json.dumps(line) + "\n")
        except queue.Full:  # the disk is slower than the requests: the next batch of lines says how many are lost
            self._lost += 1

    def close(self) -> None:
        """Writes all queued lines, and ends the thread."""
        self._lines.put(None)
        self._writer.join()

    def _line(self, order: Order, request_id: str, ended: Record | None) -> dict[str, Any]:
        voices = {id(voice): voice for voice in (order.request.voice, *(s.voice for s in order.request.segments))}
        continued = [voice.continued for voice in voices.values() if voice.continued]
        recordings = [*(recording for voice in voices.values() for recording in voice.references), *continued]
        outcome = ended.outcome if ended else None
        error = (ended.error or (outcome.error if outcome else None)) if ended else None
        finish = "failed" if ended and ended.error else str(outcome.finish_reason) if outcome else "refused"
        return {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "request_id": request_id,
            "key": caller.get(),
            "model": self._model,
            "voice": order.voice_name,
            "references": [recording.sha256 for recording in recordings if recording.sha256],
            "consent": order.consent,
            "audio_s": round(outcome.audio_s, 3) if outcome else 0.0,
            "outcome": finish,
            "error": error.code if error else None,
        }

    def _write_all(self) -> None:
        ended = False
        while not ended:
            lines = [self._lines.get()]
            while not self._lines.empty():
                lines.append(self._lines.get())
            ended = None in lines
            lost, self._lost = self._lost, 0
            note = json.dumps({"lost_lines": lost}) + "\n" if lost else ""
            try:
                self._append(note + "".join(line for line in lines if line is not None))
            except OSError as error:
                log.error("%d lines of the audit log are lost: %s", len(lines) - ended + lost, error.strerror)

    def _append(self, text: str) -> None:
        with open(self._file, "a", encoding="utf-8", opener=_open_private) as file:
            file.write(text)


def _open_private(path: str, flags: int) -> int:
    """Opens a file. A new one is readable by this user alone; one that exists keeps the mode that its owner gave it."""
    return os.open(path, flags, 0o600)

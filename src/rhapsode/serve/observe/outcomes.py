"""The outcomes of the last requests, by their id."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from typing import Any

from rhapsode.errors import InvalidRequest, RhapsodeError
from rhapsode.types import FinishReason, Outcome

MOST = 1024
PHASES = ("queued_s", "prepared_s", "first_frame_s", "first_audio_s", "total_s")
"""When each phase of a request ended, since its submission."""


@dataclass(frozen=True)
class Record:
    """What is known about a request that was accepted."""

    id: str
    outcome: Outcome | None = None
    error: RhapsodeError | None = None
    delivered: bool = False
    """Whether the last byte was handed to the client's connection."""
    warnings: Sequence[str] = ()
    """What was ignored of the request, in sentences."""

    @property
    def status(self) -> str:
        if self.error is not None:
            return "failed"
        if self.outcome is None:
            return "running"
        ends = {FinishReason.ABORTED: "aborted", FinishReason.FAILED: "failed"}
        return ends.get(self.outcome.finish_reason, "finished")

    def body(self) -> dict[str, Any]:
        known: dict[str, Any] = {
            "id": self.id,
            "object": "speech.outcome",
            "status": self.status,
            "delivered": self.delivered,
        }
        if outcome := self.outcome:
            timing = ("audio_s", "frames", *PHASES, "underruns", "longest_gap_s")
            known["finish_reason"] = "failed" if self.error else str(outcome.finish_reason)
            known |= {name: vars(outcome)[name] for name in timing}
            known |= {"quality": asdict(outcome.quality)} if outcome.quality else {}
        known |= {"warnings": list(self.warnings)} if self.warnings else {}
        error = self.error or (self.outcome.error if self.outcome else None)
        return known | (error.body() if error else {"error": None})


class Outcomes:
    """Keeps the outcomes of the last requests. The engine reports them from any thread, routes report the delivery.

    Errors are kept as copies: the original holds its traceback, and with it the stack and the samples of the request.
    """

    def __init__(self, on_end: Callable[[Outcome, RhapsodeError | None], None], most: int = MOST) -> None:
        self._on_end = on_end
        self._most = most
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, request_id: str) -> Record | None:
        with self._lock:
            return self._records.get(request_id)

    def began(self, request_id: str, warnings: Sequence[str] = ()) -> None:
        with self._lock:
            known = self._records.pop(request_id, None)
            if known is not None and known.status == "running":
                self._records[request_id] = known
                raise InvalidRequest(f"a request with the id '{request_id}' is still running.")
            self._records[request_id] = Record(request_id, warnings=warnings)
            while len(self._records) > self._most:
                self._records.popitem(last=False)

    def refused(self, request_id: str) -> None:
        """Forgets a request that the engine did not accept."""
        with self._lock:
            self._records.pop(request_id, None)

    def ended(self, outcome: Outcome) -> None:
        kept = outcome if outcome.error is None else replace(outcome, error=copy(outcome.error))
        record = self._change(outcome.request_id, outcome=kept)
        self._on_end(outcome, record.error)

    def record_error(self, request_id: str, error: RhapsodeError) -> None:
        """Records an error that the engine does not know of: before the request is aborted, or after it has ended."""
        self._change(request_id, error=copy(error))

    def delivered(self, request_id: str) -> None:
        self._change(request_id, delivered=True)

    def _change(self, request_id: str, **changes: Any) -> Record:
        with self._lock:
            known = self._records.get(request_id)
            record = Record(**{**(vars(known) if known else {"id": request_id}), **changes})
            if request_id in self._records:
                self._records[request_id] = record
            return record

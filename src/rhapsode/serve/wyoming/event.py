"""Wyoming's wire format: a line of JSON, then further JSON and a payload, whose lengths the line gives."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from rhapsode.errors import InvalidRequest
from rhapsode.serve.request.shape import check_shape


class BadEvent(InvalidRequest):
    """The bytes are not a valid event, so nothing after them can be parsed."""

    code = "invalid_event"


@dataclass(frozen=True)
class WyomingEvent:
    """One message, in either direction."""

    type: str
    data: dict[str, Any] = field(default_factory=dict)
    payload: bytes = b""

    def encode(self) -> bytes:
        """Returns the bytes of the event, in ASCII: a client's text may hold half a surrogate pair."""
        data = json.dumps(self.data).encode() if self.data else b""
        header: dict[str, Any] = {"type": self.type}
        if data:
            header["data_length"] = len(data)
        if self.payload:
            header["payload_length"] = len(self.payload)
        return json.dumps(header).encode() + b"\n" + data + self.payload


async def read_event(reader: asyncio.StreamReader, most_bytes: int) -> WyomingEvent | None:
    """Returns the next event, or None if the client has disconnected, even in the middle of an event.

    The line, the data and the payload have at most `most_bytes` each.
    """
    try:
        header = _parsed(await reader.readuntil(b"\n"))
        data = _member(header, "data", dict) or {}
        if size := _length(header, "data_length", most_bytes):
            data = data | _parsed(await reader.readexactly(size))
        size = _length(header, "payload_length", most_bytes)
        payload = await reader.readexactly(size) if size else b""
    except asyncio.LimitOverrunError:
        raise BadEvent(f"the line of an event has at most {most_bytes} bytes.") from None
    except asyncio.IncompleteReadError:
        return None
    kind = _member(header, "type", str)
    if not kind:
        raise BadEvent("an event needs a 'type'.")
    return WyomingEvent(kind, data, payload)


def _parsed(raw: bytes) -> dict[str, Any]:
    check_shape(raw)
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise BadEvent("the event is not valid JSON.") from None
    if not isinstance(found, dict):
        raise BadEvent("an event is a JSON object.")
    return found


def _member(header: dict[str, Any], name: str, kind: type) -> Any:
    value = header.get(name)
    if value is not None and not isinstance(value, kind):
        raise BadEvent(f"'{name}' of an event must be {'text' if kind is str else 'an object'}.")
    return value


def _length(header: dict[str, Any], name: str, most: int) -> int:
    size = header.get(name)
    if size is None:
        return 0
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= most:
        raise BadEvent(f"'{name}' of an event must be a number between 0 and {most}.")
    return size

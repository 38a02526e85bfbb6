"""Parses the messages of WebSocket clients."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from rhapsode.errors import InvalidRequest, did_you_mean
from rhapsode.serve.request.schemas import SMALL_BYTES
from rhapsode.serve.request.shape import check_shape
from rhapsode.serve.response.errors import MAX_SHOWN_CHARS

# Types of messages, and the kind each of them is.
KINDS = {
    "session.config": "config",
    "session.update": "config",
    "input.text": "text",
    "input.flush": "flush",
    "input.done": "done",
    "input.cancel": "cancel",
    "session.cancel": "cancel",
    "session.close": "close",
}


@dataclass(frozen=True)
class ClientMessage:
    """One parsed message: its kind, its type as the client wrote it, and its other fields."""

    kind: str
    name: str
    fields: dict[str, Any]


async def read_message(raw: str) -> ClientMessage:
    """Parses a message without blocking the event loop."""
    return understand(raw) if len(raw) <= SMALL_BYTES else await asyncio.to_thread(understand, raw)


def understand(raw: str) -> ClientMessage:
    """Parses a message, or raises an error that says in one sentence what is wrong with it."""
    check_shape(raw.encode("utf-8", "surrogatepass"))
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError):
        raise InvalidRequest("the message is not valid JSON.") from None
    if not isinstance(message, dict):
        raise InvalidRequest("a message is a JSON object with a 'type'.")
    name = message.pop("type", None)
    if not isinstance(name, str) or name not in KINDS:
        hint = did_you_mean(name[:MAX_SHOWN_CHARS], KINDS) if isinstance(name, str) else f"known: {', '.join(KINDS)}."
        raise InvalidRequest(f"there is no message of this type: {hint}", param="type")
    parsed = ClientMessage(KINDS[name], name, message)
    allowed = {"text": {"text"}, "config": message.keys()}.get(parsed.kind, set())
    if unknown := message.keys() - allowed:
        first = min(unknown)[:MAX_SHOWN_CHARS]
        raise InvalidRequest(f"'{name}' has no field '{first}'.", param=first)
    if parsed.kind == "text" and not isinstance(message.get("text"), str):
        raise InvalidRequest("'input.text' needs a 'text'.", param="text")
    return parsed

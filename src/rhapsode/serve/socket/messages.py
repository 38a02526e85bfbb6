"""What a WebSocket client may say: our names, and vLLM-Omni's for the same."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from rhapsode.errors import InvalidRequest, did_you_mean
from rhapsode.serve.request.schemas import SMALL_BYTES
from rhapsode.serve.request.shape import check_shape
from rhapsode.serve.response.errors import MAX_SHOWN_CHARS

# What clients call it, and what it is called here.
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
class Said:
    """One message: its kind, the name it came under, and the rest of it."""

    kind: str
    name: str
    fields: dict[str, Any]


async def read_message(raw: str) -> Said:
    """Parses a message without keeping the event loop busy."""
    return understand(raw) if len(raw) <= SMALL_BYTES else await asyncio.to_thread(understand, raw)


def understand(raw: str) -> Said:
    """Parses a message, or raises one sentence about what is wrong with it."""
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
    said = Said(KINDS[name], name, message)
    allowed = {"text": {"text"}, "config": message.keys()}.get(said.kind, set())
    if unknown := message.keys() - allowed:
        first = min(unknown)[:MAX_SHOWN_CHARS]
        raise InvalidRequest(f"'{name}' has no field '{first}'.", param=first)
    if said.kind == "text" and not isinstance(message.get("text"), str):
        raise InvalidRequest("'input.text' needs a 'text'.", param="text")
    return said

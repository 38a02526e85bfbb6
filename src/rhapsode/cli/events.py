"""Reads the server-sent events of a speech request: audio and words."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator

from rhapsode.alignment.words import WordTime
from rhapsode.errors import GenerationFailed

AudioAndWords = tuple[bytes, tuple[WordTime, ...]]


def read_events(lines: Iterable[bytes]) -> Iterator[AudioAndWords]:
    """Yields audio and words as they arrive; raises if the events end without the final event."""
    for line in lines:
        if not line.startswith(b"data:"):
            continue
        event = json.loads(line.removeprefix(b"data:"))
        match event["type"]:
            case "speech.audio.delta":
                yield base64.b64decode(event["audio"]), ()
            case "speech.audio.words":
                yield b"", tuple(map(WordTime.read, event["words"]))
            case "error":
                raise GenerationFailed(str(event["error"]["message"]))
            case "speech.audio.done":
                return
    raise GenerationFailed("the server broke off before the speech ended.")

"""Responses with audio and the times of its characters: one JSON body, or one line of JSON per piece of a stream."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import Sequence
from typing import Any

from starlette.types import Send

from rhapsode.errors import RhapsodeError
from rhapsode.serve.elevenlabs.characters import CharacterTime, CharacterTimes, in_pieces
from rhapsode.serve.request.intake import Order
from rhapsode.serve.response.audio import SpeechResponse
from rhapsode.serve.response.delivery import Playback


class TimestampResponse(SpeechResponse):
    """The response for one utterance that was requested with word times."""

    def _with_words(self, data: bytes, order: Order, playback: Playback) -> bytes:
        text, characters = order.request.text, CharacterTimes()
        return _body(data, characters.add(text, playback.times.words) + characters.rest(text))

    async def _events(self, order: Order, playback: Playback, send: Send) -> None:
        text, characters, known, heard_all = order.request.text, CharacterTimes(), 0, False
        waiting: deque[list[CharacterTime]] = deque()

        async def next_line() -> bytes | None:
            nonlocal known, heard_all
            data = b""
            if waiting:
                await asyncio.sleep(0)  # a send need not wait, and many lines would block the event loop
            elif heard_all:
                return None
            elif (heard := await playback.get()) is not None:
                data = heard
                new, known = playback.times.words[known:], len(playback.times.words)
                waiting.extend(in_pieces(characters.add(text, new)))
            else:
                heard_all = True
                waiting.extend(in_pieces(characters.rest(text)))
            return _body(data, waiting.popleft() if waiting else ()) + b"\n"

        async def omit_end(error: RhapsodeError) -> None:
            """Omits the last chunk of the HTTP body, so that the client notices that the audio is incomplete."""

        headers = self._described(playback) | {"Content-Type": "application/x-ndjson", "Cache-Control": "no-cache"}
        await self._stream(next_line, lambda: heard_all and not waiting, playback, headers, send, omit_end)


def _body(data: bytes, times: Sequence[CharacterTime]) -> bytes:
    audio, alignment = base64.b64encode(data).decode("ascii"), _alignment(times) if times else None
    return json.dumps({"audio_base64": audio, "alignment": alignment, "normalized_alignment": alignment}).encode()


def _alignment(times: Sequence[CharacterTime]) -> dict[str, Any]:
    return {
        "characters": [char for char, _, _ in times],
        "character_start_times_seconds": [round(start_s, 3) for _, start_s, _ in times],
        "character_end_times_seconds": [round(end_s, 3) for _, _, end_s in times],
    }

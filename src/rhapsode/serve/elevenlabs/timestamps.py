"""Responses with audio and the times of its characters: one JSON body, or one line of JSON per piece of a stream."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from starlette.types import Send

from rhapsode.errors import RhapsodeError
from rhapsode.serve.elevenlabs.characters import CharacterTime, CharacterTimes
from rhapsode.serve.request.intake import Order
from rhapsode.serve.response.audio import SpeechResponse
from rhapsode.serve.response.delivery import Playback


class TimestampResponse(SpeechResponse):
    """The response for one utterance that was requested with word times."""

    def _with_words(self, data: bytes, order: Order, playback: Playback) -> bytes:
        text, characters = order.request.text, CharacterTimes()
        return _body(data, characters.add(text, playback.times.words) + characters.rest(text))

    async def _events(self, order: Order, playback: Playback, send: Send) -> None:
        text, characters, known, done = order.request.text, CharacterTimes(), 0, False

        async def next_line() -> bytes | None:
            nonlocal known, done
            data = await playback.get()
            if data is not None:
                new, known = playback.times.words[known:], len(playback.times.words)
                return _body(data, characters.add(text, new)) + b"\n"
            if done:
                return None
            done = True
            return _body(b"", characters.rest(text)) + b"\n"

        async def omit_end(error: RhapsodeError) -> None:
            """Omits the last chunk of the HTTP body, so that the client notices that the audio is incomplete."""

        headers = self._described(playback) | {"Content-Type": "application/x-ndjson", "Cache-Control": "no-cache"}
        await self._stream(next_line, lambda: done, playback, headers, send, omit_end)


def _body(data: bytes, times: Sequence[CharacterTime]) -> bytes:
    audio, alignment = base64.b64encode(data).decode("ascii"), _alignment(times) if times else None
    return json.dumps({"audio_base64": audio, "alignment": alignment, "normalized_alignment": alignment}).encode()


def _alignment(times: Sequence[CharacterTime]) -> dict[str, Any]:
    return {
        "characters": [char for char, _, _ in times],
        "character_start_times_seconds": [round(start_s, 3) for _, start_s, _ in times],
        "character_end_times_seconds": [round(end_s, 3) for _, _, end_s in times],
    }

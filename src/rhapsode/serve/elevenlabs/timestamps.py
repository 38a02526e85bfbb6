"""Responses with audio and the times of its characters: one JSON body, or one line of JSON per piece of a stream."""

from __future__ import annotations

import base64
import json

from starlette.types import Send

from rhapsode.errors import RhapsodeError
from rhapsode.serve.elevenlabs.characters import CharacterTimes
from rhapsode.serve.request.intake import Order
from rhapsode.serve.response.audio import SpeechResponse
from rhapsode.serve.response.delivery import Playback


class TimestampResponse(SpeechResponse):
    """The response for one utterance that was requested with word times."""

    def _with_words(self, data: bytes, order: Order, playback: Playback) -> bytes:
        whole = CharacterTimes(order.request.text)
        parts = [part for part in (whole.add(playback.times.words), whole.rest()) if part is not None]
        alignment = {name: [value for part in parts for value in part[name]] for name in parts[0]} if parts else None
        return _body(data, alignment)

    async def _events(self, order: Order, playback: Playback, send: Send) -> None:
        characters, known, done = CharacterTimes(order.request.text), 0, False

        async def next_line() -> bytes | None:
            nonlocal known, done
            data = await playback.get()
            if data is not None:
                new, known = playback.times.words[known:], len(playback.times.words)
                return _body(data, characters.add(new)) + b"\n"
            if done:
                return None
            done = True
            return _body(b"", characters.rest()) + b"\n"

        async def omit_end(error: RhapsodeError) -> None:
            """Omits the last chunk of the HTTP body, so that the client notices that the audio is incomplete."""

        headers = self._described(playback) | {"Content-Type": "application/x-ndjson", "Cache-Control": "no-cache"}
        await self._stream(next_line, lambda: done, playback, headers, send, omit_end)


def _body(data: bytes, alignment: dict[str, list[object]] | None) -> bytes:
    audio = base64.b64encode(data).decode("ascii")
    return json.dumps({"audio_base64": audio, "alignment": alignment, "normalized_alignment": alignment}).encode()

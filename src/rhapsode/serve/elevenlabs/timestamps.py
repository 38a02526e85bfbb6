"""Responses with audio and the times of its characters: one JSON body, or one line of JSON per piece of a stream."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.types import Send

from rhapsode.errors import RhapsodeError
from rhapsode.serve.elevenlabs.characters import CharacterTime, CharacterTimes, in_pieces
from rhapsode.serve.request.intake import Order
from rhapsode.serve.response.audio import SpeechResponse
from rhapsode.serve.response.delivery import Playback
from rhapsode.serve.service import Service

Reader = Callable[[bytes], Awaitable[Order]]
BETWEEN = "\n"
"""What the text of a request has between the inputs of a dialogue."""


class TimestampResponse(SpeechResponse):
    """The response for one utterance that was requested with word times."""

    def _with_words(self, data: bytes, order: Order, playback: Playback) -> bytes:
        text, characters = order.request.text, CharacterTimes()
        times = characters.add(text, playback.times.words) + characters.rest(text)
        return _body(data, times, **self._more(order, times, 0))

    def _more(self, order: Order, times: Sequence[CharacterTime], at: int) -> dict[str, Any]:
        """Returns what a body has beside the audio and its times. `at`: which character of the text is the first."""
        return {}

    async def _events(self, order: Order, playback: Playback, send: Send) -> None:
        text, characters, known, told, heard_all = order.request.text, CharacterTimes(), 0, 0, False
        waiting: deque[list[CharacterTime]] = deque()

        async def next_line() -> bytes | None:
            nonlocal known, told, heard_all
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
            times = waiting.popleft() if waiting else []
            at, told = told, told + len(times)
            return _body(data, times, **self._more(order, times, at)) + b"\n"

        async def omit_end(error: RhapsodeError) -> None:
            """Omits the last chunk of the HTTP body, so that the client notices that the audio is incomplete."""

        headers = self._described(playback) | {"Content-Type": "application/x-ndjson", "Cache-Control": "no-cache"}
        await self._stream(next_line, lambda: heard_all and not waiting, playback, headers, send, omit_end)


class DialogueTimestampResponse(TimestampResponse):
    """The same for a dialogue: each body also says who speaks when."""

    def __init__(self, service: Service, data: bytes, request_id: str, read: Reader, speakers: Sequence[str]) -> None:
        """`speakers` are the voices as the client named them, one for each input, once `read` has read the body."""
        super().__init__(service, data, request_id, read)
        self._speakers = speakers

    def _more(self, order: Order, times: Sequence[CharacterTime], at: int) -> dict[str, Any]:
        found, start = [], 0
        for index, (segment, speaker) in enumerate(zip(order.request.segments, self._speakers, strict=True)):
            first, last = max(start - at, 0), min(start + len(segment.text) - at, len(times))
            start += len(segment.text) + len(BETWEEN)
            if first < last:
                span = {"start_time_seconds": times[first].start_s, "end_time_seconds": times[last - 1].end_s}
                told = {name: round(seconds, 3) for name, seconds in span.items()}
                place = {"character_start_index": first, "character_end_index": last, "dialogue_input_index": index}
                found.append({"voice_id": speaker, **told, **place})
        return {"voice_segments": found}


def _body(data: bytes, times: Sequence[CharacterTime], **more: Any) -> bytes:
    audio, alignment = base64.b64encode(data).decode("ascii"), _alignment(times) if times else None
    fields = {"audio_base64": audio, "alignment": alignment, "normalized_alignment": alignment}
    return json.dumps({**fields, **more}).encode()


def _alignment(times: Sequence[CharacterTime]) -> dict[str, Any]:
    return {
        "characters": [char for char, _, _ in times],
        "character_start_times_seconds": [round(start_s, 3) for _, start_s, _ in times],
        "character_end_times_seconds": [round(end_s, 3) for _, _, end_s in times],
    }

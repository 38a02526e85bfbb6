"""One stream of text on a WebSocket, and the task that speaks it."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from fastapi import WebSocketDisconnect

from rhapsode.alignment.words import WordTime
from rhapsode.errors import RhapsodeError
from rhapsode.serve.elevenlabs.alignment import ContextAlignment
from rhapsode.serve.response.delivery import Playback
from rhapsode.serve.response.errors import InternalError
from rhapsode.serve.response.sending import Stalled
from rhapsode.serve.socket.narration import Narration
from rhapsode.serve.socket.utterance import Piece

MOST_WORDS = 128
"""In one message: more of them would block the event loop."""

log = logging.getLogger("rhapsode.serve")


class SpeechContext:
    """Speaks one narration in a task of its own, and sends its audio and the times of its characters as messages."""

    def __init__(
        self,
        narration: Narration,
        send: Callable[[dict[str, Any]], Awaitable[None]],
        on_error: Callable[[RhapsodeError], Awaitable[None]] | None,
        alignment: ContextAlignment,
    ) -> None:
        """`on_error` reports an error of this context; without it an error ends the task."""
        self.narration = narration
        self._send = send
        self._on_error = on_error
        self._alignment = alignment
        self.task = asyncio.create_task(self._run(), name="elevenlabs-context")

    async def cancel(self) -> None:
        """Ends the context at once, even in the middle of a word."""
        self.task.cancel()
        await asyncio.wait((self.task,))

    async def _run(self) -> None:
        try:
            await self.narration.speak(self._deliver)
            await self._send({"audio": None, "isFinal": True})
        except (WebSocketDisconnect, Stalled):
            raise
        except RhapsodeError as error:
            await self._report(error)
        except Exception:
            log.exception("a context of a socket failed")
            await self._report(InternalError("something went wrong inside the server."))

    async def _report(self, error: RhapsodeError) -> None:
        if self._on_error is None:
            raise error
        await self._on_error(error)

    async def _deliver(self, playback: Playback, piece: Piece) -> None:
        known = 0
        while (messages := await playback.messages()) is not None:
            new, known = playback.times.words[known:], len(playback.times.words)
            waiting = self._alignments(piece.text, new)
            alignment = next(waiting, None)
            for left, message in zip(range(len(messages), 0, -1), messages, strict=True):
                async with playback.sending():
                    await self._send_audio(base64.b64encode(message).decode("ascii"), alignment)
                playback.sent(left)
                alignment = None
            if alignment is not None:
                await self._send_audio(None, alignment)
            await self._send_times(waiting)
        await self._send_times(self._alignment.end(piece.text, playback.heard_s, is_aligned=known > 0))

    def _alignments(self, text: str, words: Sequence[WordTime]) -> Iterator[dict[str, Any]]:
        for start in range(0, len(words), MOST_WORDS):
            yield from self._alignment.add(text, words[start : start + MOST_WORDS])

    async def _send_times(self, alignments: Iterator[dict[str, Any]]) -> None:
        for alignment in alignments:
            await self._send_audio(None, alignment)
            await asyncio.sleep(0)  # a send need not wait, and many of them would block the event loop

    async def _send_audio(self, audio: str | None, alignment: dict[str, Any] | None) -> None:
        await self._send({"audio": audio, "isFinal": None, "normalizedAlignment": alignment, "alignment": alignment})

"""Speaks text that arrives over time, as one request or as several."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from rhapsode.checking.request import check_length
from rhapsode.serve.budget import Account
from rhapsode.serve.listener import Listener, listener
from rhapsode.serve.request.intake import Order
from rhapsode.serve.response.delivery import Playback
from rhapsode.serve.response.sending import Stalled
from rhapsode.serve.service import Service
from rhapsode.serve.socket.utterance import Piece, Utterance
from rhapsode.text.front_end import QUICK_CHARS
from rhapsode.text.markup import input_type_of


@asynccontextmanager
async def speaking_piece(service: Service, order: Order, piece: Piece, request_id: str) -> AsyncIterator[Playback]:
    """Runs the request of one piece, whose text may grow until the piece is closed."""
    input_type = "text" if piece.is_plain else order.request.input_type
    request = replace(order.request, text=piece.text, text_open=not piece.closed, input_type=input_type)
    async with service.speaking(replace(order, request=request), request_id, lambda: piece.text) as playback:
        given = len(request.text)
        while given < len(piece.text):  # the text grew while the request was read
            playback.speech.append(new := piece.text[given : given + QUICK_CHARS])
            given += len(new)
            await asyncio.sleep(0)
        piece.speech = playback.speech
        if request.text_open and piece.closed:
            piece.speech.finish_text()
        try:
            yield playback
        except Stalled as error:
            service.outcomes.record_error(request_id, error)
            raise
    service.outcomes.delivered(request_id)


class Narration:
    """One utterance whose text arrives while it is spoken. `speak` runs beside the calls that add text.

    If the model accepts text while it speaks, text is appended to the running request until it is flushed. Otherwise
    each sentence is a request.
    """

    def __init__(
        self,
        service: Service,
        order: Order,
        narration_id: str,
        has_times: Callable[[str], bool] = lambda text: False,
    ) -> None:
        """If the order already has a text, the narration is complete from the start. `has_times` tells for the text of
        a request whether the times of its words are wanted."""
        can_append, input_type = service.info.can.text_stream, input_type_of(order.request.input_type)
        self._service = service
        self._order = order
        self._has_times = has_times
        self._id = narration_id
        self._requests = 0
        self._utterance = Utterance(
            0,
            by_sentence=not can_append and input_type != "ssml",
            language=order.request.language or "en",
            input_type=input_type,
            whole=input_type == "ssml" and not can_append,
        )
        self._news = asyncio.Event()
        self._texts: Account | None = None
        self.is_flushed = True
        """Whether all text so far is spoken without waiting for more."""
        if order.request.text:
            self._utterance.pieces.append(Piece(order.request.text, closed=True))
            self._utterance.done = True

    @property
    def waits_for_text(self) -> bool:
        """Returns whether the client has to send more text: no piece is pending, or the last one is still open."""
        pieces = self._utterance.pieces
        return not self._utterance.done and (not pieces or not pieces[-1].closed)

    async def append(self, text: str) -> None:
        """Adds text of any size, cut anywhere."""
        self._utterance.chars += len(text)
        check_length(self._utterance.chars, self._service.deployment.limits)
        if text:
            client = (listener.get() or Listener("")).client
            self._texts = self._texts or self._service.texts.open(client)
            self._texts.hold(self._utterance.chars)
        if self.is_flushed:
            text = text.lstrip()  # ElevenLabs' clients begin with a space
        self.is_flushed = self.is_flushed and not text
        for start in range(0, len(text), QUICK_CHARS):  # in short steps, so that the event loop is not blocked
            self._utterance.append(text[start : start + QUICK_CHARS])
            self._news.set()
            await asyncio.sleep(0)

    def flush(self) -> None:
        """Lets the text so far be spoken to its end, without waiting for more."""
        self._utterance.flush()
        self.is_flushed = True
        self._news.set()

    def finish(self) -> None:
        """Marks the text as complete."""
        self._utterance.flush()
        self._utterance.done = True
        self._news.set()

    async def speak(self, deliver: Callable[[Playback, Piece], Awaitable[None]]) -> None:
        """Speaks all of the text in order. `deliver` sends the audio of one request."""
        try:
            await self._speak(deliver)
        finally:
            if self._texts is not None:
                self._texts.close()

    async def _speak(self, deliver: Callable[[Playback, Piece], Awaitable[None]]) -> None:
        pieces = self._utterance.pieces
        while pieces or not self._utterance.done:
            if not pieces:
                await self._news.wait()
                self._news.clear()
                continue
            request_id = f"{self._id}-{self._requests}"
            self._requests += 1
            async with speaking_piece(self._service, self._order_of(pieces[0]), pieces[0], request_id) as playback:
                await deliver(playback, pieces[0])
            pieces.popleft()

    def _order_of(self, piece: Piece) -> Order:
        if not self._has_times(piece.text):
            return self._order
        return replace(self._order, request=replace(self._order.request, word_timestamps=True))

"""Delivers speech to a client: `Delivery` is the form that the client asked for, `Playback` makes the bytes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Literal, ParamSpec, TypeVar

from rhapsode.audio.formats import Format
from rhapsode.audio.packets import packets_of
from rhapsode.engine import Speech
from rhapsode.errors import InvalidRequest, RhapsodeError
from rhapsode.marking.marker import Marker
from rhapsode.serve.budget import Budget
from rhapsode.serve.listener import Listener
from rhapsode.serve.phrases.cache import PhraseEntry
from rhapsode.serve.response.coder import Coder, FullCoder, Output, PlainCoder
from rhapsode.serve.response.sending import Sending
from rhapsode.serve.response.times import HeardTimes
from rhapsode.serve.response.whole_file import WholeFile
from rhapsode.types import AudioChunk, Outcome, SpeechRequest

P = ParamSpec("P")
T = TypeVar("T")
MOST_AT_ONCE_S = 2.0
"""Seconds of speech encoded in one step: a limit on the bytes that wait for one client."""


class AudioTooLarge(InvalidRequest):
    status, code = 413, "audio_too_large"


@dataclass(frozen=True)
class Delivery:
    """The form in which a client asked for its audio."""

    format: Format
    mode: Literal["whole", "audio", "sse"] = "audio"
    sample_rate: int | None = None
    channels: Literal[1, 2] | None = None

    def check(self) -> None:
        rates = self.format.sample_rates
        if self.sample_rate is not None and rates and self.sample_rate not in rates:
            known = ", ".join(map(str, rates))
            raise InvalidRequest(f"{self.format.name} comes at one of {known} Hz.", param="sample_rate")

    def rate_from(self, model_rate: int) -> int:
        """Returns the sample rate of what is sent."""
        return self.format.rate_for(self.sample_rate or self.format.default_rate or model_rate)

    def channels_from(self, model_channels: int) -> int:
        """Returns the channels of what is sent: by default those of the model, but clients of pcm, of telephony and of
        server-sent events expect mono."""
        default = 1 if self.mode == "sse" else self.format.default_channels
        return self.channels or default or model_channels


@dataclass(frozen=True)
class DeliveryLimits:
    """The time and the memory that one playback may use."""

    request_s: float = float("inf")
    whole_bytes: int = 2**40
    budget: Budget | None = None
    """Shared by all playbacks that hold a whole file."""


class Playback:
    """One utterance on its way to one client: applies speed, loudness, sample rate and format, and returns bytes.

    Close it in every case: `close` frees its samples, its encoder and its share of the budget.
    """

    def __init__(
        self,
        speech: Speech,
        request: SpeechRequest,
        delivery: Delivery,
        pool: Executor,
        on_gap: Callable[[float], None] = lambda gap_s: None,
        limits: DeliveryLimits | None = None,
        marks: Marker | None = None,
        entry: PhraseEntry | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.speech = speech
        self._listener = listener
        self._speed = request.speed
        self.heard_s = 0.0
        """The length of what `get` has returned, as the client hears it."""
        self._unsent_s = 0.0
        self.entry = entry
        """Its entry in the phrase cache, if it has one."""
        self.delivery = delivery
        self.sample_rate = delivery.rate_from(speech.sample_rate)
        self.channels = delivery.channels_from(speech.channels)
        self.reason: RhapsodeError | None = None
        """Why the server aborted the request, which the engine cannot know."""
        self.times = HeardTimes()
        """Words and bookmarks that are known so far, with the times at which the client hears them."""
        self._limits = limits or DeliveryLimits()
        self._is_whole = delivery.mode == "whole"
        self._coder: Coder
        output = Output(delivery.format, self.sample_rate, self.channels, self._is_whole)
        if PlainCoder.fits(speech, request, output, marks):
            self._coder = PlainCoder()
        else:
            made_at = entry.found.made_at if entry and entry.found else None
            self._coder = FullCoder(speech, request, output, self.times, marks, made_at)
        self._pool = None if self._coder.is_cheap else pool
        self._encoding = threading.Lock()
        self._on_gap = on_gap
        self._last_s: float | None = None
        self._closed = self._all_said = False
        self._failure: RhapsodeError | None = None
        self._started_s = time.monotonic()
        self._taken_s = self._waited_s = 0.0
        self._file = WholeFile(self._limits.budget, listener)

    @property
    def content_type(self) -> str:
        return self.delivery.format.content_type(self.sample_rate, self.channels)

    @property
    def outcome(self) -> Outcome:
        """How the request ended; known once the last bytes are."""
        assert self.speech.outcome is not None
        return self.speech.outcome

    @property
    def busy_s(self) -> float:
        """Seconds since the start, minus the time that sends have waited for the client."""
        return time.monotonic() - self._started_s - self._waited_s

    def abort(self, error: RhapsodeError) -> None:
        """Ends the request at once; `get` then raises this error."""
        self.reason = self.reason or error
        self.speech.abort()

    async def get(self) -> bytes | None:
        """Returns the next bytes, or None at the end. An error is raised after the bytes that came before it.

        The bytes are empty if there are new words or bookmarks, but no bytes yet.
        """
        known = len(self.times)
        try:
            while not self._closed:
                data = await self._next()
                if data or len(self.times) > known:
                    return data
            return None
        except RhapsodeError as error:
            raise self.reason or error from None

    async def whole(self) -> bytes:
        """Returns all bytes up to the end."""
        parts = []
        while (part := await self.get()) is not None:
            parts.append(part)
        return b"".join(parts)

    async def messages(self) -> list[bytes] | None:
        """Returns the next bytes as the messages that carry them: one for each packet where the format has packets."""
        data = await self.get()
        if data is None:
            return None
        return list(packets_of(data)) if self.delivery.format.has_packets else [data] if data else []

    def sent(self, messages_left: int = 1) -> None:
        """Notes that one of the messages that carry what `get` returned last was written; `messages_left` counts it and
        those that follow."""
        if self._listener is not None:
            audio_s = self._unsent_s / messages_left
            self._unsent_s -= audio_s
            self._listener.sent(audio_s)

    @property
    def holds_slot(self) -> bool:
        """Whether the engine still speaks."""
        return self.speech.outcome is None

    @property
    def is_complete(self) -> bool:
        """Whether `get` has returned the last bytes."""
        return self._closed

    def sending(self, size: int = 0) -> Sending:
        """Returns a context for one send to the client, which raises `Stalled` if the client reads more slowly than the
        speech plays. `size` is that of a part of a whole file."""
        self._file.begin_send(size)
        return Sending(self._started_s + self._limits.request_s + self._taken_s, partial(self._sent, size))

    def _sent(self, size: int, waited_s: float) -> None:
        self._waited_s += waited_s
        self._file.sent(size)

    def close(self) -> None:
        """Frees the encoder, once its current step is over, and everything else at once."""
        self._closed = True
        self._file.close()
        if self._pool is not None:
            self._pool.submit(self._free)

    def _free(self) -> None:
        with self._encoding:
            self._coder.abandon()

    async def _next(self) -> bytes:
        if self._failure is not None:
            raise self._failure
        chunk = None if self._all_said else await self.speech.get_async()
        if chunk is None:
            self._closed = True
            await self._keep()
            return await self._work(self._coder.close)
        if chunk.samples.shape[1]:
            self._record_gap()
        pieces = [chunk, *self._waiting(MOST_AT_ONCE_S - chunk.duration_s)]
        if self.entry is not None:
            self.entry.add(pieces)
        heard_s = sum(piece.duration_s / (piece.pace * self._speed) for piece in pieces)
        self._unsent_s += heard_s
        self.heard_s += heard_s
        self._count(sum(piece.samples.shape[1] for piece in pieces))
        self._closed = self._all_said
        if self._all_said:
            await self._keep()
        return await self._work(self._write, pieces)

    async def _keep(self) -> None:
        """Puts the speech into the phrase cache before the client gets the last bytes, so that a repeated request of
        the client finds it."""
        if self.entry is not None:
            await self.entry.keep(self.outcome)

    def _waiting(self, room_s: float) -> Iterator[AudioChunk]:
        """Yields further chunks that are ready. A playback that falls behind catches up in larger pieces, which cost
        less."""
        try:
            while room_s > 0 and self.speech.is_ready:
                chunk = self.speech.get()
                if chunk is None:
                    self._all_said = True
                    return
                room_s -= chunk.duration_s
                yield chunk
        except RhapsodeError as error:
            self._failure = error  # raised once what came before it has been sent

    def _count(self, samples: int) -> None:
        self._taken_s += samples / self.speech.sample_rate
        if not (self._is_whole and self.delivery.format.lossless):
            return
        size = round(samples / self.speech.sample_rate * self.sample_rate) * self.channels * 2
        if self._file.size + size > self._limits.whole_bytes:
            raise AudioTooLarge(
                f"the audio has more than {self._limits.whole_bytes} bytes: stream it, or ask for another format.",
                param="stream",
            )
        self._file.grow(size)

    def _record_gap(self) -> None:
        now_s = time.perf_counter()
        if self._last_s is not None:
            self._on_gap(now_s - self._last_s)
        self._last_s = now_s

    def _write(self, chunks: list[AudioChunk]) -> bytes:
        data = self._coder.write(chunks)
        return data + self._coder.close() if self._all_said else data

    async def _work(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs one step off the event loop, unless the coder is cheap: codecs take milliseconds, in which the event
        loop could serve no other client."""
        if self._pool is None:
            return work(*args, **kwargs)

        def locked() -> T:
            with self._encoding:
                return work(*args, **kwargs)

        return await asyncio.get_running_loop().run_in_executor(self._pool, locked)

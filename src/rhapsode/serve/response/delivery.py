"""How a listener wants it: format, rate, in one piece or as it is spoken; and the line that makes it so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Literal, ParamSpec, TypeVar

import numpy as np

from rhapsode.audio.chain import Chain
from rhapsode.audio.channels import Remix
from rhapsode.audio.encode import Encoder
from rhapsode.audio.formats import PCM, WAV, Format
from rhapsode.audio.resample import Resampler
from rhapsode.audio.tempo import Tempo
from rhapsode.engine import Speech
from rhapsode.errors import InvalidRequest, RhapsodeError
from rhapsode.types import Outcome, Samples

P = ParamSpec("P")
T = TypeVar("T")
MOST_AT_ONCE = 64
PCM_RATE = 24_000  # what Pipecat, LiveKit and OpenAI's own SDK take for granted


@dataclass(frozen=True)
class Delivery:
    """What the listener asked for."""

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
        """The rate of what is sent."""
        default = PCM_RATE if self.format is PCM else model_rate
        return self.format.rate_for(self.sample_rate or default)

    def channels_from(self, model_channels: int) -> int:
        """Returns the channels of what is sent: by default those of the model, but clients of pcm and of server-sent
        events expect mono."""
        expects_mono = self.format is PCM or self.mode == "sse"
        return self.channels or (1 if expects_mono else model_channels)


class Playback:
    """One utterance on its way to one listener: speech, tempo, sample rate, format, bytes."""

    def __init__(
        self,
        speech: Speech,
        speed: float,
        delivery: Delivery,
        pool: Executor,
        on_gap: Callable[[float], None] = lambda gap_s: None,
    ) -> None:
        self.speech = speech
        self.delivery = delivery
        self.sample_rate = delivery.rate_from(speech.sample_rate)
        self.channels = delivery.channels_from(speech.channels)
        self.blamed: RhapsodeError | None = None
        """Why it was aborted, where the engine cannot know."""
        self._tempo = Chain(
            Remix(speech.channels, self.channels),
            Tempo(speed, speech.sample_rate, self.channels),
            Resampler(speech.sample_rate, self.sample_rate, self.channels),
        )
        whole = delivery.mode == "whole"
        self._encoder = Encoder(delivery.format, self.sample_rate, self.channels, whole=whole)
        light = delivery.format in (PCM, WAV) and speed == 1.0
        self._pool = None if light else pool
        self._on_gap = on_gap
        self._last_s: float | None = None
        self._closed = self._all_said = False
        self._failure: RhapsodeError | None = None

    @property
    def outcome(self) -> Outcome:
        """How it went; there once the last byte is."""
        assert self.speech.outcome is not None
        return self.speech.outcome

    def blame(self, error: RhapsodeError) -> None:
        """End it, for this reason."""
        self.blamed = self.blamed or error
        self.speech.abort()

    async def get(self) -> bytes | None:
        """The next bytes, or None when all is said; a failure is raised where it happened."""
        try:
            while not self._closed:
                data = await self._next()
                if data:
                    return data
            return None
        except RhapsodeError as error:
            raise self.blamed or error from None

    async def _next(self) -> bytes:
        if self._failure is not None:
            raise self._failure
        chunk = None if self._all_said else await self.speech.get_async()
        if chunk is None:
            self._closed = True
            return await self._work(self._close)
        self._tell_gap()
        return await self._work(self._write, [chunk.samples, *self._waiting()])

    def _waiting(self) -> Iterator[Samples]:
        """What else is there already: whoever falls behind catches up in larger pieces, which cost less."""
        try:
            for _ in range(MOST_AT_ONCE):
                chunk = self.speech.get(timeout_s=0)
                if chunk is None:
                    self._all_said = True
                    return
                yield chunk.samples
        except TimeoutError:
            return
        except RhapsodeError as error:
            self._failure = error  # to be told once what came before it has been heard

    async def whole(self) -> bytes:
        """All of it."""
        parts = []
        while (part := await self.get()) is not None:
            parts.append(part)
        return b"".join(parts)

    def _tell_gap(self) -> None:
        now_s = time.perf_counter()
        if self._last_s is not None:
            self._on_gap(now_s - self._last_s)
        self._last_s = now_s

    def _write(self, pieces: list[Samples]) -> bytes:
        samples = pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=1)
        return self._encoder.write(self._tempo.write(samples))

    def _close(self) -> bytes:
        tail = self._tempo.close()
        return (self._encoder.write(tail) if tail.shape[1] else b"") + self._encoder.close()

    async def _work(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Codecs take milliseconds, in which nobody else would be heard: off the event loop, one piece at a time."""
        if self._pool is None:
            return work(*args, **kwargs)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: work(*args, **kwargs))

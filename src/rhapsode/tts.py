"""The offline API: one model, spoken to from Python."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from rhapsode.audio.chain import Chain
from rhapsode.audio.channels import Remix
from rhapsode.audio.clip import Audio
from rhapsode.audio.pacer import Pacer
from rhapsode.config import Deployment, resolve
from rhapsode.engine import Engine, Source, Speech
from rhapsode.engine.compile import compile_kernels
from rhapsode.engine.validate import checked
from rhapsode.marking.marker import Marker
from rhapsode.models.registry import Model, find
from rhapsode.types import AudioChunk, Outcome, Samples, Sampling, SpeechRequest, Voice

log = logging.getLogger("rhapsode")


class Stream:
    """Chunks as they are spoken, with the speed and the channels asked for: `for chunk in stream`, or `async for`."""

    def __init__(self, speech: Speech, speed: float, channels: int | None, marks: Marker) -> None:
        self._speech = speech
        self.sample_rate = speech.sample_rate
        self.channels = channels or speech.channels
        self.marks = marks
        self._remix = Remix(speech.channels, self.channels)
        self._pacer = Pacer(speed, speech.sample_rate, self.channels)
        self._after = Chain(*marks.watermarks(speech.sample_rate, self.channels))

    @property
    def outcome(self) -> Outcome | None:
        """How it went, once it is over."""
        return self._speech.outcome

    def append(self, text: str) -> None:
        """More text, where the stream was opened with `text_open=True`."""
        self._speech.append(text)

    def finish_text(self) -> None:
        """No more text will come."""
        self._speech.finish_text()

    def abort(self) -> None:
        self._speech.abort()

    def __iter__(self) -> Iterator[AudioChunk]:
        index = 0
        for chunk in self._speech:
            if out := self._chunk(self._paced(chunk), index):
                yield out
                index += 1
        if out := self._chunk(self._after.close(self._pacer.close()), index):
            yield out

    async def __aiter__(self) -> AsyncIterator[AudioChunk]:
        index = 0
        async for chunk in self._speech:
            if out := self._chunk(self._paced(chunk), index):
                yield out
                index += 1
        if out := self._chunk(self._after.close(self._pacer.close()), index):
            yield out

    def _paced(self, chunk: AudioChunk) -> Samples:
        return self._after.write(self._pacer.write(self._remix.write(chunk.samples), chunk.pace, chunk.is_pause))

    def _chunk(self, samples: Samples, index: int) -> AudioChunk | None:
        return AudioChunk(samples, self.sample_rate, index) if samples.shape[1] else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()


class TTS:
    """A loaded model. `TTS().speak("Hello.").save("hello.wav")`

    `model` is a family's name or a checkpoint's folder; `config` a deployment file; `settings` override both.
    """

    def __init__(self, model: str | None = None, *, config: Path | str | None = None, **settings: Any) -> None:
        flags = settings if model is None else {"model": model, **settings}
        deployment = resolve(Path(config) if config else None, flags=flags)
        self._marks = Marker(deployment.marking)
        self.engine = open_engine(find(deployment.model), deployment)

    @classmethod
    def opened(cls, model: Model, deployment: Deployment) -> Self:
        """Loads a model that was found, with a deployment that was resolved."""
        tts = cls.__new__(cls)
        tts._marks = Marker(deployment.marking)
        tts.engine = open_engine(model, deployment)
        return tts

    @property
    def sample_rate(self) -> int:
        return self.engine.spec.sample_rate

    def speak(self, text: str | SpeechRequest, voice: str | Voice | None = None, **wishes: Any) -> Audio:
        """The whole utterance; `wishes` are the fields of `SpeechRequest`, of `Sampling`, or the family's options."""
        with self.stream(text, voice, **wishes) as stream:
            chunks = [chunk.samples for chunk in stream]
        return Audio(np.concatenate(chunks, axis=1), self.sample_rate, self._marks)

    def stream(self, text: str | SpeechRequest, voice: str | Voice | None = None, **wishes: Any) -> Stream:
        """Speech as it is made; with `text_open=True` more text may be appended while it speaks."""
        request = text if isinstance(text, SpeechRequest) else make_request(text, voice, **wishes)
        return Stream(self.engine.submit(request), request.speed, request.channels, self._marks)

    def close(self) -> None:
        self.engine.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_engine(
    model: Model, deployment: Deployment, on_outcome: Callable[[Outcome], None] = lambda outcome: None
) -> Engine:
    """A model, loaded and running."""
    model.check_checkpoint()
    source = Source(model.checkpoint, model.config)
    compile_kernels(model.spec, source, deployment, log.info)
    return Engine(model.spec, deployment, source, on_outcome).start()


def check(model: Model, deployment: Deployment, request: SpeechRequest) -> None:
    """Raises what is wrong with a request; the model need not be loaded."""
    model.check_checkpoint()
    checked(request, model.spec, model.info(), deployment.limits)


def make_request(text: str, voice: str | Voice | None = None, **wishes: Any) -> SpeechRequest:
    """A request from keywords: what is neither its own field nor a sampling parameter is an option of the family."""
    request_fields = SpeechRequest.__dataclass_fields__.keys() - {"text", "voice", "sampling", "options"}
    own = {name: value for name, value in wishes.items() if name in request_fields}
    sampling = {name: value for name, value in wishes.items() if name in Sampling.__dataclass_fields__}
    options = {name: value for name, value in wishes.items() if name not in own and name not in sampling}
    chosen = voice if isinstance(voice, Voice) else Voice(name=voice)
    return SpeechRequest(text, chosen, sampling=Sampling(**sampling), options=options, **own)

"""The offline API: one model, used from Python."""

from __future__ import annotations

import logging
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, cast, overload

import numpy as np

from rhapsode import loading
from rhapsode.audio.clip import Audio
from rhapsode.audio.finish import Finish
from rhapsode.checking.reading import settings_of
from rhapsode.checking.request import checked
from rhapsode.config import Deployment, resolve
from rhapsode.device.early_start import start_triton
from rhapsode.engine import Source, Speech
from rhapsode.errors import IgnoredWarning, InvalidRequest
from rhapsode.kernel_cache.compilation import Compilation, begin_compiling, launches_kernels
from rhapsode.marking.marker import Marker
from rhapsode.models.abilities import without_ignored
from rhapsode.models.registry import Model, find
from rhapsode.text.front_end import FrontEnd
from rhapsode.text.lexicon import Lexicon
from rhapsode.types import AudioChunk, Outcome, Segment, SpeechRequest, Voice
from rhapsode.wishes import Wishes, as_voice, make_request

if TYPE_CHECKING:
    from rhapsode.engine import Engine

log = logging.getLogger("rhapsode")

Spoken = str | SpeechRequest | Sequence[Segment]
"""What is spoken in one request."""
VoiceLike = str | Path | Voice | None


class Stream:
    """Yields chunks as they are spoken, with the requested speed, loudness and channels: `for chunk in stream`, or
    `async for`."""

    def __init__(self, speech: Speech, request: SpeechRequest, marks: Marker) -> None:
        self._speech = speech
        self.sample_rate = speech.sample_rate
        self.channels = request.channels or speech.channels
        self.marks = marks
        watermarks = marks.watermarks(speech.sample_rate, self.channels)
        self._finish = Finish(request, speech.sample_rate, speech.channels, self.channels, watermarks)

    @property
    def outcome(self) -> Outcome | None:
        """The result of the request, once it has ended; `None` before."""
        return self._speech.outcome

    def append(self, text: str) -> None:
        """Appends text to a stream that was opened with `text_open=True`."""
        self._speech.append(text)

    def finish_text(self) -> None:
        """Tells the engine that no more text will come."""
        self._speech.finish_text()

    def abort(self) -> None:
        self._speech.abort()

    def __iter__(self) -> Iterator[AudioChunk]:
        index = 0
        for chunk in self._speech:
            if out := self._chunk(chunk, index):
                yield out
                index += 1
        if out := self._chunk(None, index):
            yield out

    async def __aiter__(self) -> AsyncIterator[AudioChunk]:
        index = 0
        async for chunk in self._speech:
            if out := self._chunk(chunk, index):
                yield out
                index += 1
        if out := self._chunk(None, index):
            yield out

    def _chunk(self, chunk: AudioChunk | None, index: int) -> AudioChunk | None:
        """Returns the next chunk for the listener, or `None` if there is none yet. `chunk=None` ends the stream."""
        samples = self._finish.write([chunk]) if chunk else self._finish.close()
        words = self._finish.words([chunk]) if chunk else ()
        marks = self._finish.bookmarks([chunk]) if chunk else ()
        if not (samples.shape[1] or words or marks):
            return None
        return AudioChunk(samples, self.sample_rate, index, words=words, bookmarks=marks)

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
        """Loads a model that the registry has found, with a resolved deployment."""
        tts = cls.__new__(cls)
        tts._marks = Marker(deployment.marking)
        tts.engine = open_engine(model, deployment)
        return tts

    @property
    def sample_rate(self) -> int:
        return self.engine.spec.sample_rate

    @property
    def voices(self) -> tuple[str, ...]:
        """The presets that a request may name."""
        return self.engine.info.presets

    @overload
    def speak(
        self, text: str | SpeechRequest | Sequence[Segment], voice: VoiceLike = None, **wishes: Unpack[Wishes]
    ) -> Audio: ...

    @overload
    def speak(
        self, text: list[str] | tuple[str, ...], voice: VoiceLike = None, **wishes: Unpack[Wishes]
    ) -> list[Audio]: ...

    def speak(
        self, text: Spoken | list[str] | tuple[str, ...], voice: VoiceLike = None, **wishes: Unpack[Wishes]
    ) -> Audio | list[Audio]:
        """Speaks a whole utterance, a dialogue of segments, or several texts at once.

        `voice` is a preset, a recording to clone (`"my.wav"`) or a `Voice`. Options of the family may be keywords, too.
        Instructions for a model that takes none are ignored, with a warning.
        """
        if isinstance(text, list | tuple) and text and all(isinstance(one, str) for one in text):
            voice = as_voice(voice)  # a recording is read once
            known = self.engine.spec.option_names
            return self._speak_all([make_request(str(one), voice, known, **wishes) for one in text])
        return self._listen(self._open(cast("Spoken", text), voice, wishes))

    def _speak_all(self, requests: Sequence[SpeechRequest]) -> list[Audio]:
        """Speaks requests at the same time, as many as there are slots; the first error ends all of them."""
        running: set[Stream] = set()

        def speak(request: SpeechRequest) -> Audio:
            stream = self._open(request, None, {})
            running.add(stream)
            audio = self._listen(stream)
            running.discard(stream)
            return audio

        with ThreadPoolExecutor(min(len(requests), self.engine.deployment.limits.slots), "speak") as pool:
            try:
                return list(pool.map(speak, requests))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for stream in list(running):
                    stream.abort()
                raise

    def _listen(self, stream: Stream) -> Audio:
        with stream:
            chunks = list(stream)
        words = tuple(word for chunk in chunks for word in chunk.words)
        bookmarks = tuple(mark for chunk in chunks for mark in chunk.bookmarks)
        samples = np.concatenate([chunk.samples for chunk in chunks], axis=1)
        return Audio(samples, self.sample_rate, self._marks, words, bookmarks)

    def stream(self, text: Spoken, voice: VoiceLike = None, **wishes: Unpack[Wishes]) -> Stream:
        """Speaks as a stream of chunks; with `text_open=True` more text may be appended while it speaks."""
        return self._open(text, voice, wishes)

    def _open(self, text: Spoken, voice: VoiceLike, wishes: Wishes) -> Stream:
        request = _as_request(text, voice, wishes, self.engine.spec.option_names)
        request, warning = without_ignored(request, self.engine.info)
        if warning:
            warnings.warn(warning, IgnoredWarning, stacklevel=3)
        return Stream(self.engine.submit(request), request, self._marks)

    def close(self) -> None:
        self.engine.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _as_request(text: Spoken, voice: VoiceLike, wishes: Wishes, known: Sequence[str]) -> SpeechRequest:
    """Returns the request for what is spoken. One that is given whole takes no further wishes."""
    if not isinstance(text, SpeechRequest):
        return make_request(text, voice, known, **wishes)
    beside = [*(["voice"] if voice is not None else []), *wishes]
    if beside:
        raise InvalidRequest(
            f"'{beside[0]}' is given beside a SpeechRequest, which has its own: use dataclasses.replace(request, ...), "
            "or give the text instead.",
            param=beside[0],
        )
    return text


def open_engine(
    model: Model,
    deployment: Deployment,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
    compiling: Compilation | None = None,
) -> Engine:
    """Loads a model and starts its engine. Kernels are compiled while the weights are read.

    `compiling` is a compilation that has already begun.
    """
    model.check_checkpoint()
    source = Source(model.checkpoint, model.config)
    loading.report("kernel cache")
    compiling = compiling or begin_compiling(model.spec, source, deployment, log.info)
    hashing = start_triton() if launches_kernels(model.spec, deployment) else None

    def wait() -> None:
        """Waits for the kernels: compiling takes memory, so the free memory is known only afterwards."""
        nonlocal compiling
        if hashing is not None:
            hashing.join()
        if compiling is not None:
            loading.report("kernels")
            compiling.wait(log.info, detail=True)
            compiling = None

    from rhapsode.engine import Engine

    try:
        return Engine(model.spec, deployment, source, on_outcome, wait).start()
    finally:
        loading.done()
        if compiling is not None:  # the model cannot be loaded
            compiling.stop()


def check(model: Model, deployment: Deployment, request: SpeechRequest) -> None:
    """Raises if a request is invalid for a model; the model need not be loaded."""
    model.check_checkpoint()
    info = model.info(deployment.options)
    asked = without_ignored(request, info)[0]
    checked(asked, model.spec, info, deployment.limits)
    if asked.input_type == "ssml":  # any other text can be read
        front_end = FrontEnd(settings_of(asked, info, Lexicon.read(deployment.lexicon)))
        front_end.push(asked.text)
        front_end.close()

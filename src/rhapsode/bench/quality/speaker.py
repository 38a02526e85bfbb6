"""Who speaks: an engine in this process, or a server."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rhapsode.audio.samples import from_pcm16
from rhapsode.bench.quality.prompts import SpokenPrompt
from rhapsode.bench.serve.target import Target
from rhapsode.errors import GenerationFailed, InvalidRequest
from rhapsode.types import Clip, SpeechRequest, Voice

if TYPE_CHECKING:
    from rhapsode.tts import Stream


MODES: tuple[str, ...] = ("one-shot", "streamed", "batched", "appended")
"""As a whole; chunk by chunk; the same with others at once; while the text still arrives."""
WORD_S = 0.05
"""Between two words of text that arrives while it is spoken: a quick language model."""


@dataclass(frozen=True)
class Spoken:
    """One utterance, and how long it took."""

    clip: Clip
    total_s: float
    first_audio_s: float


class Speaker(Protocol):
    modes: tuple[str, ...]
    """Those of `MODES` it can speak in."""

    def speak(self, prompt: SpokenPrompt, seed: int, mode: str) -> Spoken:
        """May be called from several threads at once."""

    def close(self) -> None: ...

    def config(self) -> dict[str, Any]: ...


class EngineSpeaker:
    """The offline API: what `rhapsode say` uses."""

    modes = MODES

    def __init__(self, model: str | None, voice: str | None, language: str | None, config: Path | None) -> None:
        from rhapsode.tts import TTS

        self._tts = TTS(model, config=config)
        self._voice, self._language = voice, language

    def speak(self, prompt: SpokenPrompt, seed: int, mode: str) -> Spoken:
        voice = Voice(name=self._voice, reference=reference_of(prompt), reference_text=prompt.reference_text)
        request = SpeechRequest(prompt.text, voice, language=self._language, seed=seed)
        started_s = time.perf_counter()
        if mode == "one-shot":
            audio = self._tts.speak(request)
            total_s = time.perf_counter() - started_s
            return Spoken(Clip(audio.samples, audio.sample_rate), total_s, total_s)
        words = re.findall(r"(?<!\s)\s*+\S+", prompt.text) if mode == "appended" else []
        if words:
            request = replace(request, text=words.pop(0), text_open=True)
        chunks, first_audio_s = [], 0.0
        with self._tts.stream(request) as stream, _appending(stream, words, request.text_open):
            for chunk in stream:
                first_audio_s = first_audio_s or time.perf_counter() - started_s
                chunks.append(chunk.samples)
        total_s = time.perf_counter() - started_s
        return Spoken(Clip(np.concatenate(chunks, axis=1), self._tts.sample_rate), total_s, first_audio_s)

    def close(self) -> None:
        self._tts.close()

    def config(self) -> dict[str, Any]:
        engine = self._tts.engine
        return {"family": engine.spec.name, "deployment": engine.deployment.model_dump(mode="json")}


class ServerSpeaker:
    """Any speech server that streams pcm or wav."""

    modes: tuple[str, ...] = ("streamed", "batched")

    def __init__(self, target: Target, sample_rate: int | None, timeout_s: float) -> None:
        self._target, self._sample_rate, self._timeout_s = target, sample_rate, timeout_s

    def speak(self, prompt: SpokenPrompt, seed: int, mode: str) -> Spoken:
        return asyncio.run(self._speak(prompt, seed))

    async def _speak(self, prompt: SpokenPrompt, seed: int) -> Spoken:
        from rhapsode.bench.serve.client import Listener, make_session

        async with make_session() as session:
            listener = Listener(session, self._target, self._sample_rate, self._timeout_s, keep=True)
            heard = await listener.hear(prompt.text, seed)
        if heard.error is not None:
            raise GenerationFailed(f"{heard.error}: {heard.detail}")
        clip = Clip(from_pcm16(heard.samples), heard.sample_rate)
        return Spoken(clip, heard.total_s, heard.playable_s or heard.total_s)

    def close(self) -> None:
        """Every request had a connection of its own."""

    def config(self) -> dict[str, Any]:
        return {"url": self._target.url, "target": self._target.dialect.name, "body": self._target.body("...", 0)}


@contextmanager
def _appending(stream: Stream, words: Sequence[str], is_open: bool) -> Iterator[None]:
    """Hand over the words one by one meanwhile, and then the end of the text."""

    def append() -> None:
        for word in words:
            time.sleep(WORD_S)
            stream.append(word)
        stream.finish_text()

    if not is_open:
        yield
        return
    thread = threading.Thread(target=append, daemon=True)
    thread.start()
    yield
    thread.join()


def parse_modes(text: str, speaker: Speaker) -> tuple[str, ...]:
    """`one-shot,appended`, each once, and all of them the speaker's."""
    modes = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if wrong := [mode for mode in modes if mode not in speaker.modes]:
        raise InvalidRequest(f"--mode takes some of {', '.join(speaker.modes)} here, not '{wrong[0]}'.")
    return modes


def reference_of(prompt: SpokenPrompt) -> Clip | None:
    return None if prompt.reference is None else _decode(prompt.reference)


@lru_cache(maxsize=64)
def _decode(path: Path) -> Clip:
    from rhapsode.audio.decode import decode

    return decode(path)

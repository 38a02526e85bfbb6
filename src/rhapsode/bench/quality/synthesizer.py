"""Speaks the prompts, with an engine in this process or with a server."""

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
from rhapsode.bench.serve.server import SpeechServer
from rhapsode.errors import GenerationFailed, InvalidRequest
from rhapsode.types import Clip, Reference, SpeechRequest, Voice

if TYPE_CHECKING:
    from rhapsode.tts import TTS, Stream


MODES: tuple[str, ...] = ("one-shot", "streamed", "batched", "appended")
"""The whole text at once; chunk by chunk; several prompts concurrently; text appended while it is spoken."""
WORD_S = 0.05
"""Time between two appended words, as from a fast language model."""


@dataclass(frozen=True)
class SynthesisResult:
    """The audio of one prompt, and how long it took."""

    clip: Clip
    total_s: float
    first_audio_s: float


class Synthesizer(Protocol):
    modes: tuple[str, ...]
    """Those of `MODES` that it supports."""

    def speak(self, prompt: SpokenPrompt, seed: int, mode: str) -> SynthesisResult:
        """May be called from several threads at once."""

    def close(self) -> None: ...

    def config(self) -> dict[str, Any]: ...


class EngineSynthesizer:
    """Speaks with the offline API, as `rhapsode say` does."""

    modes = MODES

    def __init__(self, model: str | None, voice: str | None, language: str | None, config: Path | None) -> None:
        from rhapsode.tts import TTS

        self._tts = TTS(model, config=config)
        self._voice, self._language = voice, language

    def speak(self, prompt: SpokenPrompt, seed: int, mode: str) -> SynthesisResult:
        clip = reference_of(prompt)
        references = () if clip is None else (Reference(clip, prompt.reference_text),)
        voice = Voice(name=self._voice, references=references)
        request = SpeechRequest(prompt.text, voice, language=self._language, seed=seed)
        started_s = time.perf_counter()
        if mode == "one-shot":
            audio = self._tts.speak(request)
            total_s = time.perf_counter() - started_s
            return SynthesisResult(Clip(audio.samples, audio.sample_rate), total_s, total_s)
        words = re.findall(r"(?<!\s)\s*+\S+", prompt.text) if mode == "appended" else []
        if words:
            request = replace(request, text=words.pop(0), text_open=True)
        return listen(self._tts, request, words)

    def close(self) -> None:
        self._tts.close()

    def config(self) -> dict[str, Any]:
        engine = self._tts.engine
        return {"family": engine.spec.name, "deployment": engine.deployment.model_dump(mode="json")}


def listen(tts: TTS, request: SpeechRequest, words: Sequence[str] = ()) -> SynthesisResult:
    """Returns what a stream of this request gives; `words` are appended one by one where its text is open."""
    chunks, first_audio_s, started_s = [], 0.0, time.perf_counter()
    with tts.stream(request) as stream, _appending(stream, words, request.text_open):
        for chunk in stream:
            first_audio_s = first_audio_s or time.perf_counter() - started_s
            chunks.append(chunk.samples)
    total_s = time.perf_counter() - started_s
    samples = np.concatenate(chunks, axis=1) if chunks else np.zeros((1, 0), np.float32)
    return SynthesisResult(Clip(samples, tts.sample_rate), total_s, first_audio_s)


class ServerSynthesizer:
    """Speaks with any server that streams pcm or wav."""

    modes: tuple[str, ...] = ("streamed", "batched")

    def __init__(self, server: SpeechServer, sample_rate: int | None, timeout_s: float) -> None:
        self._server, self._sample_rate, self._timeout_s = server, sample_rate, timeout_s

    def speak(self, prompt: SpokenPrompt, seed: int, mode: str) -> SynthesisResult:
        return asyncio.run(self._speak(prompt, seed))

    async def _speak(self, prompt: SpokenPrompt, seed: int) -> SynthesisResult:
        from rhapsode.bench.serve.client import SpeechClient, make_session

        async with make_session() as session:
            client = SpeechClient(session, self._server, self._sample_rate, self._timeout_s, keep=True)
            response = await client.request(prompt.text, seed)
        if response.error is not None:
            raise GenerationFailed(f"{response.error}: {response.detail}")
        clip = Clip(from_pcm16(response.samples), response.sample_rate)
        return SynthesisResult(clip, response.total_s, response.playable_s or response.total_s)

    def close(self) -> None:
        """Does nothing: every request has a connection of its own."""

    def config(self) -> dict[str, Any]:
        return {"url": self._server.url, "target": self._server.kind.name, "body": self._server.body("...", 0)}


@contextmanager
def _appending(stream: Stream, words: Sequence[str], is_open: bool) -> Iterator[None]:
    """Appends the words one by one from another thread, then ends the text."""

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


def parse_modes(text: str, synthesizer: Synthesizer) -> tuple[str, ...]:
    """Parses a list such as `one-shot,appended`; raises if the synthesizer does not support a mode."""
    modes = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if wrong := [mode for mode in modes if mode not in synthesizer.modes]:
        raise InvalidRequest(f"--mode takes some of {', '.join(synthesizer.modes)} here, not '{wrong[0]}'.")
    return modes


def reference_of(prompt: SpokenPrompt) -> Clip | None:
    return None if prompt.reference is None else _decode(prompt.reference)


@lru_cache(maxsize=64)
def _decode(path: Path) -> Clip:
    from rhapsode.audio.decode import decode

    return decode(path)

"""Who speaks: an engine in this process, or a server."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rhapsode.audio.samples import from_pcm16
from rhapsode.bench.quality.prompts import SpokenPrompt
from rhapsode.bench.serve.target import Target
from rhapsode.errors import GenerationFailed
from rhapsode.types import Clip, SpeechRequest, Voice


@dataclass(frozen=True)
class Spoken:
    """One utterance, and how long it took."""

    clip: Clip
    total_s: float
    first_audio_s: float


class Speaker(Protocol):
    def speak(self, prompt: SpokenPrompt, seed: int) -> Spoken: ...

    def close(self) -> None: ...

    def config(self) -> dict[str, Any]: ...


class EngineSpeaker:
    """The offline API: what `rhapsode say` uses."""

    def __init__(self, model: str | None, voice: str | None, language: str | None, config: Path | None) -> None:
        from rhapsode.tts import TTS

        self._tts = TTS(model, config=config)
        self._voice, self._language = voice, language

    def speak(self, prompt: SpokenPrompt, seed: int) -> Spoken:
        voice = Voice(name=self._voice, reference=reference_of(prompt), reference_text=prompt.reference_text)
        request = SpeechRequest(prompt.text, voice, language=self._language, seed=seed)
        started_s = time.perf_counter()
        chunks, first_audio_s = [], 0.0
        with self._tts.stream(request) as stream:
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

    def __init__(self, target: Target, sample_rate: int | None, timeout_s: float) -> None:
        self._target, self._sample_rate, self._timeout_s = target, sample_rate, timeout_s

    def speak(self, prompt: SpokenPrompt, seed: int) -> Spoken:
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


def reference_of(prompt: SpokenPrompt) -> Clip | None:
    return None if prompt.reference is None else _decode(prompt.reference)


@lru_cache(maxsize=64)
def _decode(path: Path) -> Clip:
    from rhapsode.audio.decode import decode

    return decode(path)

"""Answers repeated requests from a cache of finished speech, without running the model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rhapsode.config import Deployment
from rhapsode.engine import Speech
from rhapsode.models.registry import Model
from rhapsode.serve.phrases.key import model_identity, phrase_key
from rhapsode.serve.phrases.phrase import Phrase
from rhapsode.serve.phrases.store import PhrasesInFolder, PhrasesInMemory, PhraseStore
from rhapsode.serve.response.silence import finished_speech
from rhapsode.types import AudioChunk, FinishReason, Outcome, SpeechRequest
from rhapsode.voices.cache import CacheStats

MOST_PHRASE_BYTES = 8 * 2**20
"""Longer speech is not cached: it is rarely requested again, and all of it is held in memory while it is spoken."""
SHARE = 4
"""A phrase takes at most a quarter of the cache, so that a long phrase does not evict all others."""


class PhraseCache:
    """Keeps finished speech, for later requests that would give the same speech."""

    def __init__(self, model: Model, deployment: Deployment) -> None:
        config = deployment.server.cache
        self._any_seed = config.unseeded
        self._most_bytes = min(config.bytes // SHARE, MOST_PHRASE_BYTES)
        self._identity = model_identity(model, deployment)
        self._store: PhraseStore = (
            PhrasesInFolder(config.folder, config.bytes) if config.folder else PhrasesInMemory(config.bytes)
        )
        self._hits = self._misses = 0

    def stats(self) -> CacheStats:
        return CacheStats(self._hits, self._misses, self._store.bytes, 0)

    def close(self) -> None:
        self._store.flush()

    async def entry(self, request: SpeechRequest) -> PhraseEntry | None:
        """Looks a request up; returns `None` if requests of its kind are not cached."""
        if request.text_open or request.word_timestamps or not (self._any_seed or self._is_repeatable(request)):
            return None
        key = await asyncio.to_thread(phrase_key, request, self._identity)
        found = await asyncio.to_thread(self._store.get, key)
        self._hits += found is not None
        self._misses += found is None
        return PhraseEntry(self._store, key, found, self._most_bytes)

    @staticmethod
    def _is_repeatable(request: SpeechRequest) -> bool:
        return request.seed is not None or request.sampling.temperature == 0


class PhraseEntry:
    """The cache entry of one request: the phrase that was found, or the chunks that are collected for a new one."""

    def __init__(self, store: PhraseStore, key: str, found: Phrase | None, most_bytes: int) -> None:
        self.found = found
        self._store, self._key, self._most_bytes = store, key, most_bytes
        self._chunks: list[AudioChunk] = []
        self._bytes = 0

    @property
    def status(self) -> str:
        return "miss" if self.found is None else "hit"

    def speech(self, request_id: str) -> Speech:
        """Returns the phrase that was found, as speech that is complete from the start."""
        assert self.found is not None
        return finished_speech(request_id, self.found.chunks(), self.found.frames)

    def add(self, chunks: Sequence[AudioChunk]) -> None:
        """Collects chunks from the model, unless the speech is too long to be cached."""
        if self.found is None and self._bytes <= self._most_bytes:
            self._chunks.extend(chunks)
            self._bytes += sum(chunk.samples.nbytes for chunk in chunks)

    async def keep(self, outcome: Outcome) -> None:
        """Puts the collected speech into the cache, if it was spoken to its end. Later requests then find it."""
        chunks, self._chunks = self._chunks, []
        if outcome.finish_reason is FinishReason.STOP and chunks and self._bytes <= self._most_bytes:
            phrase = await asyncio.to_thread(Phrase.of, chunks, outcome.frames)
            self._store.put(self._key, phrase)

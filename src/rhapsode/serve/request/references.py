"""Fetches, decodes and caches the audio that requests refer to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256

from rhapsode.audio.decoder import DecodeLimits, DecoderPool
from rhapsode.config.server import ServerConfig
from rhapsode.errors import BadAudio, Busy, InvalidRequest
from rhapsode.serve.fair_threads import FairThreads
from rhapsode.serve.listener import Listener, listener
from rhapsode.serve.middleware.limits import counted_body
from rhapsode.types import Clip, Reference, Voice
from rhapsode.voices.cache import CacheStats, ReferenceCache, content_key
from rhapsode.voices.fetch import FetchLimits, ReferenceFetcher, is_data_url, is_remote, parse_data_url
from rhapsode.voices.store import VoiceStore

DECODERS, WAITING = 2, 30
DECODERS_EACH = 1
"""Of one client, so that its slow files leave a decoder to others."""


class References:
    """Turns references of clients into clips: fetched, decoded within limits, and cached by content."""

    def __init__(self, config: ServerConfig, store: VoiceStore, mono: bool = True) -> None:
        """`mono`: recordings are mixed to one channel, for models that take no more."""
        self._config = config
        self._store = store
        self._cache = ReferenceCache(config.reference_cache_bytes)
        fetch = config.fetch
        most_bytes = max(config.max_upload_bytes, fetch.max_bytes)
        limits = DecodeLimits(most_bytes, config.max_reference_s, config.max_decode_cpu_s)
        self._decoders = DecoderPool(DECODERS, limits, WAITING, mono=mono)
        self._threads = FairThreads(
            "rhapsode-references", "recordings", threads=DECODERS, each=DECODERS_EACH, waiting=WAITING
        )
        self._fetcher = ReferenceFetcher(
            FetchLimits(
                max_bytes=fetch.max_bytes,
                connect_s=fetch.connect_s,
                total_s=fetch.total_s,
                allow_hosts=fetch.allow_hosts,
                allow_private=fetch.allow_private,
            )
        )

    def stats(self) -> CacheStats:
        return self._cache.stats()

    async def voice(self, references: Sequence[tuple[str, str | None]]) -> Voice:
        """Returns the voice of some references. Each is a data: or http(s): URL, or an uploaded voice, with its
        transcript."""
        voices = [await self._voice(audio, text) for audio, text in references]
        if len(voices) == 1:
            return voices[0]
        if any(voice.embedding is not None for voice in voices):
            raise InvalidRequest("a voice uploaded as an embedding is no reference among several.", param="ref_audio")
        return Voice(references=tuple(reference for voice in voices for reference in voice.references))

    async def _voice(self, audio: str, text: str | None) -> Voice:
        if is_data_url(audio):
            data = await asyncio.to_thread(parse_data_url, audio, self._config.max_upload_bytes)
        elif is_remote(audio):
            if not self._config.fetch.enabled:
                raise InvalidRequest("this server fetches no URLs: send a data: URL instead.", param="ref_audio")
            data = await self._fetcher.fetch(audio)
        else:
            return await self._stored(audio, text)
        digest = await asyncio.to_thread(lambda: sha256(data).hexdigest())
        return Voice(references=(Reference(await self.clip(data, "ref_audio"), text or None, digest),))

    async def clip(self, data: bytes, param: str) -> Clip:
        """Decodes audio of a client within limits; equal audio is decoded once."""
        key = await asyncio.to_thread(content_key, data)
        client = (listener.get() or Listener("")).client
        find = partial(self._cache.get_or_make, key, lambda: self._decode(data))
        try:
            if key in self._cache:  # it need not wait for a decoder
                return await asyncio.to_thread(find)
            return await self._in_line(client, find)
        except BadAudio as error:
            raise BadAudio(error.message, param=param) from None

    async def _in_line(self, client: str, find: Callable[[], Clip]) -> Clip:
        """Decodes when it is the client's turn. While the recording waits, its upload may be given up for others."""
        body, loop, is_given_up = counted_body.get(), asyncio.get_running_loop(), False
        if body is None:
            return await asyncio.wrap_future(self._threads.submit(client, find))

        def begin() -> Clip:
            loop.call_soon_threadsafe(body.keep)
            return find()

        def give_up() -> None:
            nonlocal is_given_up
            is_given_up = waiting.cancel()

        waiting = self._threads.submit(client, begin)
        if not waiting.running():
            body.offer(give_up)
        try:
            return await asyncio.wrap_future(waiting)
        except asyncio.CancelledError:
            if is_given_up:
                raise Busy("the upload was ended to make room for others.") from None
            raise
        finally:
            body.keep()

    def _decode(self, data: bytes) -> tuple[Clip, int]:
        clip = self._decoders.decode(data)
        return clip, clip.samples.nbytes

    def close(self) -> None:
        self._decoders.close()
        self._threads.close()

    async def _stored(self, name: str, text: str | None) -> Voice:
        voice = await asyncio.to_thread(self._store.load, name)
        if voice is None:
            raise InvalidRequest(
                "a recording must be a data: or http(s): URL or an uploaded voice; the server's files are not read.",
                param="ref_audio",
            )
        if voice.embedding is not None or not text:
            return voice
        return Voice(references=tuple(replace(reference, text=text) for reference in voice.references))

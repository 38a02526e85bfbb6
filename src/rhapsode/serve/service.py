"""The state that all routes share, and the steps that every request takes in the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from rhapsode.alignment.loading import aligned_languages
from rhapsode.config import Deployment
from rhapsode.engine import Speech
from rhapsode.errors import TimedOut
from rhapsode.marking.marker import Marker
from rhapsode.models.registry import Model, find
from rhapsode.serve.budget import Budget
from rhapsode.serve.description import description
from rhapsode.serve.detection import DetectionDesk
from rhapsode.serve.host import Host
from rhapsode.serve.listener import Listener, listener
from rhapsode.serve.listeners import Listeners, NotRead
from rhapsode.serve.local_engine import ServedEngine
from rhapsode.serve.memory import Tidier
from rhapsode.serve.middleware.leniency import unknown_fields
from rhapsode.serve.middleware.limits import uploads_of
from rhapsode.serve.observe.audit import AuditLog
from rhapsode.serve.observe.metrics import Metrics, Refusals
from rhapsode.serve.observe.outcomes import Outcomes
from rhapsode.serve.observe.traces import SpeechSpan, open_traces
from rhapsode.serve.phrases.cache import PhraseCache, PhraseEntry
from rhapsode.serve.request.intake import Intake, Order
from rhapsode.serve.request.lenient import leave_out, warnings_of
from rhapsode.serve.request.names import served_id
from rhapsode.serve.request.openapi import request_body
from rhapsode.serve.request.references import References
from rhapsode.serve.request.schemas import Schemas, read
from rhapsode.serve.response.delivery import DeliveryLimits, Playback
from rhapsode.serve.response.silence import silent_speech
from rhapsode.serve.time_limit import TimeLimit
from rhapsode.text.clean import is_speakable
from rhapsode.text.lexicon import Lexicon
from rhapsode.types import Outcome, SpeechRequest
from rhapsode.voices.store import VoiceStore

log = logging.getLogger("rhapsode.serve")

CODEC_THREADS = 4
TEXTS, TEXTS_EACH = 64, 8
"""Of the largest size, that wait on WebSockets to be spoken: in all, and of one client."""
WHOLE_FILES = 4  # of the largest size, in memory at once
WHOLE_FILES_EACH = 2  # of them, of one client


class Service:
    """One served model with its voices, references, metrics and outcomes."""

    def __init__(self, deployment: Deployment, model: Model | None = None) -> None:
        model = model or find(deployment.model)
        model.check_checkpoint()
        self.deployment = deployment
        self.config = deployment.server
        self.spec = model.spec
        self.metrics = Metrics()
        self._refusals = Refusals(self.metrics)
        self.outcomes = Outcomes(self.metrics.ended)
        self.host = Host(model, deployment, self.outcomes.ended, self.metrics.loads.inc)
        self.store = VoiceStore(self.config.voices.expanduser(), self.config.max_voices)
        self.references = References(self.config, self.store, mono=self.spec.channels == 1)
        self.lexicon = Lexicon.read(deployment.lexicon)
        self.word_languages = aligned_languages(deployment.alignment)
        self.info = self.host.info
        self.schemas = Schemas(self.spec, self.info)
        self.unused_fields = self.schemas.unused
        self.intake = Intake(self.info, deployment, self.schemas, self.store, self.references)
        self.sockets = 0
        self.detection = DetectionDesk(deployment.marking)
        marking, audit = deployment.marking, self.config.audit
        self._marks = Marker(marking) if marking.watermark or marking.metadata else None
        self._audit = AuditLog(audit.file, served_id(deployment), with_text=audit.text) if audit.file else None
        whole_bytes = self.config.max_whole_bytes
        self.traces = open_traces(self.config.traces)
        self._tidier = Tidier(lambda: self.host.busy > 0)
        self.uploads = uploads_of(self.config, self._tidier.request_ended)
        self.whole_files = Budget(WHOLE_FILES * whole_bytes, "whole files", WHOLE_FILES_EACH * whole_bytes)
        most_chars = deployment.limits.max_text_chars
        self.texts = Budget(TEXTS * most_chars, "texts that wait to be spoken", TEXTS_EACH * most_chars)
        """In characters: each may take 45 bytes, as sentences of one letter."""
        self._limits = DeliveryLimits(self.config.max_request_s, whole_bytes, self.whole_files)
        self._listeners = Listeners(lambda: self.host.readings().load.queued, self._end_unread)
        self._codecs = ThreadPoolExecutor(CODEC_THREADS, "rhapsode-codec")
        self.phrases = PhraseCache(model, deployment) if self.config.cache.bytes else None
        phrases = [self.phrases.stats] if self.phrases else []
        self.metrics.watch(self.host.readings, self.references.stats, *phrases)

    async def read(self, data: bytes) -> Order:
        """Reads the body of a speech request."""
        with self._refusals:
            data, ignored = await self.tolerate(self.schemas.speech, data)
            body = await read(self.schemas.speech, data)
            order = await self.intake.read(body)
            return replace(order, ignored=(*ignored, *order.ignored)) if ignored else order

    async def tolerate(self, body: type[BaseModel], data: bytes) -> tuple[bytes, tuple[str, ...]]:
        """Returns a body without the fields that this deployment ignores, and the names of those fields."""
        if unknown_fields(self.config) != "ignore":
            return data, ()
        return await leave_out(body, data, self.unused_fields)

    @asynccontextmanager
    async def speaking(
        self, order: Order, request_id: str, said: Callable[[], str] | None = None
    ) -> AsyncIterator[Playback]:
        """Runs a request; leaving the block ends the request and frees everything it holds.

        `said` returns the whole text at the end, for a request whose text grows while it is spoken.
        """
        with self._refusals:
            self.host.hold()
        listening = listener.get() or Listener("")
        span = self.traces.speech(request_id, order.request) if self.traces else None
        try:
            with self._refusals:
                entry = await self.phrases.entry(order.request) if self.phrases else None
                warnings = warnings_of(order.ignored, self.info)
                speech = await self._start(order.request, request_id, entry, listening.client, warnings, span)
            with speech:
                own = (self._codecs, self.metrics.gaps.observe, self._limits, self._marks)
                playback = Playback(speech, order.request, order.delivery, *own, entry, listening)
                time_limit = TimeLimit(playback, self.config.max_request_s, self._end_late)
                if order.request.real_time:
                    self._listeners.add(playback, listening)
                try:
                    yield playback
                finally:
                    self._listeners.remove(playback)
                    time_limit.cancel()
                    playback.close()
        finally:
            self.host.release()
            self._tidier.request_ended()
            self._note(order, request_id, said)
            if span is not None:
                span.ended(self.outcomes.get(request_id))

    async def _start(
        self,
        request: SpeechRequest,
        request_id: str,
        entry: PhraseEntry | None,
        client: str,
        warnings: Sequence[str],
        span: SpeechSpan | None,
    ) -> Speech:
        """Returns the speech of a request: from the phrase cache, as silence, or from the engine."""
        if entry is not None and entry.found is not None:
            return self._finished(entry.speech(request_id), warnings)
        engine = await self._engine(client)
        if not is_speakable(request.text) and not request.text_open:
            return self._finished(silent_speech(request_id, self.spec), warnings)
        self.outcomes.began(request_id, warnings)
        if span is not None:
            span.submitted()
        try:
            return await engine.submit(request, request_id, client)
        except BaseException:
            self.outcomes.refused(request_id)
            raise

    def _note(self, order: Order, request_id: str, said: Callable[[], str] | None) -> None:
        if self._audit is not None:
            self._audit.record(order, request_id, self.outcomes.get(request_id), said() if said else order.request.text)

    async def _engine(self, client: str) -> ServedEngine:
        if self.host.loaded is not None:
            return self.host.loaded
        limit_s = self.config.max_request_s
        try:
            async with asyncio.timeout(limit_s):
                return await self.host.engine(client)
        except TimeoutError:
            raise TimedOut(f"the model was not there within {limit_s:g} s.") from None

    def _finished(self, speech: Speech, warnings: Sequence[str]) -> Speech:
        """Records the outcome of speech that no engine makes."""
        assert speech.outcome is not None
        self.outcomes.began(speech.id, warnings)
        self.outcomes.ended(speech.outcome)
        return speech

    def _end_late(self, playback: Playback) -> None:
        late = TimedOut(f"the request took longer than {self.config.max_request_s:g} s.")
        self.outcomes.record_error(playback.speech.id, late)
        playback.abort(late)

    def _end_unread(self, playback: Playback, listening: Listener, error: NotRead) -> None:
        log.warning(
            "a slot was taken from a client that does not read",
            extra={"fields": {"request_id": playback.speech.id, "client": listening.client}},
        )
        self.outcomes.record_error(playback.speech.id, error)
        playback.abort(error)
        listening.reset()

    def described(self) -> dict[str, Any]:
        """Returns what `/v1/models` says of the served model."""
        return description(self.info, self.spec, self.deployment, len(self.lexicon.entries), self.word_languages)

    def described_body(self, body: type[BaseModel]) -> dict[str, Any]:
        """Returns the OpenAPI description of a body, with the fields and values that this checkpoint accepts."""
        voices, languages, beside = self.info.presets, self.info.languages, self.info.reference_needs
        notes = {"language": f"auto, {', '.join(languages)}."} if languages else {}
        if voices:
            notes["voice"] = f"{', '.join(voices)}; an uploaded voice, an alias, or one of OpenAI's names."
        if beside:
            notes["ref_audio"] = f"A recording to clone; this checkpoint needs {' and '.join(beside)} beside it."
        return request_body(body, self.unused_fields, notes)

    def close(self) -> None:
        self._tidier.close()
        self.references.close()
        self._codecs.shutdown(wait=True, cancel_futures=True)
        self.detection.close()
        if self.phrases:
            self.phrases.close()
        if self._audit is not None:
            self._audit.close()
        if self.traces is not None:
            self.traces.close()

    def usage(self, request: SpeechRequest, outcome: Outcome) -> dict[str, Any]:
        """Returns the usage of a request: characters in and frames out, in place of tokens."""
        characters = len(request.text)
        return {
            "input_tokens": characters,
            "output_tokens": outcome.frames,
            "total_tokens": characters + outcome.frames,
            "audio_seconds": round(outcome.audio_s, 3),
        }

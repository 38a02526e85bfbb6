"""The state that all routes share, and the life of one request within the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from rhapsode.config import Deployment
from rhapsode.engine import Engine, Speech, SpeechScript
from rhapsode.errors import RhapsodeError, TimedOut
from rhapsode.marking.marker import Marker
from rhapsode.models.registry import Model, find
from rhapsode.serve.budget import Budget
from rhapsode.serve.detection import DetectionDesk
from rhapsode.serve.host import Host
from rhapsode.serve.memory import Tidier
from rhapsode.serve.observe.audit import AuditLog
from rhapsode.serve.observe.metrics import Metrics
from rhapsode.serve.observe.outcomes import Outcomes
from rhapsode.serve.request.effect import without_effect
from rhapsode.serve.request.intake import Intake, Order
from rhapsode.serve.request.lenient import leave_out
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

CODEC_THREADS = 4
SMALL_CHARS = 512
"""A longer text is read in a thread, since it takes longer than other clients should wait."""
WHOLE_FILES = 4  # of the largest size, in memory at once


class Service:
    """One served model with its voices, references, metrics and outcomes."""

    def __init__(self, deployment: Deployment, model: Model | None = None) -> None:
        model = model or find(deployment.model)
        model.check_checkpoint()
        self.deployment = deployment
        self.config = deployment.server
        self.spec = model.spec
        self.metrics = Metrics()
        self.outcomes = Outcomes(self.metrics.ended)
        self.host = Host(model, deployment, self.outcomes.ended, self.metrics.loads.inc)
        self.store = VoiceStore(self.config.voices.expanduser(), self.config.max_voices)
        self.references = References(self.config, self.store, mono=self.spec.channels == 1)
        self.schemas = Schemas(self.spec)
        self.lexicon = Lexicon.read(deployment.lexicon)
        self.info = self.host.info
        self.unused_fields = without_effect(self.info, self.schemas.option_names)
        self.intake = Intake(self.info, deployment, self.schemas, self.store, self.references)
        self.sockets = 0
        self.detection = DetectionDesk(deployment.marking)
        marking, audit = deployment.marking, self.config.audit
        self._marks = Marker(marking) if marking.watermark or marking.metadata else None
        self._audit = AuditLog(audit.file, served_id(deployment), with_text=audit.text) if audit.file else None
        whole_bytes = self.config.max_whole_bytes
        self.whole_files = Budget(WHOLE_FILES * whole_bytes, "whole files")
        self._limits = DeliveryLimits(self.config.max_request_s, whole_bytes, self.whole_files)
        self._tidier = Tidier(lambda: self.host.busy > 0)
        self._codecs = ThreadPoolExecutor(CODEC_THREADS, "rhapsode-codec")
        self.metrics.watch(self.host.readings, self.references.stats)

    async def read(self, data: bytes) -> Order:
        """Reads the body of a speech request."""
        with self._counting_refusals():
            data, ignored = await self.tolerate(self.schemas.speech, data)
            body = await read(self.schemas.speech, data)
            order = await self.intake.read(body)
            return replace(order, ignored=ignored) if ignored else order

    async def tolerate(self, body: type[BaseModel], data: bytes) -> tuple[bytes, tuple[str, ...]]:
        """Returns a body without the fields that this deployment ignores, and the names of these."""
        if self.config.unknown_fields == "refuse":
            return data, ()
        return await leave_out(body, data, self.unused_fields)

    @asynccontextmanager
    async def speaking(
        self, order: Order, request_id: str, said: Callable[[], str] | None = None
    ) -> AsyncIterator[Playback]:
        """Runs a request; leaving the block ends the request and frees everything it holds.

        `said` returns its text at the end, where it grows while it is spoken.
        """
        with self._counting_refusals():
            self.host.hold()
        try:
            with self._counting_refusals():
                engine = await self._engine()
                request = await self._read_text(engine, order.request)
                speech = self._submit(engine, request, request_id)
            with speech, self._playback(speech, order) as playback:
                yield playback
        finally:
            self.host.release()
            self._tidier.request_ended()
            self._note(order, request_id, said)

    def _note(self, order: Order, request_id: str, said: Callable[[], str] | None) -> None:
        if self._audit is not None:
            self._audit.record(order, request_id, self.outcomes.get(request_id), said() if said else order.request.text)

    @contextmanager
    def _playback(self, speech: Speech, order: Order) -> Iterator[Playback]:
        speed, on_gap = order.request.speed, self.metrics.gaps.observe
        playback = Playback(speech, speed, order.delivery, self._codecs, on_gap, self._limits, self._marks)
        time_limit = TimeLimit(playback, self.config.max_request_s, self._end_late)
        try:
            yield playback
        finally:
            time_limit.cancel()
            playback.close()

    async def _engine(self) -> Engine:
        if self.host.loaded is not None:
            return self.host.loaded
        limit_s = self.config.max_request_s
        try:
            async with asyncio.timeout(limit_s):
                return await self.host.engine()
        except TimeoutError:
            raise TimedOut(f"the model was not there within {limit_s:g} s.") from None

    async def _read_text(self, engine: Engine, request: SpeechRequest) -> SpeechScript | None:
        """Reads the text of a request, a long one off the event loop; `None` if it says nothing."""
        if not is_speakable(request.text) and not request.text_open:
            return None
        if len(request.text) <= SMALL_CHARS:
            return engine.read(request)
        return await asyncio.to_thread(engine.read, request)

    def _submit(self, engine: Engine, script: SpeechScript | None, request_id: str) -> Speech:
        self.outcomes.began(request_id)
        if script is None:
            speech = silent_speech(request_id, self.spec)
            assert speech.outcome is not None
            self.outcomes.ended(speech.outcome)
            return speech
        try:
            return engine.submit(script, request_id)
        except BaseException:
            self.outcomes.refused(request_id)
            raise

    @contextmanager
    def _counting_refusals(self) -> Iterator[None]:
        try:
            yield
        except RhapsodeError:
            self.metrics.refused()
            raise

    def _end_late(self, playback: Playback) -> None:
        late = TimedOut(f"the request took longer than {self.config.max_request_s:g} s.")
        self.outcomes.record_error(playback.speech.id, late)
        playback.abort(late)

    def described(self, body: type[BaseModel]) -> dict[str, Any]:
        """Returns the OpenAPI description of a body as this checkpoint takes it."""
        voices, languages = self.info.voices, self.info.languages
        notes = {"language": f"auto, {', '.join(languages)}."} if languages else {}
        if voices:
            notes["voice"] = f"{', '.join(voices)}; an uploaded voice, an alias, or one of OpenAI's names."
        return request_body(body, self.unused_fields, notes)

    def close(self) -> None:
        self._tidier.close()
        self.references.close()
        self._codecs.shutdown(wait=True, cancel_futures=True)
        self.detection.close()
        if self._audit is not None:
            self._audit.close()

    def usage(self, request: SpeechRequest, outcome: Outcome) -> dict[str, Any]:
        """Returns the usage of a request: characters in and frames out, in place of tokens."""
        characters = len(request.text)
        return {
            "input_tokens": characters,
            "output_tokens": outcome.frames,
            "total_tokens": characters + outcome.frames,
            "audio_seconds": round(outcome.audio_s, 3),
        }

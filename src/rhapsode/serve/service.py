"""What the routes share: one object that takes requests in, and sees each of them to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

from rhapsode.config import Deployment
from rhapsode.engine import Engine, Speech
from rhapsode.errors import EmptyAudio, InvalidRequest, RhapsodeError, TimedOut
from rhapsode.models.registry import Model, find
from rhapsode.serve.host import Host
from rhapsode.serve.observe.metrics import Metrics
from rhapsode.serve.observe.outcomes import Outcomes
from rhapsode.serve.request.intake import Intake, Order
from rhapsode.serve.request.references import References
from rhapsode.serve.request.schemas import Schemas, parse
from rhapsode.serve.response.delivery import Playback
from rhapsode.types import Outcome, SpeechRequest
from rhapsode.voices.store import VoiceStore

CODEC_THREADS = 4
LARGE_BYTES = 2**18  # takes longer to read than the others would like to wait


class Service:
    """One model, served."""

    def __init__(self, deployment: Deployment, model: Model | None = None) -> None:
        model = model or find(deployment.model)
        self.deployment = deployment
        self.config = deployment.server
        self.spec = model.spec
        self.metrics = Metrics()
        self.outcomes = Outcomes(self.metrics.ended)
        self.host = Host(model, deployment, self.outcomes.ended, self.metrics.loads.inc)
        self.store = VoiceStore(self.config.voices.expanduser(), self.config.max_voices)
        self.references = References(self.config, self.store, mono=self.spec.channels == 1)
        self.schemas = Schemas(self.spec)
        self.info = self.host.info
        self.intake = Intake(self.info, deployment, self.schemas, self.store, self.references)
        self.sockets = 0
        self._codecs = ThreadPoolExecutor(CODEC_THREADS, "rhapsode-codec")
        self.metrics.watch(self.host.readings, self.references.stats)

    async def read(self, data: bytes) -> Order:
        """The body of a speech request, understood."""
        with self._counting_refusals():
            if len(data) > LARGE_BYTES:
                body = await asyncio.to_thread(parse, self.schemas.speech, data)
            else:
                body = parse(self.schemas.speech, data)
            return await self.intake.read(body)

    @asynccontextmanager
    async def speaking(self, order: Order, request_id: str) -> AsyncIterator[Playback]:
        """A request under way; whatever ends the block ends the request, and frees all it holds."""
        async with AsyncExitStack() as stack:
            with self._counting_refusals():
                engine = await self._engine(stack)
                speech = stack.enter_context(self._submit(engine, order.request, request_id))
            speed, limit_s = order.request.speed, self.config.max_request_s
            playback = Playback(speech, speed, order.delivery, self._codecs, self.metrics.gaps.observe)
            late = TimedOut(f"the request took longer than {limit_s:g} s.")
            timer = asyncio.get_running_loop().call_later(limit_s, self._give_up, playback, late)
            stack.callback(timer.cancel)
            try:
                yield playback
            except EmptyAudio:
                if any(char.isalnum() for char in order.request.text):
                    raise
                raise InvalidRequest("nothing in this text can be spoken.", param="input") from None

    async def _engine(self, stack: AsyncExitStack) -> Engine:
        limit_s = self.config.max_request_s
        try:
            async with asyncio.timeout(limit_s):
                return await stack.enter_async_context(self.host.lease())
        except TimeoutError:
            raise TimedOut(f"the model was not there within {limit_s:g} s.") from None

    def _submit(self, engine: Engine, request: SpeechRequest, request_id: str) -> Speech:
        self.outcomes.began(request_id)
        try:
            return engine.submit(request, request_id)
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

    def _give_up(self, playback: Playback, why: RhapsodeError) -> None:
        if playback.speech.outcome is None:
            self.outcomes.blame(playback.speech.id, why)
            playback.blame(why)

    def close(self) -> None:
        self._codecs.shutdown(wait=True, cancel_futures=True)

    def usage(self, request: SpeechRequest, outcome: Outcome) -> dict[str, Any]:
        """Characters in, frames out: what there is to count here where others count tokens."""
        said = len(request.text)
        return {
            "input_tokens": said,
            "output_tokens": outcome.frames,
            "total_tokens": said + outcome.frames,
            "audio_seconds": round(outcome.audio_s, 3),
        }

"""The client: sends requests, and times the audio of a response when its bytes have arrived."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import numpy as np

from rhapsode.bench.serve.pcm_reader import BadResponse, Pcm, PcmReader, reader_for
from rhapsode.bench.serve.playback import Arrival, PlaybackResult, first_audible, play
from rhapsode.bench.serve.server import ROUTE, SpeechServer

KEPT_S = 4.0
"""How long an unused connection is kept: uvicorn closes one after 5 s, and a request sent just then is lost."""
SILENT_PEAK = 4
"""Of 32768: a stream whose peak is no higher is silent."""


@dataclass(frozen=True)
class TimedResponse:
    """One response. Times are in seconds after the request was due."""

    text: str
    error: str | None
    detail: str = ""
    status: int | None = None
    first_byte_s: float | None = None
    playable_s: float | None = None
    audible_s: float | None = None
    total_s: float = 0.0
    late_s: float = 0.0
    """How long after it was due the client sent the request."""
    sent_s: float = 0.0
    """When it was sent, after the start of its load."""
    retry_after_s: float | None = None
    """After how long to try again, as the server says if it refuses the request."""
    refusals: tuple[float, ...] = ()
    """`Retry-After` of each earlier refusal of this request. The client waited for so long before it tried again."""
    playback: PlaybackResult | None = None
    sample_rate: int = 0
    samples: Pcm = field(default_factory=lambda: np.zeros((1, 0), np.int16))
    """`[channels, samples]`, if the client keeps them."""

    @property
    def ok(self) -> bool:
        return self.error is None


class SpeechClient:
    """Sends requests to one server over kept-alive connections."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: SpeechServer,
        sample_rate: int | None = None,
        timeout_s: float = 120.0,
        *,
        keep: bool = False,
    ) -> None:
        self._session = session
        self._server = server
        self._sample_rate = sample_rate
        self._timeout_s = timeout_s
        self._keep = keep

    async def request(self, text: str, seed: int, due_s: float | None = None) -> TimedResponse:
        """Requests speech for one text. `due_s` is when the request should have been sent; by default now."""
        sent_s = time.perf_counter()
        timing = _Timing(text, sent_s if due_s is None else due_s, sent_s, self._keep)
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._send(timing, seed)
        except TimeoutError:
            timing.fail("timeout", f"the response was not complete after {self._timeout_s:g} s")
        except BadResponse as error:
            timing.fail(error.kind, str(error))
        except aiohttp.ClientConnectorError as error:
            timing.fail("connect", str(error))
        except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, ConnectionError) as error:
            timing.fail("dropped", str(error))
        except aiohttp.ClientError as error:
            timing.fail(type(error).__name__, str(error))
        return timing.response()

    async def frame_hz(self) -> float | None:
        """Returns the frames per second of the model that speaks; None if the server does not tell."""
        server = self._server
        if not server.url.endswith(ROUTE):
            return None
        address = server.url.removesuffix(ROUTE) + "/v1/models"
        try:
            async with self._session.get(address, headers=server.headers()) as response:
                models = (await response.json())["data"]
            chosen = next((model for model in models if model["id"] == server.model), models[0])
            return float(chosen["frame_hz"])
        except (aiohttp.ClientError, LookupError, TypeError, ValueError):
            return None

    async def _send(self, timing: _Timing, seed: int) -> None:
        server = self._server
        body = server.body(timing.text, seed)
        async with self._session.post(server.url, json=body, headers=server.headers()) as response:
            timing.status = response.status
            if response.status != 200:
                timing.retry_after_s = _seconds(response.headers.get("Retry-After"))
                detail = (await response.content.read(500)).decode("utf-8", "replace")
                raise BadResponse(f"http {response.status}", detail)
            headers = {name.lower(): value for name, value in response.headers.items()}
            reader = reader_for(headers.get("content-type", ""), headers, self._sample_rate)
            async for data in response.content.iter_any():
                timing.receive(reader, data)
            reader.close()
        timing.end()


class _Timing:
    """The measurements of one response so far."""

    def __init__(self, text: str, due_s: float, sent_s: float, keep: bool) -> None:
        self.text = text
        self.status: int | None = None
        self.retry_after_s: float | None = None
        self._due_s, self._late_s = due_s, sent_s - due_s
        self._error: tuple[str, str] | None = None
        self._first_byte_s: float | None = None
        self._arrivals: list[Arrival] = []
        self._audible_at: int | None = None
        self._samples = self._peak = self._rate = 0
        self._channels = 1
        self._kept: list[Pcm] | None = [] if keep else None
        self._total_s = 0.0

    def receive(self, reader: PcmReader, data: bytes) -> None:
        now_s = time.perf_counter() - self._due_s
        if self._first_byte_s is None and data:
            self._first_byte_s = now_s
        samples = reader.feed(data)
        self._total_s = now_s
        if not len(samples):
            return
        self._rate, self._channels = reader.sample_rate, reader.channels
        if self._kept is not None:
            self._kept.append(samples)
        if self._audible_at is None:
            found = first_audible(samples)
            self._audible_at = None if found is None else (self._samples + found) // reader.channels
        self._peak = max(self._peak, int(samples.max()), -int(samples.min()))
        self._samples += len(samples)
        self._arrivals.append(Arrival(now_s, len(samples) / reader.channels / reader.sample_rate))

    def end(self) -> None:
        self._total_s = time.perf_counter() - self._due_s
        if not self._samples:
            self.fail("empty", "status 200 without any samples")
        elif self._peak <= SILENT_PEAK:
            self.fail("silent", "status 200 with nothing but silence")

    def fail(self, kind: str, detail: str) -> None:
        self._error = (kind, detail)
        self._total_s = time.perf_counter() - self._due_s

    def response(self) -> TimedResponse:
        playback = play(self._arrivals) if self._arrivals else None
        audible_s = None
        if playback is not None and self._audible_at is not None:
            audible_s = playback.played_at_s(self._audible_at / self._rate)
        kind, detail = self._error or (None, "")
        return TimedResponse(
            text=self.text,
            error=kind,
            detail=detail,
            status=self.status,
            first_byte_s=self._first_byte_s,
            playable_s=self._arrivals[0].at_s if self._arrivals else None,
            audible_s=audible_s,
            total_s=self._total_s,
            late_s=self._late_s,
            retry_after_s=self.retry_after_s,
            playback=playback,
            sample_rate=self._rate,
            samples=np.concatenate(self._kept or [np.zeros(0, np.int16)]).reshape(-1, self._channels).T,
        )


def _seconds(retry_after: str | None) -> float | None:
    """Returns the seconds of a `Retry-After` header; None for a date, which no speech server sends."""
    return float(retry_after) if retry_after is not None and retry_after.strip().isdecimal() else None


def make_session() -> aiohttp.ClientSession:
    """Returns a session without a limit on connections, which looks up a host name once."""
    connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=600, keepalive_timeout=KEPT_S)
    options: dict[str, Any] = {"timeout": aiohttp.ClientTimeout(total=None), "read_bufsize": 2**20}
    return aiohttp.ClientSession(connector=connector, auto_decompress=False, **options)

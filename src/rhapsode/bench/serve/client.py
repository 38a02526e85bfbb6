"""One request, timed at the client: every moment is taken when the bytes are in hand."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import numpy as np

from rhapsode.bench.serve.playback import Arrival, Playback, first_audible, play
from rhapsode.bench.serve.target import Target
from rhapsode.bench.serve.wire import Pcm, Wire, WireError, wire_for

FULL_SCALE_FLOOR = 4
"""Of 32768: a stream that never rises above it is silence."""


@dataclass(frozen=True)
class Heard:
    """How one request went; times are seconds after it was due."""

    text: str
    error: str | None
    detail: str = ""
    status: int | None = None
    first_byte_s: float | None = None
    playable_s: float | None = None
    audible_s: float | None = None
    total_s: float = 0.0
    late_s: float = 0.0
    """How long after it was due the client sent it."""
    playback: Playback | None = None
    sample_rate: int = 0
    samples: Pcm = field(default_factory=lambda: np.zeros((1, 0), np.int16))
    """`[channels, samples]`, where they were kept."""

    @property
    def ok(self) -> bool:
        return self.error is None


class Listener:
    """Sends requests to one target over kept-alive connections."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        target: Target,
        sample_rate: int | None = None,
        timeout_s: float = 120.0,
        *,
        keep: bool = False,
    ) -> None:
        self._session = session
        self._target = target
        self._sample_rate = sample_rate
        self._timeout_s = timeout_s
        self._keep = keep

    async def hear(self, text: str, seed: int, due_s: float | None = None) -> Heard:
        """Speak one text; `due_s` is when the request should have been sent, now if it is not given."""
        sent_s = time.perf_counter()
        take = _Take(text, sent_s if due_s is None else due_s, sent_s, self._keep)
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._request(take, seed)
        except TimeoutError:
            take.fail("timeout", f"no end within {self._timeout_s:g} s")
        except WireError as error:
            take.fail(error.kind, str(error))
        except aiohttp.ClientConnectorError as error:
            take.fail("connect", str(error))
        except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, ConnectionError) as error:
            take.fail("dropped", str(error))
        except aiohttp.ClientError as error:
            take.fail(type(error).__name__, str(error))
        return take.heard()

    async def _request(self, take: _Take, seed: int) -> None:
        target = self._target
        body = target.body(take.text, seed)
        async with self._session.post(target.url, json=body, headers=target.headers()) as response:
            take.status = response.status
            if response.status != 200:
                detail = (await response.content.read(500)).decode("utf-8", "replace")
                raise WireError(f"http {response.status}", detail)
            headers = {name.lower(): value for name, value in response.headers.items()}
            wire = wire_for(headers.get("content-type", ""), headers, self._sample_rate)
            async for data in response.content.iter_any():
                take.bytes_came(wire, data)
            wire.close()
        take.end()


class _Take:
    """What is known of a request so far."""

    def __init__(self, text: str, due_s: float, sent_s: float, keep: bool) -> None:
        self.text = text
        self.status: int | None = None
        self._due_s, self._late_s = due_s, sent_s - due_s
        self._error: tuple[str, str] | None = None
        self._first_byte_s: float | None = None
        self._arrivals: list[Arrival] = []
        self._audible_at: int | None = None
        self._samples = self._peak = self._rate = 0
        self._channels = 1
        self._kept: list[Pcm] | None = [] if keep else None
        self._total_s = 0.0

    def bytes_came(self, wire: Wire, data: bytes) -> None:
        now_s = time.perf_counter() - self._due_s
        if self._first_byte_s is None and data:
            self._first_byte_s = now_s
        samples = wire.feed(data)
        self._total_s = now_s
        if not len(samples):
            return
        self._rate, self._channels = wire.sample_rate, wire.channels
        if self._kept is not None:
            self._kept.append(samples)
        if self._audible_at is None:
            found = first_audible(samples)
            self._audible_at = None if found is None else (self._samples + found) // wire.channels
        self._peak = max(self._peak, int(samples.max()), -int(samples.min()))
        self._samples += len(samples)
        self._arrivals.append(Arrival(now_s, len(samples) / wire.channels / wire.sample_rate))

    def end(self) -> None:
        self._total_s = time.perf_counter() - self._due_s
        if not self._samples:
            self.fail("empty", "a 200 without any samples")
        elif self._peak <= FULL_SCALE_FLOOR:
            self.fail("silent", "a 200 with nothing but silence")

    def fail(self, kind: str, detail: str) -> None:
        self._error = (kind, detail)
        self._total_s = time.perf_counter() - self._due_s

    def heard(self) -> Heard:
        playback = play(self._arrivals) if self._arrivals else None
        audible_s = None
        if playback is not None and self._audible_at is not None:
            audible_s = playback.heard_at_s(self._audible_at / self._rate)
        kind, detail = self._error or (None, "")
        return Heard(
            text=self.text,
            error=kind,
            detail=detail,
            status=self.status,
            first_byte_s=self._first_byte_s,
            playable_s=self._arrivals[0].at_s if self._arrivals else None,
            audible_s=audible_s,
            total_s=self._total_s,
            late_s=self._late_s,
            playback=playback,
            sample_rate=self._rate,
            samples=np.concatenate(self._kept or [np.zeros(0, np.int16)]).reshape(-1, self._channels).T,
        )


def make_session() -> aiohttp.ClientSession:
    """As many connections as there are listeners; nothing is looked up twice."""
    connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=600, keepalive_timeout=60)
    options: dict[str, Any] = {"timeout": aiohttp.ClientTimeout(total=None), "read_bufsize": 2**20}
    return aiohttp.ClientSession(connector=connector, auto_decompress=False, **options)

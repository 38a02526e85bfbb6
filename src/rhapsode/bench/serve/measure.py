"""Applies levels of load to a server and composes the report."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from rhapsode.bench.progress import progress
from rhapsode.bench.report import Run, compose
from rhapsode.bench.serve.apply_load import LoadResult, apply_load
from rhapsode.bench.serve.client import SpeechClient, TimedResponse, make_session
from rhapsode.bench.serve.load_level import LoadLevel
from rhapsode.bench.serve.server import SpeechServer
from rhapsode.bench.stats import rounded, summarize
from rhapsode.errors import Unavailable

EXAMPLES = 3
"""How many error messages of each kind a report keeps."""
LEAST_REQUESTS = 16
OPEN_S = 30
"""How long an open loop runs by default."""


@dataclass(frozen=True)
class ServePlan:
    server: SpeechServer
    loads: tuple[LoadLevel, ...]
    texts: tuple[str, ...]
    requests: int | None = None
    """Of every load. By default 4 per client and at least 16; half a minute of arrivals; 2 bursts after the first."""
    warm_up: int = 2
    seed: int = 0
    sample_rate: int | None = None
    timeout_s: float = 120.0

    def steps(self) -> list[tuple[LoadLevel, range]]:
        """Returns what is reported as one row each: a load, and the numbers of its requests.

        Bursts are whole. The first one is a row of its own: it alone meets a server that has just started.
        """
        steps: list[tuple[LoadLevel, range]] = []
        for load in self.loads:
            if load.kind != "burst":
                steps.append((load, range(self._count(load))))
                continue
            size, count = int(load.level), self._count(load)
            steps.append((LoadLevel("first burst", load.level), range(size)))
            if count > size:
                steps.append((load, range(size, count)))
        return steps

    def _count(self, load: LoadLevel) -> int:
        if load.kind == "open":
            return self.requests or max(LEAST_REQUESTS, round(OPEN_S * load.level))
        size = int(load.level)
        if load.kind == "closed":
            return self.requests or max(LEAST_REQUESTS, 4 * size)
        return -(-(self.requests or size + max(LEAST_REQUESTS, 2 * size)) // size) * size


def measure(plan: ServePlan) -> dict[str, Any]:
    results, frame_hz = asyncio.run(_measure(plan))
    notes = [
        f"the client itself was slow at '{one.load.label}' (lag p99 {one.client['lag_p99_ms']} ms, "
        f"busy {one.client['busy']}): its times are upper bounds"
        for one in results
        if one.client["slow"]
    ]
    return compose("serve", {**_config(plan), "frame_hz": frame_hz}, plan.seed, [_run(one) for one in results], notes)


async def _measure(plan: ServePlan) -> tuple[list[LoadResult], float | None]:
    """Returns what each step gave, and the frame rate of the model, if the server tells it."""
    steps = plan.steps()
    async with make_session() as session:
        client = SpeechClient(session, plan.server, plan.sample_rate, plan.timeout_s)
        for i in range(plan.warm_up):
            response = await client.request(plan.texts[i % len(plan.texts)], plan.seed)
            if i == 0 and response.error == "connect":
                raise Unavailable(f"no server answers at {plan.server.url}: {response.detail}")
        results: list[LoadResult] = []
        with progress(plan.server.url, sum(len(numbers) for _, numbers in steps)) as advance:
            for load, numbers in steps:
                shown = partial(advance, load.label)
                results.append(await apply_load(load, numbers, client, plan.texts, plan.seed, shown))
        return results, await client.frame_hz()


def _run(result: LoadResult) -> Run:
    good = [response for response in result.responses if response.ok]
    bad = [response for response in result.responses if not response.ok]
    playbacks = [response.playback for response in good if response.playback is not None]
    gaps_ms = [gap * 1e3 for playback in playbacks for gap in playback.gaps_s]
    audio_s = sum(playback.audio_s for playback in playbacks)
    facts: dict[str, Any] = {
        "load": result.load.kind,
        "level": result.load.level,
        "pause_s": result.load.pause_s,
        "requests": len(result.responses),
        "completed": len(good),
        "wall_s": rounded(result.wall_s),
        "audio_s": rounded(audio_s),
        "audio_s_per_s": rounded(audio_s / result.wall_s),
        "requests_per_s": rounded(len(good) / result.wall_s),
        "underruns": sum(playback.underruns for playback in playbacks),
        "requests_with_underruns": sum(playback.underruns > 0 for playback in playbacks),
        "stalled_s": rounded(sum(playback.stalled_s for playback in playbacks)),
        "errors": dict(Counter(str(response.error) for response in bad)),
        "error_examples": _examples(bad),
        "gap_ms": summarize(gaps_ms).as_dict() if gaps_ms else None,
        "client": result.client,
    }
    return Run(result.load.label, _samples(good), facts)


def _samples(good: Sequence[TimedResponse]) -> dict[str, list[float]]:
    def ms(values: Sequence[float | None]) -> list[float]:
        return [value * 1e3 for value in values if value is not None]

    played = [(response, response.playback) for response in good if response.playback is not None]
    return {
        "first_byte_ms": ms([response.first_byte_s for response in good]),
        "first_playable_ms": ms([response.playable_s for response in good]),
        "first_audible_ms": ms([response.audible_s for response in good]),
        "total_ms": ms([response.total_s for response in good]),
        "rtf": [response.total_s / playback.audio_s for response, playback in played],
        "longest_gap_ms": [max(playback.gaps_s) * 1e3 for _, playback in played if playback.gaps_s],
        "stalled_ms": [playback.stalled_s * 1e3 for _, playback in played],
        "late_ms": [max(0.0, response.late_s) * 1e3 for response in good],
        "sent_ms": ms([response.sent_s for response in good]),
        "first_chunk_ms": [playback.first_chunk_s * 1e3 for _, playback in played],
    }


def _examples(bad: Sequence[TimedResponse]) -> dict[str, list[str]]:
    kept: dict[str, list[str]] = {}
    for response in bad:
        examples = kept.setdefault(str(response.error), [])
        if len(examples) < EXAMPLES:
            examples.append(response.detail[:300])
    return kept


def _config(plan: ServePlan) -> dict[str, Any]:
    server = plan.server
    return {
        "url": server.url,
        "target": server.kind.name,
        "body": server.body("...", plan.seed),
        "loads": [asdict(load) for load in plan.loads],
        "texts": len(plan.texts),
        "text_chars": summarize([len(text) for text in plan.texts]).as_dict(),
        "warm_up": plan.warm_up,
        "timeout_s": plan.timeout_s,
        "sample_rate": plan.sample_rate,
    }

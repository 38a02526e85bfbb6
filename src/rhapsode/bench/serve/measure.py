"""Applies levels of load to a server and composes the report."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from rhapsode.bench.progress import progress
from rhapsode.bench.report import Run, compose
from rhapsode.bench.serve.apply_load import LoadResult, apply_load
from rhapsode.bench.serve.client import SpeechClient, TimedResponse, make_session
from rhapsode.bench.serve.client_processes import ClientProcesses, ClientTask
from rhapsode.bench.serve.load_level import LoadLevel
from rhapsode.bench.serve.server import SpeechServer
from rhapsode.bench.stats import percentile, rounded, summarize
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
    """Requests of every load. By default 4 per client and at least 16; `open`: half a minute of arrivals; `burst`: the
    first one, then 2 bursts and at least 16 requests."""
    warm_up: int = 2
    seed: int = 0
    sample_rate: int | None = None
    timeout_s: float = 120.0
    processes: int = 1
    """Client processes that share every load."""

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
            steps.append((replace(load, kind="first burst"), range(size)))
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


def measure(plan: ServePlan, crowd: ClientProcesses | None = None) -> dict[str, Any]:
    """Applies the loads. `crowd`: client processes that run already; else they are started if the plan has several."""
    if crowd is not None or plan.processes == 1:
        results, frame_hz = asyncio.run(_measure(plan, crowd))
    else:
        with ClientProcesses(plan.processes) as crowd:
            results, frame_hz = asyncio.run(_measure(plan, crowd))
    notes = [
        f"the client itself was slow at '{one.load.label}' (lag p99 {one.client['lag_p99_ms']} ms, "
        f"busy {one.client['busy']}): its times are upper bounds"
        for one in results
        if one.client["slow"]
    ]
    return compose("serve", {**_config(plan), "frame_hz": frame_hz}, plan.seed, [_run(one) for one in results], notes)


async def _measure(plan: ServePlan, crowd: ClientProcesses | None) -> tuple[list[LoadResult], float | None]:
    """Returns the result of each step, and the frame rate of the model, if the server tells it."""
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
                if crowd is None:
                    results.append(await apply_load(load, numbers, client, plan.texts, plan.seed, shown))
                else:
                    given = (plan.server, load, numbers, plan.texts, plan.seed, plan.sample_rate, plan.timeout_s)
                    results.append(await asyncio.to_thread(crowd.apply, ClientTask(*given)))
                    for _ in numbers:
                        shown()
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
        "rounds": _rounds(result),
        "refused": _refused(result.responses),
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
        "least_left_ms": [playback.least_left_s * 1e3 for _, playback in played if playback.gaps_s],
        "stalled_ms": [playback.stalled_s * 1e3 for _, playback in played],
        "late_ms": [max(0.0, response.late_s) * 1e3 for response in good],
        "sent_ms": ms([response.sent_s for response in good]),
        "first_chunk_ms": [playback.first_chunk_s * 1e3 for _, playback in played],
    }


def _rounds(result: LoadResult) -> list[dict[str, float | None]]:
    """Returns the figures of each burst of a load."""
    if not result.load.kind.endswith("burst"):
        return []
    size = int(result.load.level)
    bursts = [result.responses[first : first + size] for first in range(0, len(result.responses), size)]
    return [_round([response for response in burst if response.ok]) for burst in bursts]


def _round(good: Sequence[TimedResponse]) -> dict[str, float | None]:
    first_ms = [response.playable_s * 1e3 for response in good if response.playable_s is not None]
    playbacks = [response.playback for response in good if response.playback is not None]
    wall_s = max((response.total_s for response in good), default=0.0)
    return {
        "completed": len(good),
        "first_p50_ms": rounded(percentile(first_ms, 50)) if first_ms else None,
        "first_p99_ms": rounded(percentile(first_ms, 99)) if first_ms else None,
        "wall_s": rounded(wall_s),
        "audio_s_per_s": rounded(sum(p.audio_s for p in playbacks) / wall_s) if wall_s else None,
        "underruns": sum(playback.underruns for playback in playbacks),
    }


def _refused(responses: Sequence[TimedResponse]) -> dict[str, Any] | None:
    """Returns the `Retry-After` times of refusals, and when the requests were served; None if none was refused.

    `queue_s` is when the last request that was not refused got its first audio: by then the queue was empty.
    """
    told = [(*one.refusals, *(() if one.retry_after_s is None else (one.retry_after_s,))) for one in responses]
    if not any(told):
        return None
    returned_ms = [one.playable_s * 1e3 for one in responses if one.refusals and one.playable_s is not None]
    taken_s = [one.playable_s for one, times in zip(responses, told, strict=True) if not times and one.playable_s]
    return {
        "requests": sum(bool(times) for times in told),
        "again": sum(len(times) > 1 for times in told),
        "retry_after_s": summarize([times[0] for times in told if times]).as_dict(),
        "first_playable_after_ms": summarize(returned_ms).as_dict() if returned_ms else None,
        "queue_s": rounded(max(taken_s)) if taken_s else None,
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
        "processes": plan.processes,
    }

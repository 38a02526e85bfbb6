"""From loads on a server to the runs of a report."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rhapsode.bench.progress import progress
from rhapsode.bench.report import Run, compose
from rhapsode.bench.serve.client import Heard, Listener, make_session
from rhapsode.bench.serve.load import Loaded, put_load
from rhapsode.bench.serve.schedule import Load
from rhapsode.bench.serve.target import Target
from rhapsode.bench.stats import rounded, summarize
from rhapsode.errors import Unavailable

EXAMPLES = 3
"""Error messages kept of each kind."""


@dataclass(frozen=True)
class ServePlan:
    target: Target
    loads: tuple[Load, ...]
    texts: tuple[str, ...]
    requests: int | None = None
    """Of every load; by default four per listener and at least sixteen, or half a minute of arrivals."""
    warm_up: int = 2
    seed: int = 0
    sample_rate: int | None = None
    timeout_s: float = 120.0

    def count(self, load: Load) -> int:
        if self.requests is not None:
            return max(self.requests, int(load.level)) if load.kind == "burst" else self.requests
        if load.kind == "open":
            return max(16, round(30 * load.level))
        return max(16, int((4 if load.kind == "closed" else 2) * load.level))


def measure(plan: ServePlan) -> dict[str, Any]:
    loaded = asyncio.run(_measure(plan))
    notes = [
        f"the client itself was slow at '{one.load.label}' (lag p99 {one.client['lag_p99_ms']} ms, "
        f"busy {one.client['busy']}): its times are upper bounds"
        for one in loaded
        if one.client["slow"]
    ]
    return compose("serve", _config(plan), plan.seed, [_run(one) for one in loaded], notes)


async def _measure(plan: ServePlan) -> list[Loaded]:
    total = sum(map(plan.count, plan.loads))
    async with make_session() as session:
        listener = Listener(session, plan.target, plan.sample_rate, plan.timeout_s)
        for i in range(plan.warm_up):
            heard = await listener.hear(plan.texts[i % len(plan.texts)], plan.seed)
            if i == 0 and heard.error == "connect":
                raise Unavailable(f"nobody answers at {plan.target.url}: {heard.detail}")
        done: list[Loaded] = []
        with progress(plan.target.url, total) as advance:
            for load in plan.loads:

                def tick(label: str = load.label) -> None:
                    advance(label)

                done.append(await put_load(load, plan.count(load), listener, plan.texts, plan.seed, tick))
        return done


def _run(loaded: Loaded) -> Run:
    good = [heard for heard in loaded.heard if heard.ok]
    bad = [heard for heard in loaded.heard if not heard.ok]
    playbacks = [heard.playback for heard in good if heard.playback is not None]
    gaps_ms = [gap * 1e3 for playback in playbacks for gap in playback.gaps_s]
    audio_s = sum(playback.audio_s for playback in playbacks)
    facts: dict[str, Any] = {
        "load": loaded.load.kind,
        "level": loaded.load.level,
        "requests": len(loaded.heard),
        "completed": len(good),
        "wall_s": rounded(loaded.wall_s),
        "audio_s": rounded(audio_s),
        "audio_s_per_s": rounded(audio_s / loaded.wall_s),
        "requests_per_s": rounded(len(good) / loaded.wall_s),
        "underruns": sum(playback.underruns for playback in playbacks),
        "requests_with_underruns": sum(playback.underruns > 0 for playback in playbacks),
        "stalled_s": rounded(sum(playback.stalled_s for playback in playbacks)),
        "errors": dict(Counter(str(heard.error) for heard in bad)),
        "error_examples": _examples(bad),
        "gap_ms": summarize(gaps_ms).as_dict() if gaps_ms else None,
        "client": loaded.client,
    }
    return Run(loaded.load.label, _samples(good), facts)


def _samples(good: Sequence[Heard]) -> dict[str, list[float]]:
    def ms(values: Sequence[float | None]) -> list[float]:
        return [value * 1e3 for value in values if value is not None]

    played = [(heard, heard.playback) for heard in good if heard.playback is not None]
    return {
        "first_byte_ms": ms([heard.first_byte_s for heard in good]),
        "first_playable_ms": ms([heard.playable_s for heard in good]),
        "first_audible_ms": ms([heard.audible_s for heard in good]),
        "total_ms": ms([heard.total_s for heard in good]),
        "rtf": [heard.total_s / playback.audio_s for heard, playback in played],
        "longest_gap_ms": [max(playback.gaps_s) * 1e3 for _, playback in played if playback.gaps_s],
        "stalled_ms": [playback.stalled_s * 1e3 for _, playback in played],
        "late_ms": [max(0.0, heard.late_s) * 1e3 for heard in good],
    }


def _examples(bad: Sequence[Heard]) -> dict[str, list[str]]:
    kept: dict[str, list[str]] = {}
    for heard in bad:
        examples = kept.setdefault(str(heard.error), [])
        if len(examples) < EXAMPLES:
            examples.append(heard.detail[:300])
    return kept


def _config(plan: ServePlan) -> dict[str, Any]:
    target = plan.target
    return {
        "url": target.url,
        "target": target.dialect.name,
        "body": target.body("...", plan.seed),
        "loads": [asdict(load) for load in plan.loads],
        "texts": len(plan.texts),
        "text_chars": summarize([len(text) for text in plan.texts]).as_dict(),
        "warm_up": plan.warm_up,
        "timeout_s": plan.timeout_s,
        "sample_rate": plan.sample_rate,
    }

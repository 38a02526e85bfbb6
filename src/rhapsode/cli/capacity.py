"""`rhapsode bench capacity`: how many replicas some traffic needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rhapsode.cli.bench import Output, Seed, bench, finish, numbers
from rhapsode.errors import InvalidRequest


@bench.command()
def capacity(
    curve: Annotated[Path, typer.Argument(help="One replica: a report of `bench engine` or `bench serve --closed`.")],
    listeners: Annotated[
        float | None, typer.Option(min=1, help="People who listen at once; at the busiest moment with --daily.")
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="Recorded traffic instead: CSV with at_s, audio_s, key.")] = None,
    first_audio: Annotated[
        float | None, typer.Option(min=1, help="p99 of first audio in ms: search for the fewest replicas.")
    ] = None,
    replicas: Annotated[str | None, typer.Option(help="Numbers of replicas to simulate instead: a list.")] = None,
    least: Annotated[int | None, typer.Option(min=1, help="Scale by load, from this number of replicas up.")] = None,
    start_s: Annotated[float, typer.Option(min=0, help="Seconds until a new replica is ready.")] = 60.0,
    mean_audio: Annotated[float, typer.Option(min=0.1, help="Mean seconds of speech of a request.")] = 8.0,
    minutes: Annotated[float, typer.Option(min=0.1, help="How long the traffic lasts.")] = 10.0,
    daily: Annotated[bool, typer.Option("--daily", help="Traffic rises and falls once in that time.")] = False,
    voices: Annotated[int, typer.Option(min=0, help="Cloned voices that requests share; 0: presets.")] = 0,
    slots: Annotated[int | None, typer.Option(min=1, help="limits.max_concurrency of a replica.")] = None,
    max_queue: Annotated[int, typer.Option(min=0, help="limits.max_queue of a replica.")] = 128,
    throughput: Annotated[
        bool, typer.Option("--throughput", help="limits.real_time: false. Every slot is used.")
    ] = False,
    seed: Seed = 0,
    output: Output = None,
    plot: Annotated[bool, typer.Option("--plot", help="Also write plots as SVGs next to the report.")] = False,
) -> None:
    """Simulate replicas under traffic: how many are needed, and what their listeners hear."""
    from rhapsode.bench.capacity.curve import read_curve
    from rhapsode.bench.capacity.plan import CapacityPlan, Goal, answer
    from rhapsode.bench.capacity.present import present
    from rhapsode.bench.capacity.scaler import ScalingPlan
    from rhapsode.bench.capacity.traffic import TrafficPlan, read_trace
    from rhapsode.bench.report import check_writable, read

    path = output or Path("bench-capacity.json")
    check_writable(path)
    if (listeners is None) == (trace is None):
        raise InvalidRequest("give the traffic: either --listeners or --trace.")
    if first_audio is None and replicas is None:
        raise InvalidRequest("give --first-audio to search for a number of replicas, or the numbers with --replicas.")
    report = read(curve)
    if trace is not None:
        traffic = read_trace(trace)
    else:
        traffic = TrafficPlan(listeners or 1, mean_audio, minutes * 60, daily, voices).generate(seed)
    plan = CapacityPlan(
        curve=read_curve(report, slots, real_time=not throughput),
        traffic=traffic,
        source=str(report["config"].get("subject") or report["config"].get("url") or curve),
        scaling=ScalingPlan(least or 0, 0, start_s=start_s),
        sizes=numbers(replicas, "--replicas") if replicas else (),
        goal=Goal(first_audio / 1e3) if first_audio else None,
        max_queue=max_queue,
        seed=seed,
    )
    finish(answer(plan), path, plot, present)

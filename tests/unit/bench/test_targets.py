"""The table of targets: which level a figure reaches."""

import pytest
from benchmarks.targets import TARGETS, Findings, table


def run(load: str, level: int, p99: float, underruns: int = 0) -> dict:
    times = {"p50": p99 / 2, "p95": p99, "p99": p99}
    summary = {"first_playable_ms": times, "rtf": {"p50": 0.027}}
    return {
        "load": load, "level": level, "underruns": underruns, "errors": {}, "audio_s_per_s": level, "summary": summary
    }  # fmt: skip


@pytest.mark.parametrize(
    ("found", "level"), [((61, 1, 1), "missed"), ((60, 1, 1), "must"), ((1, 1, 1), "moonshot"), ((1, None, 1), None)]
)
def test_every_number_of_a_figure_has_to_reach_the_level(found: tuple, level: str | None) -> None:
    assert TARGETS["burst"].level(found) == (level or "not measured")


def test_more_is_better_where_speech_is_counted() -> None:
    assert [TARGETS["throughput"].level([n]) for n in (1599, 1600, 2600)] == ["missed", "must", "moonshot"]


def test_the_first_burst_of_a_size_counts_and_gaps_limit_the_listeners() -> None:
    bursts = [run("first burst", 32, 70), run("burst", 32, 30), run("burst", 256, 200), run("burst", 512, 500, 3)]
    found = Findings([run("closed", 1, 11), *bursts], [39, 7], [], 0)
    figures = found.figures()
    assert figures["burst"] == [70, 200, 500]
    assert figures["listeners"] == [256]
    levels = [line.rsplit("|", 2)[1].strip() for line in table(found).splitlines()[2:10]]
    assert levels == ["must", "not measured", "missed", "must", "missed", "missed", "must", "must"]


def test_slow_turns_that_no_log_explains_are_not_called_fast() -> None:
    assert Findings([], [], [], slow_turns=2).figures()["turn"] == [None]

"""The table of targets: which level a figure reaches, and what a measurement does with parts that fail."""

import json
from pathlib import Path

import pytest
from benchmarks import targets
from benchmarks.started_server import started
from benchmarks.target_table import TARGETS, Findings, farthest, frame_ms, refusal_lines, round_lines, table
from benchmarks.targets import Measurement


def run(load: str, level: int, p99: float, underruns: int = 0, **more: object) -> dict:
    times = {"p50": p99 / 2, "p95": p99, "p99": p99}
    summary = {"first_playable_ms": times, "rtf": {"p50": 0.027}}
    samples = {"first_playable_ms": [10.0], "total_ms": [112.0], "first_chunk_ms": [80.0]}
    return {
        "load": load, "level": level, "underruns": underruns, "errors": {}, "audio_s_per_s": level,
        "summary": summary, "samples": samples, **more,
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
    loops = [run("closed", 1, 11), run("closed", 256, 90), run("closed", 512, 90, 3), run("closed", 768, 90)]
    narrow = run("closed", 1, 50, server="fp8")
    found = Findings([narrow, *loops, *bursts], {"cold": 39, "warm": 7}, {"cold": 12, "warm": 49})
    figures = found.figures()
    assert figures["burst"] == [70, 200, 500]
    assert figures["listeners"] == [256]
    assert figures["alone"] == [5.5, 11]
    levels = [line.rsplit("|", 2)[1].strip() for line in table(found).splitlines()[2:12]]
    assert levels == [
        "must", "not measured", "missed", "must", "must", "missed", "missed", "must", "must", "not measured"
    ]  # fmt: skip


def test_listeners_who_wait_in_the_queue_are_not_listeners() -> None:
    found = Findings([run("closed", 512, 90, places=1024), run("closed", 1024, 90, places=700)])
    assert found.figures()["listeners"] == [700]


def test_the_time_of_a_frame_is_that_between_the_first_audio_and_the_end() -> None:
    assert frame_ms(run("closed", 1, 11)) == pytest.approx(102 / 51)


def test_what_was_not_measured_has_no_figure() -> None:
    assert all(value is None for values in Findings().figures().values() for value in values)
    assert "not measured" in table(Findings())


def test_a_round_far_from_the_median_is_named() -> None:
    def rounds(*first_ms: float) -> list[dict]:
        return [{"first_p50_ms": ms, "first_p99_ms": ms, "audio_s_per_s": 1000.0} for ms in first_ms]

    assert farthest([100, 110, 140]) == pytest.approx(30 / 110)
    first, _, speech = round_lines([{"rounds": rounds(100, 110)}, {"rounds": rounds(140)}])
    assert "100 110 140; median 110, farthest +27% (NOT steady" in first
    assert speech.endswith("farthest +0% (steady)")


def test_a_promise_is_put_next_to_what_came_of_it() -> None:
    told = {"min": 2.0, "max": 3.0, "p50": 2.0}
    refused = {"requests": 7, "again": 1, "retry_after_s": told, "first_playable_after_ms": None, "queue_s": 2.5}
    (line,) = refusal_lines({"refused": refused})
    assert "7 were refused and told to come back after 2 to 3 s" in line
    assert "the queue was empty after 2.5 s; 1 came too early" in line
    assert list(refusal_lines({"refused": None})) == ["  nobody was refused"]


def test_a_part_that_fails_says_why_and_the_next_one_is_measured(tmp_path: Path, capsys) -> None:
    def fail() -> None:
        raise ChildProcessError("the server has ended")

    measurement = Measurement(tmp_path, 100.0, None, 1)
    assert not measurement.attempt("first", 1.0, fail)
    assert measurement.attempt("second", 1.0, lambda: measurement.found.runs.append(run("closed", 1, 11, part="x")))
    assert not measurement.attempt("third", 101.0, fail)
    kept = json.loads((tmp_path / "targets.json").read_text())
    assert kept["failures"]["first"] == "ChildProcessError: the server has ended"
    assert kept["figures"]["alone"] == [5.5, 11]
    assert measurement.found.failures["third"].startswith("skipped: it takes about 101 s")
    assert "FAILED: ChildProcessError" in capsys.readouterr().out


def test_a_server_that_cannot_start_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(ChildProcessError, match="no-such-model"), started(
        {"model": "no-such-model"}, tmp_path, tmp_path / "log"
    ):  # fmt: skip
        pass


def test_a_rehearsal_has_the_same_parts() -> None:
    def names(plans: list) -> list:
        return [(plan.name, [part.name for part in plan.parts]) for plan in plans]

    assert names(targets.quick_plans()) == names(targets.plans())
    assert all(part.requests <= 80 for plan in targets.quick_plans() for part in plan.parts)


def test_all_of_it_fits_the_time_there_is() -> None:
    chosen = [plan for plan in targets.plans() if plan.name != "cores"]
    assert sum(plan.start_s + sum(part.expected_s for part in plan.parts) for plan in chosen) <= 250

"""An evaluation can be stopped anywhere and goes on, and its table is of what is known so far."""

import json
from pathlib import Path

import numpy as np
import pytest

import evaluate
from records import Records, tasks
from report import present


def test_records_survive_a_stop_in_the_middle_of_a_line(tmp_path: Path) -> None:
    records = Records(tmp_path / "words.jsonl")
    records.add("a", value="one")
    with (tmp_path / "words.jsonl").open("a") as file:
        file.write('{"key": "b", "val')
    again = Records(tmp_path / "words.jsonl")
    assert "a" in again
    assert "b" not in again
    again.add("b", value="two")
    lines = (tmp_path / "words.jsonl").read_text().splitlines()
    assert [json.loads(line)["value"] for line in lines] == ["one", "two"]


def test_tasks_are_in_step_for_all_voices_and_have_the_seeds_of_the_benchmark() -> None:
    wanted = tasks(["ann", "bob"], None, 500)
    assert len(wanted) == len({task.key for task in wanted}) == 2 * 700
    assert [(task.voice, task.set, task.seed) for task in wanted[:4]] == [
        ("ann", "prompts", 0),
        ("bob", "prompts", 0),
        ("ann", "generated", 0),
        ("bob", "generated", 0),
    ]


def test_the_table_is_of_what_is_known(tmp_path: Path) -> None:
    wanted = tasks(["ann", "bob"], 2, 2)
    ann, bob = (next(task for task in wanted if task.voice == voice) for voice in ("ann", "bob"))
    spoken, words = Records(tmp_path / "spoken.jsonl"), Records(tmp_path / "words.jsonl")
    spoken.add(ann.key, error=None, audio_s=2.0, rtf=0.5, first_audio_s=0.05)
    spoken.add(bob.key, error="silent")
    words.add(ann.key, value="nothing of that")
    table = present(tmp_path, wanted)
    assert "| ann | prompts | 1 of 2 | 0 | 1 | 100.00% |  | 0.500 | 50 |" in table
    assert "| bob | prompts | 1 of 2 | 1 silent | 0 |" in table
    assert f"- 100% {ann.key}: {ann.prompt.text}" in table


def test_likeness_is_that_of_different_clips(tmp_path: Path) -> None:
    wanted = tasks(["ann", "bob"], 2, 0)
    likeness = Records(tmp_path / "likeness.jsonl")
    for task, vector in zip(wanted, ([1, 0], [0, 1], [0.6, 0.8], [0, 1]), strict=True):
        likeness.add(task.key, value=vector)
    table = present(tmp_path, wanted)
    assert "lowest 0.600 (ann)" in table
    assert "highest 0.400 (ann and bob)" in table


def test_a_step_ends_when_its_time_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = tasks(["ann"], 3, 0)
    assert list(evaluate.Clock(-1).while_there_is_time(wanted, "speech")) == []
    assert "speech: 3 left" in capsys.readouterr().err
    assert list(evaluate.Clock(1).while_there_is_time(wanted, "speech")) == wanted


def test_what_is_spoken_is_not_spoken_again_and_then_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ear:
        def transcribe(self, clip: object, language: str) -> str:
            return "yes"

    monkeypatch.setattr(evaluate, "make_recogniser", lambda name: Ear())
    monkeypatch.setattr(evaluate, "judges", lambda: ([], []))
    wanted = tasks(["high"], 1, 1)
    evaluate.speak("dummy", tmp_path, wanted, evaluate.Clock(1))
    before = (tmp_path / "spoken.jsonl").read_text()
    evaluate.speak("dummy", tmp_path, wanted, evaluate.Clock(1))
    assert (tmp_path / "spoken.jsonl").read_text() == before
    evaluate.hear(tmp_path, wanted, "any", evaluate.Clock(1))
    spoken = Records(tmp_path / "spoken.jsonl").found
    assert len(spoken) == 2
    good = [key for key, one in spoken.items() if one["error"] is None]
    assert sorted(Records(tmp_path / "words.jsonl").found) == sorted(good)
    assert np.isfinite([spoken[key]["rtf"] for key in good]).all()

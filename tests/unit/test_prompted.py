"""Talkers that are a `PromptedStack`: what a GPU captures has the shapes of what is launched, else it never replays."""

import importlib
from collections.abc import Sequence
from typing import Any

import pytest

from rhapsode.device.prompts import PromptRuns
from rhapsode.device.row_writes import RowWrites
from rhapsode.models.prompted_stack import PromptedStack
from rhapsode.models.written_stack import WrittenStack
from rhapsode.testing.subject import Subject, hear

FAMILIES = (
    "cosyvoice3",
    "fish_s2_pro",
    "higgs_v2",
    "higgs_v3",
    "moss_tts_nano",
    "qwen3_tts",
    "voxcpm2",
    "voxtral_tts",
)


def kinds(values: Sequence[Any], after: int) -> list[tuple[tuple[int, ...], str]]:
    """Shapes without their first sizes, and types."""
    types = [str(x.dtype).removeprefix("torch.") for x in values]
    return [(tuple(x.shape[after:]), kind) for x, kind in zip(values, types, strict=True)]


@pytest.mark.parametrize("family", FAMILIES)
def test_captured_launches_are_those_of_prompts(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    subject: Subject = importlib.import_module(f"contract.families.{family}").SUBJECTS[0]
    launched: list[tuple[tuple[int, int], Sequence[Any]]] = []
    written: list[tuple[RowWrites, Sequence[Any]]] = []
    run, write = PromptRuns.__call__, RowWrites.__call__

    def kept(runs: PromptRuns, rows: Any, spans: Any, *inputs: Any) -> None:
        launched.append((runs.shape(spans), inputs))
        run(runs, rows, spans, *inputs)

    def noted(writes: RowWrites, target: Any, *columns: Any) -> None:
        written.append((writes, columns))
        write(writes, target, *columns)

    monkeypatch.setattr(PromptRuns, "__call__", kept)
    monkeypatch.setattr(RowWrites, "__call__", noted)
    engine = subject.engine()
    try:
        assert hear(engine.submit(subject.request(subject.texts[0]))).size
    finally:
        engine.stop()
    talker = engine.pipeline.workers["talk"]
    assert isinstance(talker, PromptedStack)
    assert launched
    for (batch, length), inputs in launched:
        assert kinds(talker.blank_inputs(batch, length), 0) == kinds(inputs, 0)
    if isinstance(talker, WrittenStack):
        blank = kinds(talker.blank_input(talker.state(1)), 1)
        firsts = [kinds(columns, 1) for writes, columns in written if writes is talker._ready]
        assert firsts
        assert all(first[1:] == blank for first in firsts), "after the slots"

"""The shapes that docs/add-a-model.md states are those that pass between the engine and a family."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from contract.chain import CHAIN
from rhapsode.device.kv import KVLayout
from rhapsode.device.reach import Window
from rhapsode.models.base import Step
from rhapsode.testing.subject import Subject, speak

PAGE = (Path(__file__).parents[2] / "docs/add-a-model.md").read_text()
SHAPES = PAGE[PAGE.index("## 5. Shapes") : PAGE.index("## 6. Lifetimes")]
SLOTS, PAGE_SIZE, MAX_POSITIONS = 3, 8, 1024
SUBJECT = Subject("dummy", ("Hi there.",), spec=CHAIN)


@pytest.fixture(scope="module")
def calls():
    """What a chain of a talker, a converter and a codec was called with, and what it returned."""
    limits, memory = {"max_concurrency": SLOTS}, {"page_size": PAGE_SIZE}
    engine = SUBJECT.engine(graphs=False, limits=limits, memory=memory)
    seen: dict[str, list[tuple[Any, ...]]] = {}
    for stage, method in (("talk", "step"), ("convert", "decode"), ("vocode", "decode")):
        worker, calls = engine.pipeline.workers[stage], seen.setdefault(stage, [])
        real = getattr(worker, method)

        def noted(*given: Any, real: Any = real, calls: Any = calls, worker: Any = worker) -> Any:
            returned = real(*given)
            calls.append((worker, given, returned))
            return returned

        setattr(worker, method, noted)
    speak(engine, SUBJECT.request(SUBJECT.texts[0]))
    engine.stop()
    return seen


def test_every_field_is_explained() -> None:
    for name in (*Step._fields, *(field.name for field in fields(Window)), "center"):
        assert f"| `{name}` |" in SHAPES
    assert f"`KVLayout({', '.join(field.name for field in fields(KVLayout))})`" in SHAPES


def test_a_step_has_a_frame_and_two_flags_for_each_row(calls) -> None:
    assert len(calls["talk"]) >= len(SUBJECT.texts[0])
    for talker, (rows, _), step in calls["talk"]:
        batch = len(rows.slots)
        assert step.frames.shape == (batch, *talker.frame_shape)
        assert step.frames.dtype == talker.frame_dtype
        assert step.emitted.shape == step.stopped.shape == (batch,)
        assert step.emitted.dtype == step.stopped.dtype == torch.bool


@pytest.mark.parametrize("stage", ["convert", "vocode"])
def test_a_window_has_the_frames_that_are_due_and_their_context(calls, stage: str) -> None:
    assert calls[stage]
    for worker, (window, rows, _), returned in calls[stage]:
        batch, reach, due = len(rows.slots), worker.reach, window.due
        length = reach.lookbehind + due + reach.lookahead
        assert due % reach.granularity == 0
        assert window.frames.shape[:2] == window.present.shape == (batch, length)
        assert window.center.shape == (batch, due, *window.frames.shape[2:])
        if stage == "convert":
            assert returned.shape == (batch, due * worker.rate, *worker.frame_shape)
        else:
            assert returned.shape == (batch, worker.channels, due * worker.hop)


@pytest.mark.parametrize("stage", ["talk", "convert"])
def test_keys_values_and_page_tables(calls, stage: str) -> None:
    for worker, given, _ in calls[stage]:
        rows, (layout,) = given[-2], worker.traits().kv
        batch, (kv,) = len(rows.slots), rows.kv
        assert kv.keys.shape == kv.values.shape
        assert kv.keys.shape[0] == layout.layers
        assert kv.keys.shape[2:] == (PAGE_SIZE, layout.heads, layout.head_dim)
        assert rows.pages.shape[0] == batch
        assert rows.pages.shape[1] * PAGE_SIZE >= MAX_POSITIONS
        for numbers in (rows.slots, rows.positions, rows.steps, rows.seeds, rows.temperature, rows.top_p, rows.top_k):
            assert numbers.shape == (batch,)
        assert len(rows.table.position) == SLOTS + 1


def test_the_example_of_memory_is_right() -> None:
    stated = re.search(
        r"\((\d+) layers, (\d+) heads, (\d+)\) in bfloat16 (\d+) KiB, .*4,096 positions (\d+) MiB", SHAPES
    )
    assert stated is not None
    layers, heads, size, kib, mib = map(int, stated.groups())
    position = KVLayout(layers, heads, size).bytes_per_position(torch.bfloat16)
    assert position == kib * 1024
    assert 4096 * position == mib * 2**20

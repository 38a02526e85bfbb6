"""Many small arrays from the host in one launch: the same rows are written, whatever their number."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rhapsode.device.kv import KVLayout
from rhapsode.device.memory import SlotMemory
from rhapsode.device.packed import PackedReplay, Packing, upload_all
from rhapsode.device.replay import Replay
from rhapsode.device.row_writes import RowWrites
from rhapsode.device.slots import SlotRow
from rhapsode.device.state import State, buffer
from rhapsode.sampling_table import Sampling

CPU = torch.device("cpu")
SLOTS = 200


@dataclass
class Rerun:
    """Stands for a captured graph: runs the function on what its inputs hold now."""

    function: Any
    inputs: tuple[Tensor, ...]
    replays: int = 0

    def replay(self) -> Any:
        self.replays += 1
        return self.function(*self.inputs)


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> list[Rerun]:
    made: list[Rerun] = []

    def capture(replay: Replay, *inputs: Tensor) -> Rerun:
        made.append(Rerun(replay._function, inputs))
        return made[-1]

    monkeypatch.setattr(Replay, "capture", capture)
    return made


class Table(State):
    def __init__(self) -> None:
        self.count = buffer(SLOTS, dtype=torch.int64)
        self.weight = buffer(SLOTS, 3)


def write(table: Table, slots: Tensor, counts: Tensor, weights: Tensor) -> None:
    table.count[slots], table.weight[slots] = counts, weights


def rows(number: int, width: int = 3) -> tuple[np.ndarray, ...]:
    chance = np.random.default_rng(number)
    slots = chance.permutation(SLOTS)[:number]
    return slots, chance.integers(1, 99, number), chance.random((number, width), np.float32)


def test_a_block_gives_back_arrays_of_every_type() -> None:
    arrays = [np.array([True, False, True]), np.arange(5), np.float32([[0.5], [1.5]]), np.zeros((0, 4), np.int32)]
    packing = Packing(arrays)
    block = packing.blank(CPU)
    packing.fill(block, arrays)
    for view, array in zip(packing.views(block), arrays, strict=True):
        assert view.numpy().dtype == array.dtype
        assert np.array_equal(view.numpy(), array)
    assert [x.tolist() for x in upload_all(arrays, CPU)] == [array.tolist() for array in arrays]


@pytest.mark.parametrize("number", [1, 3, 4, 17, 64, 65, 150])
def test_captured_writes_are_those_of_an_eager_launch(recordings: list[Rerun], number: int) -> None:
    plain, captured = Table(), Table()
    RowWrites(write, CPU)(plain, *rows(number))
    writes = RowWrites(write, CPU)
    writes.capture(captured, np.array([SLOTS]), np.zeros(1, np.int64), np.zeros((1, 3), np.float32))
    writes(captured, *rows(number))
    assert torch.equal(captured.count, plain.count)
    assert torch.equal(captured.weight, plain.weight)
    assert sum(recording.replays for recording in recordings) == -(-number // 64)


def test_other_shapes_and_targets_are_written_eagerly(recordings: list[Rerun]) -> None:
    captured, other = Table(), Table()
    writes = RowWrites(write, CPU)
    writes.capture(captured, np.array([SLOTS]), np.zeros(1, np.int64), np.zeros((1, 3), np.float32))
    writes(other, *rows(2))
    assert captured.count.sum() == 0
    assert other.count.sum() > 0
    writes(captured, *rows(2, width=1))
    assert torch.equal(captured.count, other.count)
    assert not any(recording.replays for recording in recordings)


def test_a_launch_takes_tensors_between_its_arrays(recordings: list[Rerun]) -> None:
    replay = PackedReplay(lambda a, b, c: a * 100 + b * 10 + c, CPU)
    given = np.array([1, 2]), torch.tensor([3, 4]), np.array([5, 6])
    eager = replay(*given)
    replay.capture(np.zeros(2, np.int64), torch.zeros(2, dtype=torch.int64), np.zeros(2, np.int64))
    assert replay(*given).tolist() == eager.tolist() == [135, 246]
    assert replay(torch.tensor([1, 2]), np.array([3, 4]), np.array([5, 6])).tolist() == [135, 246]
    assert recordings[0].replays == 2


def test_a_captured_join_leaves_nothing_of_the_old_request(recordings: list[Rerun]) -> None:
    begun: list[int] = []
    memory = SlotMemory(
        SLOTS,
        [KVLayout(1, 1, 1)],
        Table(),
        CPU,
        torch.float32,
        page_size=4,
        pages=SLOTS,
        positions_per_slot=16,
        on_join=lambda slots: begun.extend(slots.tolist()),
    )
    memory.capture()
    for tensor in (*memory.table.tensors(), *memory.state.tensors()):
        tensor.fill_(7)
    memory.join(
        [
            SlotRow(
                slot=slot,
                seed=40 + slot,
                pages=[1, slot],
                sampling=Sampling(temperature=0.5, top_k=3, top_p=0.25, repetition_penalty=1.5),
            )
            for slot in (5, 2)
        ]
    )
    table, state = memory.table, memory.state
    assert table.position[[2, 5]].tolist() == table.step[[2, 5]].tolist() == [0, 0]
    assert table.seed[[2, 5, 6]].tolist() == [42, 45, 7]
    assert table.pages[5].tolist() == [1, 5, 0, 0]
    assert [table.temperature[5], table.top_k[5], table.top_p[5], table.repetition_penalty[5]] == [0.5, 3, 0.25, 1.5]
    assert state.weight[[2, 5]].sum() == 0
    assert state.count[3] == 7
    assert begun == [5, 2, *[SLOTS] * 6]

"""A launch recorded on a CPU: the same results, whatever the values are; what cannot be recorded says so."""

import threading
import warnings

import pytest
import torch
from torch import Tensor

from rhapsode.device.kv import PagedKV
from rhapsode.device.replay import Replay
from rhapsode.device.slots import Rows, SlotRow, SlotTable
from rhapsode.device.trace import Untraceable
from rhapsode.nn.attention import PagedAttention
from rhapsode.nn.decoder import DecoderConfig, DecoderStack
from rhapsode.nn.kernels.sampling import Settings
from rhapsode.nn.rope import RopeConfig
from rhapsode.nn.sampling import draw

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def inference():
    torch.manual_seed(0)
    with torch.inference_mode():
        yield


def test_buffers_that_are_equal_when_they_are_recorded_stay_apart() -> None:
    one, other, count = torch.zeros(3), torch.zeros(3), torch.zeros(3)

    def launch(x: Tensor) -> Tensor:
        count.add_(1)
        return x + one - other

    x = torch.zeros(3)
    replay = Replay(launch, [one, other, count])
    replay.capture(x)
    one.fill_(5)
    count.zero_()
    assert replay(torch.ones(3)).tolist() == [6, 6, 6]
    assert count.tolist() == [1, 1, 1]


def test_shapes_that_were_not_recorded_run_as_they_are() -> None:
    replay = Replay(lambda x: x * 2 if x.shape[0] > 1 else x * 3)
    replay.capture(torch.ones(1))
    assert replay(torch.ones(1)).tolist() == [3]
    assert replay(torch.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize(
    "launch",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x * int(x[0]),
        lambda x: x * float(x[0]),
        lambda x: x * x[0].item(),
        lambda x: x * x.tolist()[0],
        lambda x: x if 1.0 in x else -x,
        lambda x: x * x.numpy()[0],
    ],
)
def test_a_launch_that_asks_the_host_about_values_is_not_recorded(launch) -> None:
    with pytest.raises(Untraceable, match="asks for values"):
        Replay(launch).capture(torch.ones(2))


def test_threads_that_change_the_warnings_disturb_no_recording() -> None:
    """Warnings belong to the whole process: what a recording is must not depend on them."""
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(200):
            with pytest.raises(Untraceable):
                Replay(lambda x: x if x.sum() > 0 else -x).capture(torch.ones(2))
    finally:
        over.set()
        changing.join()


def test_looking_back_goes_as_far_as_the_positions_of_the_day() -> None:
    config = DecoderConfig(16, 24, 2, heads=4, kv_heads=2, head_dim=6, rope=RopeConfig(6), qk_norm=True)
    stack, positions = DecoderStack(config).requires_grad_(False), torch.zeros(2, 1, dtype=torch.int64)
    table = SlotTable(2, 4, CPU)
    table.join([SlotRow(slot=slot, pages=range(1 + 4 * slot, 5 + 4 * slot)) for slot in (0, 1)])
    kvs = [PagedKV(config.kv(), 8, 5, torch.float32, CPU) for _ in range(2)]

    def run(kv: PagedKV, x: Tensor, slots: Tensor) -> Tensor:
        backend = PagedAttention(kv, Rows(slots, table), positions)
        return stack(x.clone(), stack.rotary(positions, x.dtype), backend)

    x, slots = torch.zeros(2, 1, 16), torch.tensor([0, 1])
    replay = Replay(lambda x, slots: run(kvs[1], x, slots), [positions, *table.tensors(), kvs[1].keys, kvs[1].values])
    replay.capture(x, slots)
    for step in range(18):
        positions.fill_(step)
        given = torch.randn(2, 1, 16)
        assert torch.equal(replay(given, slots), run(kvs[0], given, slots))


def test_rows_draw_as_they_wish_and_not_as_they_wished_when_they_were_recorded() -> None:
    temperature, top_k, top_p, min_p = torch.ones(3), torch.full((3,), 20), torch.ones(3), torch.zeros(3)
    settings = Settings(temperature, top_k, top_p, min_p=min_p)

    def launch(scores: Tensor, noise: Tensor) -> Tensor:
        return draw(scores, settings, noise, settings.partial_k())

    scores, noise = torch.randn(3, 100), torch.randn(3, 100)
    replay = Replay(launch, [temperature, top_k, top_p, min_p])
    replay.capture(scores.clone(), noise.clone())
    wishes = [(0.0, 0, 1.0, 0.0), (0.8, 5, 1.0, 0.0), (1.2, 0, 1.0, 0.0), (1.0, 70, 1.0, 0.0), (1.0, 10, 0.5, 0.0)]
    for heat, k, p, least in (*wishes, (1.0, 5, 1.0, 1.0), (1.0, 0, 0.9, 0.3)):
        temperature.fill_(heat), top_k.fill_(k), top_p.fill_(p), min_p.fill_(least)
        assert torch.equal(replay(scores, noise), launch(scores, noise))


def test_a_recording_that_is_let_go_of_keeps_no_weights() -> None:
    weight = torch.randn(100)
    before = weight._use_count()
    replay = Replay(lambda x: x * weight)
    replay.capture(torch.ones(100))
    assert weight._use_count() > before
    del replay
    assert weight._use_count() == before

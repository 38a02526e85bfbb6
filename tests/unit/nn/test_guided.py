"""Two sequences of one request in one launch are the same as each of them alone."""

import torch

from rhapsode.device.kv import PagedKV
from rhapsode.device.slots import Rows, SlotRow, SlotTable
from rhapsode.nn.attention import PagedAttention
from rhapsode.nn.decoder import DecoderConfig, DecoderStack
from rhapsode.nn.guided import GuidedAttention, guided, guided_layout
from rhapsode.nn.rope import RopeConfig

CPU = torch.device("cpu")
CONFIG = DecoderConfig(32, 48, 3, 4, 2, 8, RopeConfig(8))
PAGE, PAGES = 4, 5
LENGTHS = (7, 3)


def stack() -> DecoderStack:
    torch.manual_seed(0)
    return DecoderStack(CONFIG).double().eval()


def memory(layers: int) -> tuple[Rows, PagedKV]:
    """Two requests, whose pages alternate."""
    table = SlotTable(2, PAGES, CPU)
    table.join([SlotRow(slot=slot, pages=range(1 + slot, 1 + 2 * PAGES, 2)) for slot in range(2)])
    kv = PagedKV(guided_layout(CONFIG.kv()) if layers == 2 else CONFIG.kv(), 2 * PAGES, PAGE, torch.float64, CPU)
    return Rows(torch.arange(2), table), kv


def run(net: DecoderStack, x: torch.Tensor, backend: PagedAttention | GuidedAttention, positions: torch.Tensor):
    return net(x.clone(), net.rotary(positions, x.dtype), backend)


@torch.inference_mode()
def test_a_launch_of_both_sequences_is_a_launch_of_each() -> None:
    net, most = stack(), max(LENGTHS)
    told, untold = (torch.randn(2, most, 32, dtype=torch.float64) for _ in range(2))
    where = torch.arange(most).expand(2, -1)
    valid = where < torch.tensor(LENGTHS)[:, None]
    rows, kv = memory(2)
    both = run(net, torch.cat((told, untold)), GuidedAttention(kv, rows, where, valid), torch.cat((where, where)))
    next_x, place = torch.randn(2, 1, 32, dtype=torch.float64), torch.tensor(LENGTHS)[:, None]
    step = run(net, torch.cat((next_x, next_x)), GuidedAttention(kv, rows, place), torch.cat((place, place)))
    for x, prompt, stepped in zip((told, untold), both.chunk(2), step.chunk(2), strict=True):
        rows, kv = memory(1)
        alone = run(net, x, PagedAttention(kv, rows, where, valid), where)
        torch.testing.assert_close(prompt[valid], alone[valid], atol=1e-12, rtol=0)
        alone = run(net, next_x, PagedAttention(kv, rows, place), place)
        torch.testing.assert_close(stepped, alone, atol=1e-12, rtol=0)
    assert not torch.allclose(*step.chunk(2))


def test_a_weight_moves_scores_away_from_the_unconditional_ones() -> None:
    scores = torch.tensor([[1.0, 2.0], [3.0, 5.0], [0.0, 4.0], [3.0, 1.0]])
    assert guided(scores, torch.tensor([0.5, 0.0])).tolist() == [[1.5, 1.0], [3.0, 5.0]]

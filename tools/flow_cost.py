"""Counts the work of CosyVoice3's flow for each chunk of a long utterance, at the published size, and plots it.

    python tools/flow_cost.py docs/plots/cosyvoice3-chunk-cost.png

Runs on a CPU with random weights. Only one and two layers are run; the other layers cost the same.
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch.utils.flop_counter import FlopCounterMode

from rhapsode.bench.plots import GRID, LINES
from rhapsode.device.memory import SlotMemory
from rhapsode.device.slots import SlotRow
from rhapsode.models.base import ModelSpec, StageContext
from rhapsode.models.cosyvoice3.flow.net import FlowBlock
from rhapsode.models.cosyvoice3.flow.parts import flow_net
from rhapsode.models.cosyvoice3.flow.settings import DiTSettings, FlowSettings
from rhapsode.models.cosyvoice3.flow.worker import CosyFlow

DEPTH, CHUNKS = 22, 16


def costs(depth: int) -> list[tuple[float, float]]:
    """Returns the operations of each chunk: of products with weights, and of attention."""
    sizes = DiTSettings(dim=1024, depth=depth, heads=16, dim_head=64, static_chunk_size=50, ff_mult=2)
    settings = FlowSettings(6561, 80, 192, 2, 3, 1024, 0.7, sizes)
    context = StageContext(ModelSpec("cosyvoice3", "", (), 24_000), None, {}, "cpu", "float32", random_weights=True)
    net = flow_net(settings, context, lambda: (_ for _ in ()).throw(AssertionError("no weights are read")))
    worker = CosyFlow(net, CHUNKS * sizes.static_chunk_size)
    cpu, size = torch.device("cpu"), worker.page_size
    memory = SlotMemory(
        1, worker.traits().kv, worker.state(1), cpu, torch.float32,
        page_size=size, pages=CHUNKS, positions_per_slot=CHUNKS * size,
    )  # fmt: skip
    memory.join([SlotRow(slot=0, pages=range(1, CHUNKS + 1))])
    rows, width = memory.rows(torch.tensor([0])), worker.reach.context + settings.chunk_tokens
    found = []
    for chunk in range(CHUNKS):
        given = torch.zeros(1, width, dtype=torch.int64), torch.ones(1, width, dtype=torch.bool)
        start = torch.tensor([chunk * size])
        with torch.inference_mode(), FlopCounterMode(display=False) as counter:
            net.block(FlowBlock(*given, torch.zeros(1, size, 80), torch.zeros(1, 80), start), rows)
        counts = {str(op): count for op, count in counter.get_flop_counts()["Global"].items()}
        attended = (
            2 * 2 * 2 * 10 * depth * settings.transformer.inner * size * (chunk + 1) * size
        )  # both products of both halves
        found.append((float(sum(counts.values()) - attended), float(attended)))
    return found


def main(path: Path) -> None:
    one, two = costs(1), costs(2)
    every = [[a + (DEPTH - 1) * (b - a) for a, b in zip(*pair, strict=True)] for pair in zip(one, two, strict=True)]
    weights, attention = ([cost / 1e9 for cost in part] for part in zip(*every, strict=True))
    figure = Figure(figsize=(9, 5.2), dpi=130, layout="constrained")
    axes, seconds = figure.subplots(), range(1, CHUNKS + 1)
    axes.plot(seconds, weights, color=LINES[0], marker="o", label="products with weights")
    axes.plot(seconds, attention, color=LINES[1], marker="o", label="attention")
    axes.set(xlabel="chunk, of one second", ylabel="GFLOP", ylim=(0, None))
    axes.set_title("CosyVoice3's flow: the work of each chunk of an utterance", loc="left")
    axes.grid(color=GRID)
    axes.legend(frameon=False)
    figure.savefig(path)
    print("\n".join(f"{n}: {w:.1f} + {a:.1f}" for n, w, a in zip(seconds, weights, attention, strict=True)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

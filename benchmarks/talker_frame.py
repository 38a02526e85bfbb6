"""Measures one frame of a talker in a CUDA graph, with random weights: kernels, overlap, plain PyTorch.

    python benchmarks/talker_frame.py SHAPE [--batches 1 8 32] [--kernels 15]

SHAPE is a name that `rhapsode bench engine --random-weights` takes. `--kernels` also prints the kernels that take most
of a frame.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from kernels import BANDWIDTH, CONTEXT, GPU, graph_us
from torch.profiler import ProfilerActivity, profile

from rhapsode.bench.engine.subject import Subject, subject
from rhapsode.device.memory import SlotMemory
from rhapsode.device.slots import Rows, SlotRow
from rhapsode.models.base import StageContext
from rhapsode.models.lazy import import_name
from rhapsode.nn import kernels
from rhapsode.nn.kernels.gpu.launch import overlap
from rhapsode.types import Sampling

PAGE = 16


def make_worker(found: Subject, name: str | None = None) -> Any:
    """Makes the worker of a stage; without a name, of the talker."""
    stages = found.spec.pipeline
    stage = next(stage for stage in stages if (stage.kind == "frame" if name is None else stage.name == name))
    context = StageContext(
        found.spec, found.model.checkpoint, found.model.config, "cuda:0", "bfloat16", random_weights=True
    )
    return import_name(stage.factory)(context)


def prepare(talker: Any, batch: int) -> tuple[Rows, Any]:
    """Returns rows in the middle of their speech, with the talker's own sampling settings."""
    pages = -(-(CONTEXT + PAGE) // PAGE)
    memory = SlotMemory(
        batch, talker.kv(), talker.state(batch), GPU, torch.bfloat16, page_size=PAGE, positions_per_slot=pages * PAGE
    )
    settings = vars(Sampling().over(talker.defaults))
    memory.join([SlotRow(i, i, range(1 + i * pages, 1 + (i + 1) * pages), **settings) for i in range(batch)])
    memory.table.position.fill_(CONTEXT)
    memory.table.step.fill_(CONTEXT)
    return memory.rows(memory.slots(range(batch))), memory.state


def frames(talker: Any, batches: Sequence[int], most_kernels: int, duration_us: float) -> None:
    for batch in batches:
        rows, state = prepare(talker, batch)

        def step(i: int, rows: Rows = rows, state: Any = state) -> Any:
            return talker.step(rows, state)

        fused = graph_us(step, 1)
        with overlap(True):
            early = graph_us(step, 1)
        with kernels.use("off"):
            plain = graph_us(step, 1, 3)
        print(
            f"  batch {batch:4d}: {fused / 1e3:6.2f}, with overlap {early / 1e3:6.2f}, plain {plain / 1e3:6.2f};"
            f" RTF {fused / duration_us:.4f}, {batch * duration_us / fused:.0f} audio-s/s (talker alone)",
            flush=True,
        )
        if most_kernels:
            show_kernels(kernel_times(step), most_kernels)


def kernel_times(step: Any) -> dict[str, list[float]]:
    """Returns the microseconds of every kernel of one call in a graph, by the kernel's name."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(0)
    graph.replay()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        graph.replay()
        torch.cuda.synchronize()
    spent: dict[str, list[float]] = defaultdict(list)
    for event in profiler.events():
        spent[event.name].append(event.device_time)
    return spent


def show_kernels(spent: dict[str, list[float]], most: int, width: int = 60) -> None:
    """Prints the kernels that take most of the time: launches, and the sum of their times."""
    total = sum(len(times) for times in spent.values())
    print(f"      {total} launches, {sum(map(sum, spent.values())):.0f} us in all")
    for name, times in sorted(spent.items(), key=lambda one: -sum(one[1]))[:most]:
        print(f"      {sum(times):8.1f} us {len(times):5d} x {sum(times) / len(times):6.2f}  {name[:width]}")


@torch.inference_mode()
def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("shape", help="a shape's name or folder")
    arguments.add_argument("--batches", type=int, nargs="+", default=[1, 2, 8, 16, 32, 64, 128, 256])
    arguments.add_argument("--kernels", type=int, default=0, help="so many kernels of each batch size")
    given = arguments.parse_args()
    torch.manual_seed(0)
    with subject(None, given.shape) as found:
        talker = make_worker(found)
        weights = sum(p.numel() * p.element_size() for p in talker.net.parameters())
        floor = f"{weights / 1e9:.2f} GB of weights, {weights / BANDWIDTH * 1e3:.2f} ms to read once"
        print(f"\n{given.shape}: a frame in ms at {CONTEXT} positions; {floor}")
        frames(talker, given.batches, given.kernels, 1e6 / found.spec.frame_hz)


if __name__ == "__main__":
    main()

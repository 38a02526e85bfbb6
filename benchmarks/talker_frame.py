"""Measures one frame of a talker in a CUDA graph, with random weights: kernels, overlap, plain PyTorch.

    python benchmarks/talker_frame.py SHAPE [--batches 1 8 32] [--kernels 15] [--weights fp8]

SHAPE is a name that `rhapsode bench engine --random-weights` takes. `--kernels` also prints the kernels that take most
of a frame.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from kernels import BANDWIDTH, CONTEXT, GPU, graph_us
from torch.profiler import ProfilerActivity, profile

from rhapsode.bench.engine.subject import MeasuredModel, subject
from rhapsode.device.memory import SlotMemory
from rhapsode.device.slots import Rows, SlotRow
from rhapsode.models.base import StageContext
from rhapsode.models.lazy import import_name
from rhapsode.nn import kernels
from rhapsode.nn.kernels.gpu.launch import overlap
from rhapsode.sampling_table import WITHOUT_EFFECT

PAGE = 16


def make_worker(found: MeasuredModel, name: str | None = None, weights: str = "auto") -> Any:
    """Makes the worker of a stage; without a name, of the talker."""
    stages = found.spec.pipeline
    stage = next(stage for stage in stages if (stage.kind == "frame" if name is None else stage.name == name))
    given = (found.spec, found.model.checkpoint, found.model.config, "cuda:0", "bfloat16")
    context = StageContext(*given, weights=weights, random_weights=True)
    return import_name(stage.factory)(context)


def prepare(talker: Any, batch: int) -> tuple[Rows, Any]:
    """Returns rows in the middle of their speech, with the talker's own sampling settings."""
    pages = -(-(CONTEXT + PAGE) // PAGE)
    memory = SlotMemory(
        batch,
        talker.traits().kv,
        talker.state(batch),
        GPU,
        torch.bfloat16,
        page_size=PAGE,
        positions_per_slot=pages * PAGE,
    )
    sampling = talker.defaults.over(WITHOUT_EFFECT)
    own = [range(1 + i * pages, 1 + (i + 1) * pages) for i in range(batch)]
    memory.join([SlotRow(slot=i, seed=i, pages=own[i], sampling=sampling) for i in range(batch)])
    memory.table.position.fill_(CONTEXT)
    memory.table.step.fill_(CONTEXT)
    return memory.rows(memory.slots(range(batch))), memory.state


def anew(rows: Rows) -> Rows:
    """Returns the rows of another launch: what they read of the table is read again."""
    return Rows(rows.slots, rows.table, rows.kv, rows.state)


def frames(talker: Any, batches: Sequence[int], most_kernels: int, duration_us: float) -> None:
    for batch in batches:
        rows, state = prepare(talker, batch)

        def step(i: int, rows: Rows = rows, state: Any = state) -> Any:
            return talker.step(anew(rows), state)

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


Spent = dict[str, list[tuple[float, float]]]
"""By a kernel's name and grid, for each launch: microseconds from the end of the one before to its end, and its own."""


def kernel_times(step: Any) -> Spent:
    """Profiles one call in a graph. A kernel that starts early and waits takes long, but adds little to the frame."""
    step(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(0)
    graph.replay()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        graph.replay()
        torch.cuda.synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profiler.export_chrome_trace(file.name)
        events = json.loads(Path(file.name).read_text("utf-8"))["traceEvents"]
    return added_times([event for event in events if str(event.get("cat", "")).startswith(("kernel", "gpu_mem"))])


def added_times(events: list[dict[str, Any]]) -> Spent:
    """Groups the kernels of a trace."""
    spent: Spent = defaultdict(list)
    before: float | None = None
    for event in sorted(events, key=lambda one: one["ts"] + one["dur"]):
        end = event["ts"] + event["dur"]
        grid = "x".join(str(size) for size in event.get("args", {}).get("grid", []))
        added = event["dur"] if before is None else end - before
        spent[f"{grid} {event['name']}"].append((added, event["dur"]))
        before = end
    return spent


def show_kernels(spent: Spent, most: int, width: int = 60) -> None:
    """Prints the kernels that add most to a frame: launches, what each adds and takes, and the sum of what they add."""
    count = sum(map(len, spent.values()))
    total = sum(added for times in spent.values() for added, _ in times)
    print(f"      {count} launches, {total:.0f} us; sum, count, mean added, mean duration, programs and kernel")
    ranked = sorted(spent.items(), key=lambda one: -sum(added for added, _ in one[1]))
    for name, times in ranked[:most]:
        sums = [sum(column) for column in zip(*times, strict=True)]
        means = " ".join(f"{one / len(times):7.2f}" for one in sums)
        print(f"      {sums[0]:8.1f} us {len(times):5d} x {means}  {name[:width]}", flush=True)


@torch.inference_mode()
def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("shape", help="a shape's name or folder")
    arguments.add_argument("--batches", type=int, nargs="+", default=[1, 2, 8, 16, 32, 64, 128, 256])
    arguments.add_argument("--kernels", type=int, default=0, help="so many kernels of each batch size")
    arguments.add_argument("--weights", choices=("auto", "fp8"), default="auto")
    given = arguments.parse_args()
    torch.manual_seed(0)
    with subject(None, given.shape) as found:
        talker = make_worker(found, weights=given.weights)
        weights = sum(p.numel() * p.element_size() for p in talker.net.parameters())
        floor = f"{weights / 1e9:.2f} GB of weights, {weights / BANDWIDTH * 1e3:.2f} ms to read once"
        print(f"\n{given.shape}: a frame in ms at {CONTEXT} positions; {floor}")
        frames(talker, given.batches, given.kernels, 1e6 / found.spec.frame_hz)


if __name__ == "__main__":
    main()

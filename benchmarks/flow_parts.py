"""Measures the parts of a family with a flow in CUDA graphs, with random weights: where the time of its audio goes.

    python benchmarks/flow_parts.py cosyvoice3 [--batches 1 8 32 64] [--kernels 12]
    python benchmarks/flow_parts.py voxcpm2 [--batches 1 8 32 128]

Prints milliseconds of each part, by number of rows, and what they are spent on: kernels are grouped by their names.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from kernels import GPU, graph_us
from talker_frame import anew, kernel_times, make_worker, prepare, show_kernels

from rhapsode.bench.engine.subject import MeasuredModel, subject
from rhapsode.device.memory import SlotMemory
from rhapsode.device.reach import Window
from rhapsode.device.slots import SlotRow
from rhapsode.models.cosyvoice3.flow.net import FlowBlock
from rhapsode.nn.kernels.gpu.launch import overlap

CONTEXT_CHUNKS = 3
"""Chunks before the one that is measured: a chunk is a second, and a sentence a few seconds."""
GROUPS = {
    "float64": r"double|f64|dgemm|d884",
    "attention": r"_attend|_store_prompt|_paged|_local|_frame|flash|fmha",
    "convolutions": r"^_conv|_residual_unit|_grouped|conv|fprop|cudnn|xmma_fprop|implicit",
    "linears": r"gemm|nvjet|cutlass|gemv|splitK|^_rows|^_vector",
    "norms": r"norm",
    "snake": r"snake",
    "copies": r"copy|Cat|index|gather|scatter|[Mm]emcpy|_tails|transpose",
}
"""Kernels whose names match, the first group that fits; all others are small operators."""
Call = Callable[[int], Any]
Part = tuple[str, float, Call]
"""What it is, the seconds of audio it makes, and the call."""


def memory_of(worker: Any, rows: int, pages: int) -> SlotMemory:
    """Returns the memory of a streaming stage, with requests in all slots."""
    kv = worker.traits().kv if pages else ()
    size = worker.page_size if pages else 1
    memory = SlotMemory(
        rows, kv, worker.state(rows), GPU, torch.bfloat16, page_size=size, positions_per_slot=pages * size
    )
    memory.join([SlotRow(slot=i, seed=i, pages=range(1 + i * pages, 1 + (i + 1) * pages)) for i in range(rows)])
    return memory


def cosyvoice3(found: MeasuredModel, batches: Sequence[int]) -> Iterator[Part]:
    talker, flow, vocoder = (make_worker(found, name) for name in ("talk", "flow", "vocode"))
    for rows in batches:
        batch, state = prepare(talker, rows)
        yield f"talker, a token of {rows}", rows / 25, lambda i, b=batch, s=state: talker.step(anew(b), s)
    for rows in batches:
        memory = memory_of(flow, rows, CONTEXT_CHUNKS + 1)
        batch, width = memory.rows(memory.slots(range(rows))), flow.reach.context + flow.reach.granularity
        mel, channels = flow.page_size, flow.frame_shape[0]
        block = FlowBlock(
            torch.zeros(rows, width, dtype=torch.int64, device=GPU),
            torch.ones(rows, width, dtype=torch.bool, device=GPU),
            torch.zeros(rows, mel, channels, device=GPU),
            torch.zeros(rows, channels, device=GPU),
            torch.full((rows,), CONTEXT_CHUNKS * mel, device=GPU),
        )
        yield (
            f"flow, a chunk of {rows}",
            rows * mel / 50,
            lambda i, b=batch, given=block: flow._net.block(given, anew(b)),
        )
        del memory, batch, block
    for rows, due in ((rows, due) for due in (2, 32) for rows in batches):
        memory = memory_of(vocoder, rows, 0)
        length = due + vocoder.reach.lookahead
        frames = torch.randn(rows, length, *flow.frame_shape, device=GPU)
        window = Window(frames, due, vocoder.reach, torch.ones(rows, length, dtype=torch.bool, device=GPU))
        batch, state = memory.rows(memory.slots(range(rows))), memory.state
        call: Call = lambda i, w=window, b=batch, s=state: vocoder.decode(w, anew(b), s)  # noqa: E731
        yield f"vocoder, {due} mel frames of {rows}", rows * due / 50, call


def voxcpm2(found: MeasuredModel, batches: Sequence[int]) -> Iterator[Part]:
    talker, codec = (make_worker(found, name) for name in ("talk", "vocode"))
    for rows in batches:
        batch, state = prepare(talker, rows)
        patch, condition = state.patch[batch.slots], talker.net.condition(*talker.both_hidden(batch, state))
        schedule, scale = state.schedule[batch.slots], state.cfg_value[batch.slots]
        steps, noise, audio_s = talker.net.dit.schedules.max_steps, talker.noise(batch), 0.16 * rows

        def dit(i: int, given: Any = (noise, condition, patch, schedule, scale, steps)) -> Any:
            return talker.net.dit(*given)

        yield f"all, a patch of {rows}", audio_s, lambda i, b=batch, s=state: talker.step(anew(b), s)
        yield f"language models, a patch of {rows}", audio_s, lambda i, b=batch, s=state: talker.both_hidden(anew(b), s)
        yield f"LocDiT, a patch of {rows}", audio_s, dit
        yield f"LocEnc, a patch of {rows}", audio_s, lambda i, p=patch: talker.net.sounds(p)
    for rows in batches:
        memory = memory_of(codec, rows, 0)
        window = Window.of(torch.randn(rows, 1, *talker.frame_shape, device=GPU))
        batch, state = memory.rows(memory.slots(range(rows))), memory.state
        call: Call = lambda i, w=window, b=batch, s=state: codec.decode(w, b, s)  # noqa: E731
        yield f"VAE, a patch of {rows}", 0.16 * rows, call


def group_of(name: str) -> str:
    return next((group for group, pattern in GROUPS.items() if re.search(pattern, name)), "others")


def show(part: Part, most_kernels: int) -> None:
    name, audio_s, call = part
    took_us = graph_us(call, 1, 3)
    with overlap(True):
        early_us = graph_us(call, 1, 3)
    spent = kernel_times(call)
    groups: dict[str, float] = dict.fromkeys((*GROUPS, "others"), 0.0)
    for kernel, times in spent.items():
        groups[group_of(kernel)] += sum(added for added, _ in times)
    shares = ", ".join(f"{group} {us / 1e3:.2f}" for group, us in groups.items() if us)
    print(
        f"{name}: {took_us / 1e3:.2f} ms, {took_us / 1e3 / audio_s:.3f} ms per second of audio"
        f", {early_us / 1e3:.2f} with overlap; {shares}",
        flush=True,
    )
    if most_kernels:
        show_kernels(spent, most_kernels, 110)


FAMILIES = {"cosyvoice3": (cosyvoice3, [1, 8, 32, 64]), "voxcpm2": (voxcpm2, [1, 8, 32, 128])}


@torch.inference_mode()
def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("family", choices=FAMILIES)
    arguments.add_argument("--batches", type=int, nargs="+", help="rows of a launch")
    arguments.add_argument("--kernels", type=int, default=0, help="so many kernels of each part")
    arguments.add_argument("--only", default="", help="parts whose name contains this")
    given = arguments.parse_args()
    torch.manual_seed(0)
    started_s = time.monotonic()
    parts, batches = FAMILIES[given.family]
    with subject(None, given.family) as found:
        for part in parts(found, given.batches or batches):
            if given.only in part[0]:
                show(part, given.kernels)
    print(f"{time.monotonic() - started_s:.0f} s")


if __name__ == "__main__":
    main()

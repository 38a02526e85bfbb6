"""Measures one frame of the Qwen3-TTS talker in a CUDA graph, with random weights: kernels, overlap, plain PyTorch.

    python benchmarks/talker_frame.py FOLDER [--batches 1 8 32]

FOLDER is a checkpoint without weights, as `rhapsode bench shape` writes it. The floor is the bytes of weights that a
frame reads over 4.1 TB/s.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import torch
from kernels import BANDWIDTH, CONTEXT, GPU, graph_us

from rhapsode.device.kv import PagedKV
from rhapsode.device.slots import Rows, SlotTable
from rhapsode.models.base import StageContext
from rhapsode.models.qwen3_tts.talker import QwenTalker
from rhapsode.models.registry import find
from rhapsode.nn import kernels
from rhapsode.nn.kernels.gpu.launch import overlap


def frames(folder: str, batches: Sequence[int]) -> None:
    found = find(folder)
    context = StageContext(found.spec, found.checkpoint, found.config, "cuda:0", "bfloat16", random_weights=True)
    talker = QwenTalker(context)
    read = sum(
        p.numel() * p.element_size() for p in (*talker.net.model.layers.parameters(), talker.net.codec_head.weight)
    )
    depth = talker.net.code_predictor
    read += depth.books * sum(p.numel() * p.element_size() for p in depth.model.layers.parameters())
    read += depth.lm_head.weight.numel() * depth.lm_head.weight.element_size()
    print(
        f"\nwhole frame, ms, {CONTEXT} positions; it reads {read / 1e9:.2f} GB of weights:"
        f" floor {read / BANDWIDTH * 1e3:.2f} ms"
    )
    pages = -(-(CONTEXT + 16) // 16)
    for batch in batches:
        table = SlotTable(batch, pages, GPU)
        table.pages[:batch] = torch.arange(1, batch * pages + 1, device=GPU).view(batch, pages)
        table.position.fill_(CONTEXT)
        table.temperature.fill_(0.9)
        table.top_k.fill_(50)
        table.top_p.fill_(1.0)
        table.repetition_penalty.fill_(1.05)
        state = talker.state(batch)
        state.temperature.fill_(0.9)
        state.top_k.fill_(50)
        state.top_p.fill_(1.0)
        kv = tuple(PagedKV(layout, batch * pages, 16, torch.bfloat16, GPU) for layout in talker.kv())
        rows = Rows(torch.arange(batch, device=GPU), table, kv)

        def step(i: int, rows: Rows = rows, state: Any = state) -> Any:
            return talker.step(rows, state)

        fused = graph_us(step, 1)
        with overlap(True):
            early = graph_us(step, 1)
        with kernels.use("off"):
            plain = graph_us(step, 1, 3)
        print(
            f"  batch {batch:4d}: {fused / 1e3:6.2f}, with overlap {early / 1e3:6.2f}, plain {plain / 1e3:6.2f};"
            f" RTF {fused / 8e4:.4f}, {batch * 8e4 / fused:.0f} audio-s/s (talker alone)",
            flush=True,
        )


@torch.inference_mode()
def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", help="a checkpoint's folder; its weights are not read")
    arguments.add_argument("--batches", type=int, nargs="+", default=[1, 2, 8, 16, 32, 64, 128, 256])
    given = arguments.parse_args()
    torch.manual_seed(0)
    frames(given.folder, given.batches)


if __name__ == "__main__":
    main()

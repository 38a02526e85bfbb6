"""Compile the decoder's kernels for Hopper on a machine without a GPU, at the published shapes of four families.

    python tools/compile_kernels.py

Shows what the interpreter cannot: that the compiler takes them, the registers and shared memory of each, spills, and
which loads and tensor core instructions came out.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from rhapsode.nn.kernels.gpu import (
    activation,
    attention,
    branches,
    conv,
    depthwise,
    embedding,
    flow,
    linear,
    local,
    noise,
    norm,
    prompt,
    ring_attention,
    sampling,
    snake,
    split,
    to_samples,
)
from rhapsode.nn.kernels.heads import HeadNorm, ProjectedHeads
from rhapsode.nn.kernels.rotary import RotaryAngles
from rhapsode.nn.kernels.sampling import NoiseCounters, Repetition, Rules, Settings, TopP
from rhapsode.nn.kernels.snake import SnakeWeights
from rhapsode.nn.kernels.weight import Norm
from rhapsode.nn.quantised import Quantised

CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
made: list[tuple[str, Any, Any, dict]] = []


class Hopper:
    """A driver that knows what it would drive."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=0):
        return 0


def compile_only(run):
    def compiled(self, *arguments, grid, warmup, **options):
        kernel = run(self, *arguments, grid=grid, warmup=True, **options)
        if all(kernel is not known for _, known, _, _ in made):
            made.append((self.fn.__name__, kernel, grid, options))
        return kernel

    return compiled


def launch_all(dtype: torch.dtype) -> None:
    def some(*shape: int) -> torch.Tensor:
        return torch.empty(*shape, dtype=dtype)

    def ints(*shape: int) -> torch.Tensor:
        return torch.zeros(*shape, dtype=torch.int64)

    def flags(*shape: int) -> torch.Tensor:
        return torch.zeros(*shape, dtype=torch.bool)

    for n, k, normed, gated, added in (
        (4096, 2048, True, False, False),
        (2048, 2048, False, False, True),
        (12288, 2048, True, True, False),
        (2048, 6144, False, False, True),
        (4096, 1024, True, False, False),
        (1024, 2048, False, False, True),
        (6144, 1024, True, True, False),
        (1024, 3072, False, False, True),
        (2048, 1024, True, False, False),
    ):
        for rows, weight in (
            (1, some(n, k)),
            (8, some(n, k)),
            (1, Quantised(some(n, k)).packed),
            (4, Quantised(some(n, k)).packed),
        ):
            norm_of = Norm(some(k), 1e-6) if normed else None
            _product(some(rows, k), weight, norm=norm_of, gated=gated, residual=some(rows, n) if added else None)
    norm.rms_norm(some(32, 2048), some(2048), 1e-6)
    activation.silu_mul(some(32, 12288))
    own = HeadNorm(some(128), some(128), 1e-6)
    for batch in (1, 64):
        rotary = RotaryAngles(some(batch, 1, 1, 128), some(batch, 1, 1, 128))
        heads = ProjectedHeads(some(batch, 1, 4096), 16, 8, 128, own, rotary)
        pages = some(100, 16, 8, 128)
        attention.paged(heads, pages, pages, ints(batch), ints(9, 16), ints(batch))
    for batch, length in ((1, 32), (32, 64)):
        rotary = RotaryAngles(some(batch, length, 1, 128), some(batch, length, 1, 128))
        many = ProjectedHeads(some(batch, length, 4096), 16, 8, 128, own, rotary)
        where, real = ints(batch, length), flags(batch, length)
        prompt.prompt(many, pages, pages, ints(batch), ints(9, 16), where, real)
    batch = 64
    attention.frame(heads, some(batch, 8, 16, 128), some(batch, 8, 16, 128), 3)
    counters, floats = NoiseCounters(ints(4), ints(4), 3), torch.zeros(4)
    settings = Settings(floats, ints(4), floats)
    sampling.draw(some(4, 2048), settings, counters, None, None)
    rules = Rules(flags(9, 3072), ints(4), floats, flags(3072), flags(3072), ints(4), 2)
    sampling.draw(some(4, 3072), settings, counters, rules, None)
    launch_second_draws(some(4, 4097), Settings(floats, ints(4), floats, TopP.BELOW), counters, ints)
    embedding.frame_sum(ints(4, 16), some(3072, 2048), some(15, 2048, 2048))
    launch_diffusion(some, ints)
    launch_voxtral(some, ints)
    launch_cosyvoice(some, ints, flags)
    launch_higgs(some, ints)


def launch_second_draws(logits, settings, counters, ints) -> None:
    """Fish S2-Pro: draws by rank, and again where a row repeats itself."""
    again = Repetition(ints(9, 10), ints(4), ints(4), settings, counters)
    sampling.draw(logits, settings, counters, None, again)
    sampling.draw(logits[:, :4096], settings, counters, None, None)
    out, ring = torch.zeros(1, 1, 1024), torch.zeros(9, 128, 8, 2, 16, 64)
    ring_attention.ring_attention(torch.zeros(1, 1, 3072), out, ring, ints(9), ints(1), torch.zeros(32), 0, True)
    to_samples.to_samples(torch.zeros(1, 2054, 96), torch.zeros(7, 96), torch.zeros(1), torch.zeros(1, 2048), True)


def launch_diffusion(some, ints) -> None:
    """VoxCPM2: the 5 tokens of its local encoder, the 22 of its diffusion head (11 of each half), its VAE."""
    for n, k, normed, gated, added in (
        (2560, 1024, True, False, False),
        (1024, 2048, False, False, True),
        (8192, 1024, True, True, False),
        (1024, 4096, False, False, True),
    ):
        norm_of = Norm(some(k), 1e-5) if normed else None
        _product(some(5, k), some(n, k), norm=norm_of, gated=gated, residual=some(5, n) if added else None)
    for k in (2048, 4096):
        split.add_and_norm(some(22, 1024), split.split_product(some(22, k), some(1024, k), 512), Norm(some(1024), 1e-5))
    rotary = RotaryAngles(some(1, 11, 1, 128), some(1, 11, 1, 128))
    local.local(ProjectedHeads(some(2, 11, 2560), 16, 2, 128, None, rotary))
    wide = torch.zeros(1, 4, 64)
    flow.euler(wide, some(2, 4, 64), torch.zeros(1), torch.zeros(1), fit=True)
    noise.normal(ints(1), ints(1), 0, 256)
    for batch, length, channels in ((1, 7680, 32), (128, 192, 512)):  # of the VAE
        wave, one = SnakeWeights(torch.zeros(channels), torch.zeros(channels)), torch.zeros(channels)
        inputs = torch.zeros(batch, 54 + length, channels, dtype=torch.float16)
        middle, wide = torch.empty_like(inputs[:, 54:]).contiguous(), torch.zeros(batch, length, channels)
        depthwise.depthwise(inputs, torch.zeros(7, channels), one, middle, 9, wave)
        matrix = torch.zeros(channels, channels, dtype=torch.float16)
        after = {"act": inputs[:, 54:], "snake": wave, "affine": conv.Affine(one, one)}
        conv.conv(middle, conv.ConvWeights(matrix, one), residual=wide, out=wide, **after)
    snake.snake_beta(torch.zeros(1, 32, 7680), torch.zeros(32, 1), torch.zeros(32, 1))


def _product(x, weight, norm, gated, residual) -> None:
    """A product as the models launch it; those that have no plan are left to PyTorch."""
    plan = linear.plan_of(x, weight, None, norm, gated, None)
    if plan is not None:
        linear.small_batch_linear(x, weight, plan=plan, norm=norm, gated=gated, residual=residual)


def launch_voxtral(some, ints) -> None:
    """Voxtral-TTS's flow head: three tokens of each half, a plain step, and the embedding of a frame."""
    for n, k, normed, gated, added in (
        (6144, 3072, True, False, False),
        (3072, 4096, False, False, True),
        (18432, 3072, True, True, False),
        (3072, 9216, False, False, True),
    ):
        norm_of = Norm(some(k), 1e-5) if normed else None
        _product(some(6, k), some(n, k), norm=norm_of, gated=gated, residual=some(6, n) if added else None)
    local.local(ProjectedHeads(some(2, 3, 6144), 32, 8, 128))
    flow.euler(torch.zeros(1, 1, 36), some(2, 1, 36), torch.zeros(1), torch.zeros(1), fit=False)
    embedding.frame_sum(ints(4, 37), some(8194, 3072), some(36, 23, 3072))


def launch_cosyvoice(some, ints, flags) -> None:
    """CosyVoice3's flow: a chunk of one request and of 64, both halves; its position convolutions."""
    for rows in (2, 128):
        angles = RotaryAngles(some(rows, 50, 1, 64), some(rows, 50, 1, 64))
        heads = ProjectedHeads(some(rows, 50, 3072), 16, 16, 64, rotary=angles, rotated=1)
        pages, where = some(4, 50, 16, 64), ints(rows, 50)
        prompt.prompt(heads, pages, pages, ints(rows), ints(9, 64), where, flags(rows, 50), where)
        weights = conv.ConvWeights(some(1024, 31 * 64), some(1024), 31, groups=16)
        conv.conv(some(rows, 80, 1024), weights, function="mish", out=some(rows, 50, 1024))
    for batch, length, channels in ((1, 242, 64), (16, 1282, 128)):  # of the vocoder
        wave, wide = SnakeWeights(torch.zeros(channels), torch.zeros(channels)), torch.zeros(batch, length, channels)
        inputs = torch.zeros(batch, 50 + length, channels, dtype=torch.float16)
        matrix = torch.zeros(channels, 11 * channels, dtype=torch.float16)
        weights = conv.ConvWeights(matrix, torch.zeros(channels), 11, 5)
        conv.conv(inputs, weights, residual=wide, out=wide, act=inputs[:, 50:], snake=wave)
        branches.snaked_sum(wide, wave, inputs[:, 50:], wide, wide)
        branches.snaked_sum(wide, wave, inputs[:, 50:])
        branches.upsampled_mean([wide] * 3, inputs[:, 50:], 3, 0.1)


def launch_higgs(some, ints) -> None:
    """Higgs: eight codebooks drawn at once, and again where a row repeats itself; the embedding of a row."""
    counters, floats = NoiseCounters(ints(1), ints(1), 0, 8), torch.zeros(1)
    settings = Settings(floats, ints(1), floats)
    again = Repetition(ints(9 * 8, 32), ints(1), ints(1), settings, counters, raw=True)
    sampling.draw(some(8, 1026), settings, counters, None, None)
    sampling.draw(some(8, 1026), settings, counters, None, again)
    embedding.frame_sum(ints(1, 8), some(1026, 2560), some(7, 1026, 2560))
    rotary, pages = RotaryAngles(some(1, 1, 1, 128), some(1, 1, 1, 128)), some(100, 16, 8, 128)
    heads = ProjectedHeads(some(1, 1, 5120), 24, 8, 128, None, rotary)  # three query heads per KV head
    attention.paged(heads, pages, pages, ints(1), ints(9, 16), ints(1))


def report() -> None:
    for name, kernel, grid, options in made:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(kernel.asm["cubin"])
            file.flush()
            dumps = [
                subprocess.run([CUOBJDUMP, flag, file.name], capture_output=True, text=True, check=True).stdout
                for flag in ("--dump-resource-usage", "--dump-sass")
            ]
        usage = re.search(r"REG:(\d+) STACK:(\d+)", dumps[0])
        counts = {
            what: len(re.findall(what, dumps[1]))
            for what in ("LDG.E.*128", "LDGSTS", "HMMA", "HGMMA", "BAR.SYNC", "LDL")
        }
        fused = [what.lower() for what in ("NORM", "GATED", "RESIDUAL", "SCALED") if options.get(what)]
        print(
            f"{name:11s} grid {grid!s:10s} warps {kernel.metadata.num_warps} registers {usage[1]:>3s} stack {usage[2]}"
            f" shared {kernel.metadata.shared:6d} {counts} {options.get('K', '')} {' '.join(fused)}"
        )


if __name__ == "__main__":
    driver.set_active(Hopper())
    JITFunction.run = compile_only(JITFunction.run)
    launch_all(torch.bfloat16)
    report()

"""The flow, built and filled with the tensors of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rhapsode.checkpoints.rotary_halves import RotaryHalves, RotaryRows
from rhapsode.checkpoints.weights import Tensors
from rhapsode.models.base import StageContext
from rhapsode.models.cosyvoice3.flow.conditions import FlowConditions
from rhapsode.models.cosyvoice3.flow.names import DIT_IGNORE, DIT_NAMES, NORM_IGNORE, NORM_NAMES
from rhapsode.models.cosyvoice3.flow.net import FlowNet, fixed_noise
from rhapsode.models.cosyvoice3.flow.settings import MOST_PROMPT_S, TIMESTEPS, FlowSettings
from rhapsode.models.cosyvoice3.flow.whole import WholeFlow
from rhapsode.models.cosyvoice3.flow.worker import CosyFlow
from rhapsode.models.parts import fill
from rhapsode.nn.dit.modulation import DiTModulation
from rhapsode.nn.dit.net import DiT
from rhapsode.nn.flow import cosine_times, euler_steps

PREFIX = "decoder.estimator."


def flow_worker(net: FlowNet, context_s: float, *, masked: bool) -> CosyFlow | WholeFlow:
    """Returns the worker of the flow stage, for segments of at most `context_s` seconds after the longest reference.

    With `masked`, it streams under the chunk mask. Otherwise each segment is one pass without a mask.
    """
    tokens, prompt = (net.settings.tokens_in(seconds) for seconds in (context_s, MOST_PROMPT_S))
    if masked:
        chunks = -(-(tokens + prompt) // net.settings.chunk_tokens)
        return CosyFlow(net, chunks * net.settings.dit.static_chunk_size)
    return WholeFlow(net, tokens, prompt)


def flow_net(
    settings: FlowSettings, context: StageContext, tensors: Callable[[], Tensors], noise: Tensor | None = None
) -> FlowNet:
    """Returns the flow on its device: the transformer in the context's dtype, the small layers in full precision.

    `noise [frames, mel]` replaces the fixed noise.
    """
    config, dtype = settings.transformer, getattr(torch, context.dtype)
    full = torch.promote_types(dtype, torch.float32)
    first_head = RotaryRows(settings.dit.dim_head, settings.dit.dim_head)
    pairs = {f"{PREFIX}transformer_blocks.*.attn.to_{one}.*": first_head for one in "qk"}
    read: list[Tensors] = []  # the file is read once

    def source() -> Tensors:
        if not read:
            read.append(RotaryHalves(tensors(), pairs))
        return read[0]

    small = fill(lambda: FlowConditions(settings), context, source, ignore=(f"{PREFIX}*",), dtype=full)
    norms = fill(
        lambda: DiTModulation(config), context, source, prefix=PREFIX, ignore=NORM_IGNORE, names=NORM_NAMES, dtype=full
    )
    transformer = fill(
        lambda: DiT(config), context, source, prefix=PREFIX, ignore=DIT_IGNORE, names=DIT_NAMES, dtype=dtype
    )
    with torch.inference_mode():
        times = [step.time for step in euler_steps(cosine_times(TIMESTEPS, torch.float32))]
        transformer.set_tables(norms.tables(torch.tensor(times, device=context.device)))
    given = fixed_noise(settings.output_size) if noise is None else noise
    return FlowNet(settings, small, transformer, given.to(context.device, full)).eval()

"""The talker's network: embeddings, text backbone, semantic head and flow head, with the checkpoint's structure."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rhapsode.device.sections import section
from rhapsode.models.voxtral_tts.config import OFFSET, CodesConfig, VoxtralConfig, padded
from rhapsode.nn.decoder import DecoderStack
from rhapsode.nn.flow import Schedules, euler_steps, even_times, sinusoids, solve
from rhapsode.nn.flow_head import KnownTokens, token_velocity
from rhapsode.nn.kernels.embedding import frame_sum
from rhapsode.nn.linear import linear
from rhapsode.nn.local import LocalStack

TOKENS = 3
"""Tokens of the flow head: condition, time, and the numbers to integrate. It has no positions: order has no effect."""


class CodeEmbeddings(nn.Module):
    """The rows of all codebooks, one after the other, in one table."""

    def __init__(self, codes: CodesConfig, dim: int) -> None:
        super().__init__()
        self._codes = codes
        rows = codes.semantic_rows + codes.n_acoustic_codebook * codes.acoustic_rows
        self.embeddings = nn.Embedding(padded(rows), dim)

    def forward(self, frames: Tensor) -> Tensor:
        """Sums the rows of `frames [B, books]`: [B, dim]."""
        codes, table = self._codes, self.embeddings.weight
        semantic, others = table.split((codes.semantic_rows, len(table) - codes.semantic_rows))
        others = others[: codes.n_acoustic_codebook * codes.acoustic_rows]
        return frame_sum(frames, semantic, others.unflatten(0, (codes.n_acoustic_codebook, codes.acoustic_rows)))


class InputEmbeddings(nn.Module):
    def __init__(self, config: VoxtralConfig) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(config.backbone.vocab_size, config.backbone.dim)
        self.audio_codebook_embeddings = CodeEmbeddings(config.codes, config.backbone.dim)


class VoxtralFlowHead(LocalStack):
    """Integrates the acoustic numbers of a frame from noise, and holds the semantic head.

    The times of all steps are known, so their tokens are computed once.
    """

    time_tokens: Tensor  # [steps, dim]
    changes: Tensor  # [steps]

    def __init__(self, config: VoxtralConfig) -> None:
        flow, codes = config.flow, config.codes
        super().__init__(flow.layers(rope_theta=None), TOKENS)
        self._levels = codes.acoustic_codebook_size - 1
        self._schedule = Schedules([euler_steps(even_times(flow.n_decoding_steps, torch.float32))])
        self.semantic_codebook_output = nn.Linear(flow.dim, padded(codes.semantic_rows), bias=False)
        self.acoustic_codebook_output = nn.Linear(flow.dim, codes.n_acoustic_codebook, bias=False)
        self.input_projection = nn.Linear(codes.n_acoustic_codebook, flow.dim, bias=False)
        self.time_projection = nn.Linear(flow.dim, flow.dim, bias=False)
        self.llm_projection = nn.Linear(flow.dim, flow.dim, bias=False)
        self.register_buffer("time_tokens", None, persistent=False)
        self.register_buffer("changes", None, persistent=False)

    def derive(self) -> None:
        super().derive()
        weight = self.time_projection.weight
        wide, width = torch.promote_types(weight.dtype, torch.float32), weight.shape[1]
        times, changes = (table[0].to(weight.device, wide) for table in (self._schedule.times, self._schedule.changes))
        sines, cosines = sinusoids(times, width, last_rank=width // 2)
        self.time_tokens = self.time_projection(torch.cat((cosines, sines), dim=-1).to(weight.dtype))
        self.changes = changes

    def integrate(self, noise: Tensor, hidden: Tensor, scale: Tensor) -> Tensor:
        """Returns the acoustic numbers `[B, books]` that `noise [B, books]` leads to, given `hidden [B, dim]`."""
        batch = len(noise)
        known = KnownTokens(linear(hidden, self.llm_projection)[:, None], self.time_tokens.expand(batch, -1, -1))
        velocity = token_velocity(self, self.input_projection, self.acoustic_codebook_output, known, trim=True)
        return solve(noise[:, None], self.changes.expand(batch, -1), scale, velocity, "plain")[:, 0]

    @section("depth")
    def codes(self, noise: Tensor, hidden: Tensor, scale: Tensor) -> Tensor:
        """Returns the acoustic numbers that `integrate` gives, as codes, [B, books]."""
        values = self.integrate(noise, hidden, scale).clamp(-1, 1)
        return ((values + 1) / 2 * self._levels).round().to(torch.int64) + OFFSET


class VoxtralTalkerNet(DecoderStack):
    """The text backbone, whose layers are at the top of the checkpoint, the input embeddings and the flow head."""

    def __init__(self, config: VoxtralConfig) -> None:
        super().__init__(config.backbone.layers(config.backbone.rope_theta))
        self.mm_audio_embeddings = InputEmbeddings(config)
        self.acoustic_transformer = VoxtralFlowHead(config)

    def text(self, ids: Tensor) -> Tensor:
        return self.mm_audio_embeddings.tok_embeddings(ids)

    def frame(self, codes: Tensor) -> Tensor:
        """Embeds frames `codes [B, books]`: [B, dim]."""
        return self.mm_audio_embeddings.audio_codebook_embeddings(codes)

    def semantic_logits(self, hidden: Tensor) -> Tensor:
        """Returns logits `[B, padded codes]` of `hidden [B, dim]`, in float32 or float64."""
        logits = linear(hidden, self.acoustic_transformer.semantic_codebook_output)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

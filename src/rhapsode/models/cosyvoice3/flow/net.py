"""The flow as one network: conditions, transformer, guided Euler steps from fixed noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rhapsode.device.slots import Rows
from rhapsode.models.cosyvoice3.flow.conditions import FlowConditions, repeated
from rhapsode.models.cosyvoice3.flow.settings import MAX_FRAMES, TIMESTEPS, FlowSettings
from rhapsode.nn.dit.history import DiTHistory, OnePassHistory, PagedHistory
from rhapsode.nn.dit.net import DiT
from rhapsode.nn.flow import cosine_times, euler_steps, solve
from rhapsode.nn.pre_lookahead import LOOKBEHIND


@dataclass(frozen=True)
class FlowBlock:
    """One chunk of each row with its context."""

    tokens: Tensor  # [B, behind + n + ahead]
    known: Tensor  # [B, behind + n + ahead] bool: the others are before the start or after the end
    mel: Tensor  # [B, n * rate, mel]: of the prompt; zeros where there is none
    speaker: Tensor  # [B, mel], as `FlowConditions.speaker` returns it
    start: Tensor  # [B], the position of the first frame


def fixed_noise(channels: int) -> Tensor:
    """Returns the noise that every request starts from, by position, `[MAX_FRAMES, channels]`: upstream's buffer."""
    generator = torch.Generator("cpu").manual_seed(0)
    return torch.randn(1, channels, MAX_FRAMES, generator=generator, device="cpu")[0].T.contiguous()


class FlowNet(nn.Module):
    """Makes mel frames from tokens: chunk by chunk with the history in pages, or in one pass.

    With the chunk mask, both give the same frames.
    """

    noise: Tensor  # [frames, mel]
    changes: Tensor  # [steps]
    guidance: Tensor
    conditions: FlowConditions
    dit: DiT

    def __init__(self, settings: FlowSettings, conditions: FlowConditions, dit: DiT, noise: Tensor) -> None:
        super().__init__()
        self.settings = settings
        self.conditions = conditions
        self.dit = dit
        self.register_buffer("noise", noise, persistent=False)
        changes = [step.change for step in euler_steps(cosine_times(TIMESTEPS, torch.float32))]
        self.register_buffer("changes", torch.tensor(changes, dtype=noise.dtype, device=noise.device))
        self.register_buffer("guidance", torch.full_like(self.changes[0], 1 + settings.inference_cfg_rate))

    def block(self, block: FlowBlock, rows: Rows) -> Tensor:
        """Returns the mel frames of one chunk per row, `[B, n * rate, mel]`; their history is in the rows' pages."""
        ahead = self.settings.pre_lookahead_len
        here = block.known[:, LOOKBEHIND : block.known.shape[1] - ahead]
        valid = repeated(here, self.settings.token_mel_ratio)
        return self._solve(block, PagedHistory(rows, block.start, valid, self.settings.transformer))

    def one_pass(self, block: FlowBlock, *, masked: bool) -> Tensor:
        """Returns the mel frames of whole sequences, without history; unless `masked`, all frames attend to all."""
        rate, ahead = self.settings.token_mel_ratio, self.settings.pre_lookahead_len
        lengths = block.known[:, LOOKBEHIND : block.known.shape[1] - ahead].sum(1) * rate
        chunk = self.settings.dit.static_chunk_size if masked else None
        return self._solve(block, OnePassHistory(lengths, block.mel.shape[1], chunk))

    def _solve(self, block: FlowBlock, history: DiTHistory) -> Tensor:
        mu = self.conditions.tokens(block.tokens, block.known)
        speaker = block.speaker.to(mu.dtype)[:, None].expand_as(mu)
        fixed = self.dit.input_embed.conditions(torch.cat((block.mel.to(mu.dtype), mu, speaker), dim=-1))
        where = block.start[:, None] + torch.arange(mu.shape[1], device=mu.device)
        noise = self.noise[where.clamp(max=len(self.noise) - 1)]
        rotary = self.dit.angles(history.positions)

        def velocity(frames: Tensor, step: int) -> Tensor:
            return self.dit(frames.view_as(noise), fixed, step, rotary, history).flatten(0, 1)

        frames = noise.flatten(0, 1)  # each is a row of its own
        changes, guidance = self.changes.expand(len(frames), -1), self.guidance.expand(len(frames))
        return solve(frames, changes, guidance, velocity, "plain").view_as(noise)

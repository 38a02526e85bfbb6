"""The flow as one network: conditions, estimator, Euler steps from noise; a batch of whole sequences at a time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rhapsode.models.chatterbox.flow.conformer import S3FlowConditions
from rhapsode.models.chatterbox.flow.estimator import Estimator
from rhapsode.models.chatterbox.flow.sizes import RATE, S3FlowSizes
from rhapsode.models.chatterbox.flow.times import EstimatorTimes
from rhapsode.nn.flow import Velocity, cosine_times, euler_steps, even_times, solve
from rhapsode.nn.philox import normal
from rhapsode.nn.ragged import Ragged

GUIDANCE = 1.7
"""The weight of the conditional velocity; that of the unconditional one is 1 less, with the opposite sign."""
NOISE_BOOK = 2
"""The stream of random numbers of the flow; the draws of tokens and the vocoder have others."""


@dataclass(frozen=True)
class FlowSequences:
    """Sequences of prompt and speech, padded to the longest one."""

    tokens: Tensor  # [B, T]
    ragged: Ragged
    """How many tokens each sequence has."""
    mel: Tensor  # [B, T * RATE, mel]: of the prompt; zeros where there is none
    speaker: Tensor  # [B, mel], as `S3FlowConditions.speaker` returns it
    noise: Tensor  # [B, T * RATE, mel]
    unsolved: Tensor | None = None  # [B]: how many tokens at the end are only context of the others' conditions


def noise_of(seeds: Tensor, frames: int, like: Tensor) -> Tensor:
    """Returns the noise of each row's frames, `[B, frames, mel]`, `like [..., mel]`: it depends on the seed and the
    position of a frame."""
    positions = torch.arange(frames, device=seeds.device).repeat(len(seeds))
    drawn = normal(seeds.repeat_interleave(frames), positions, NOISE_BOOK, like.shape[-1])
    return drawn.view(len(seeds), frames, -1).to(like.dtype)


class S3FlowNet(nn.Module):
    """Makes mel frames from tokens. Every frame depends on the whole sequence."""

    changes: Tensor  # [steps]
    scale: Tensor
    times: Tensor  # [steps, blocks, channels]
    conditions: S3FlowConditions
    estimator: Estimator

    def __init__(
        self,
        sizes: S3FlowSizes,
        conditions: S3FlowConditions,
        estimator: Estimator,
        embedding: EstimatorTimes,
        steps: int,
    ) -> None:
        super().__init__()
        self.sizes, self.conditions, self.estimator = sizes, conditions, estimator
        self.guided = not sizes.estimator.meanflow
        grid = (cosine_times if self.guided else even_times)(steps, torch.float32)
        planned = euler_steps(grid)
        like = conditions.encoder_proj.weight
        starts = torch.tensor([step.time for step in planned], dtype=like.dtype, device=like.device)
        changes = torch.tensor([step.change for step in planned], dtype=like.dtype, device=like.device)
        self.register_buffer("changes", changes)
        self.register_buffer("scale", torch.full_like(changes[0], GUIDANCE))
        with torch.inference_mode():
            self.register_buffer("times", embedding.table(starts, grid[1:].to(starts)))

    @property
    def like(self) -> Tensor:
        """A tensor of the type and on the device of the frames, with `mel` as its last size."""
        return self.conditions.spk_embed_affine_layer.bias

    def forward(self, given: FlowSequences) -> Tensor:
        """Returns the mel frames of the sequences, `[B, T * RATE, mel]`; those beyond the end mean nothing."""
        mu = self.conditions.tokens(given.tokens, given.ragged)
        solved = given.ragged
        if given.unsolved is not None:
            solved = Ragged.of(solved.lengths - given.unsolved, solved.size)
        solved = solved.scaled(RATE)
        speaker = given.speaker[:, None].expand_as(mu)
        conditions = torch.cat((mu, speaker, given.mel.to(mu.dtype)), dim=2)
        visible = None if solved.mask is None else solved.mask[:, None, None]
        if self.guided:
            conditions = torch.cat((conditions, torch.zeros_like(conditions)))
            visible = None if visible is None else visible.repeat(2, 1, 1, 1)
        noise = given.noise.to(mu.dtype)

        def velocity(frames: Tensor, step: int) -> Tensor:
            x = frames.view_as(noise)
            x = torch.cat((x.repeat(2, 1, 1) if self.guided else x, conditions), dim=2)
            return self.estimator(x, self.times[step], visible).flatten(0, 1)

        return self._solve(noise.flatten(0, 1), velocity).view_as(noise)

    def _solve(self, frames: Tensor, velocity: Velocity) -> Tensor:
        """Integrates `frames [N, mel]`, each a row of its own."""
        if self.guided:
            changes, scale = self.changes.expand(len(frames), -1), self.scale.expand(len(frames))
            return solve(frames, changes, scale, velocity, "plain")
        for step, change in enumerate(self.changes):
            frames = frames + change * velocity(frames, step)
        return frames

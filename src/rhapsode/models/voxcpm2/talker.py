"""The talker: one latent patch of 160 ms per step, the diffusion loop included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rhapsode.device.buckets import batch_sizes
from rhapsode.device.packed import Input
from rhapsode.device.prompts import Spans
from rhapsode.device.replay import Replay
from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.models.base import StageContext, Step
from rhapsode.models.prompted_stack import PromptedStack
from rhapsode.models.voxcpm2 import parts
from rhapsode.models.voxcpm2.config import VoxConfig, read
from rhapsode.models.voxcpm2.prompt import ID, VoxPrompt
from rhapsode.nn.flow import initial_noise
from rhapsode.types import Sampling

MOST_PATCHES = 64
"""The most patches of prompts that are encoded at once."""


class VoxState(State):
    """The talker's state per slot, in addition to keys and values."""

    def __init__(self, slots: int, config: VoxConfig, dtype: torch.dtype, device: torch.device) -> None:
        wide = torch.promote_types(dtype, torch.float32)
        self.next = buffer(slots, config.lm.hidden_size, dtype=dtype, device=device)  # the next step's input
        self.sounding = buffer(slots, dtype=torch.bool, device=device)  # whether that input is a patch, not a token
        self.patch = buffer(slots, *config.patch_shape, dtype=wide, device=device)  # the last one
        self.cfg_value = buffer(slots, device=device)
        self.schedule = buffer(slots, dtype=torch.int64, device=device)  # Euler steps less one
        self.min_len = buffer(slots, dtype=torch.int64, device=device)


class VoxTalker(PromptedStack[VoxConfig, VoxPrompt, VoxState]):
    state_type = VoxState
    defaults = Sampling(temperature=1.0, top_k=0, top_p=1.0, repetition_penalty=1.0)
    """Only the temperature has an effect: it scales the noise that a patch starts from."""

    def __init__(self, context: StageContext) -> None:
        config = read(context.config)
        self.net = parts.talker(config, context)
        blank = np.zeros(1 + int(np.prod(config.patch_shape)), np.float32)
        super().__init__(config, context, [self.net.base_lm, self.net.residual_lm], self._embed, blank)
        self.frame_shape = config.patch_shape
        self.frame_dtype = torch.promote_types(self._dtype, torch.float32)
        self._encode_patches = Replay(lambda patches: self.net.sounds(patches))

    # --- the prompt ---

    def inputs(self, prompts: Sequence[VoxPrompt], spans: Spans, shape: tuple[int, int]) -> tuple[Input, ...]:
        (content,) = super().inputs(prompts, spans, shape)
        assert isinstance(content, np.ndarray)
        return content[..., ID].astype(np.int64), self._sounds(content)

    def _sounds(self, content: NDArray[np.float32]) -> Tensor:
        """Embeds the patches of a prompt for the language models, [B, T, hidden]; positions of tokens are zero."""
        sounds = torch.zeros(*content.shape[:2], self._config.lm.hidden_size, dtype=self._dtype, device=self._device)
        where = np.nonzero(content[..., ID] < 0)
        if len(where[0]):
            patches = content[where][:, 1:].reshape(-1, *self.frame_shape)
            for start in range(0, len(patches), MOST_PATCHES):
                some = slice(start, start + MOST_PATCHES)
                at = self._upload(where[0][some]), self._upload(where[1][some])
                sounds[at] = self._encode(patches[some])
        return sounds

    def _encode(self, patches: NDArray[np.float32]) -> Tensor:
        """Embeds at most `MOST_PATCHES` patches; on a GPU, the batch is padded to a captured size."""
        count = len(patches)
        if self._device.type == "cuda":
            size = next(n for n in batch_sizes(MOST_PATCHES) if n >= count)
            patches = np.concatenate([patches, np.zeros((size - count, *self.frame_shape), np.float32)])
        encoded = self._encode_patches(self._upload(patches))
        assert encoded is not None
        return encoded[:count]

    def run_prompts(self, rows: Rows, where: Tensor, valid: Tensor, *inputs: Tensor) -> None:
        ids, sounds = inputs
        self.net.hidden(self._embed(ids, sounds), ids < 0, rows, where, valid)

    def _embed(self, ids: Tensor, sounds: Tensor) -> Tensor:
        tokens = self.net.base_lm.embed_tokens(ids.clamp(min=0))
        return torch.where((ids < 0)[..., None], sounds, tokens)

    def capture(self, rows: Rows, most_positions: int) -> None:
        super().capture(rows, most_positions)
        for size in reversed(batch_sizes(MOST_PATCHES)):
            self._encode_patches.capture(torch.zeros(size, *self.frame_shape, device=self._device))

    def blank_inputs(self, batch: int, length: int) -> tuple[Input, ...]:
        ids, hidden = np.zeros((batch, length), np.int64), self._config.lm.hidden_size
        return ids, torch.zeros(batch, length, hidden, dtype=self._dtype, device=self._device)

    def ready(self, prompts: Sequence[VoxPrompt], rows: Rows, state: VoxState) -> None:
        slots = rows.slots
        last = np.stack([prompt.last for prompt in prompts])[:, None]  # [B, 1, 1 + patch * feat]
        ids = self._upload(last[..., ID].astype(np.int64))
        state.next[slots] = self._embed(ids, self._sounds(last))[:, 0]
        state.sounding[slots] = ids[:, 0] < 0
        patches = self._upload(last[:, 0, 1:].reshape(-1, *self.frame_shape))
        state.patch[slots] = patches.to(state.patch.dtype)
        state.cfg_value[slots] = self._upload(np.array([prompt.cfg_value for prompt in prompts], np.float32))
        state.schedule[slots] = self._upload(np.array([prompt.timesteps - 1 for prompt in prompts], np.int64))
        state.min_len[slots] = self._upload(np.array([prompt.min_len for prompt in prompts], np.int64))

    # --- the step ---

    def step(self, rows: Rows, state: VoxState) -> Step:
        slots = rows.slots
        base, residual = self.both_hidden(rows, state)
        stop = self.net.stop(base)
        schedule = state.schedule[slots]
        patch = self.net.dit(
            self.noise(rows),
            self.net.condition(base, residual),
            state.patch[slots],
            schedule,
            state.cfg_value[slots],
            self._moves(schedule),
        )
        following = self.net.sounds(patch)
        stopped = (stop[:, 1] > stop[:, 0]) & (rows.steps > state.min_len[slots])
        state.next[slots] = following
        state.patch[slots] = patch
        state.sounding[slots] = torch.ones_like(stopped)  # a Python value would be copied from the host
        return Step(patch, torch.ones_like(stopped), stopped)

    def both_hidden(self, rows: Rows, state: VoxState) -> tuple[Tensor, Tensor]:
        """Returns the outputs of the two language models, [B, hidden] each."""
        x, sounding = state.next[rows.slots][:, None], state.sounding[rows.slots][:, None]
        base, residual = self.net.hidden(x, sounding, rows, rows.positions[:, None])
        return base[:, 0], residual[:, 0]

    def noise(self, rows: Rows) -> Tensor:
        """Returns the noise that the next patch of each row starts from. It depends on the seed and the step alone."""
        return initial_noise(rows, self.frame_shape, self.frame_dtype)

    def _moves(self, schedule: Tensor) -> int:
        """Returns how many Euler steps to run for these rows. On a GPU that is always the largest number: to read the
        rows' own numbers would wait for the GPU."""
        schedules = self.net.dit.schedules
        return schedules.max_steps if schedule.is_cuda else schedules.step_counts[int(schedule.max())]

"""The flow stage without a chunk mask: each segment is one pass, once all of its tokens are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.device.ragged import LaunchSizes
from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.device.upload import upload
from rhapsode.models.base import Traits
from rhapsode.models.cosyvoice3.flow.net import FlowBlock, FlowNet
from rhapsode.models.cosyvoice3.flow.prompt import FlowPrompt
from rhapsode.nn.pre_lookahead import LOOKBEHIND


class WholeFlowState(State):
    """The voice of each slot."""

    def __init__(self, slots: int, tokens: int, rate: int, like: Tensor) -> None:
        device, channels = like.device, like.shape[1]
        self.length = buffer(slots, dtype=torch.int64, device=device)  # tokens of the prompt
        self.tokens = buffer(slots, tokens, dtype=torch.int64, device=device)
        self.mel = buffer(slots, tokens * rate, channels, dtype=like.dtype, device=device)
        self.speaker = buffer(slots, channels, dtype=like.dtype, device=device)


class WholeFlow:
    """Makes each segment in one pass. All frames attend to all, as upstream does for requests that are not streamed."""

    def __init__(self, net: FlowNet, most_tokens: int, most_prompt_tokens: int) -> None:
        """`most_tokens`: of the longest segment, which is one block; `most_prompt_tokens`: of the longest prompt."""
        self._net = net
        self._most_prompt = most_prompt_tokens
        self.rate = net.settings.token_mel_ratio
        self.reach = Reach(granularity=most_tokens)
        self.frame_shape = (net.settings.output_size,)
        self.frame_dtype = net.noise.dtype

    def traits(self) -> Traits:
        # One row per launch: on a GPU, a launch always has the length of the longest segment.
        return Traits(open=self.open, most_rows=1)

    def state(self, slots: int) -> WholeFlowState:
        return WholeFlowState(slots, self._most_prompt, self.rate, self._net.noise)

    def open(
        self, payloads: Sequence[FlowPrompt], rows: Rows, state: WholeFlowState, sizes: LaunchSizes | None = None
    ) -> None:
        device, count = rows.slots.device, len(payloads)
        tokens = np.zeros((count, self._most_prompt), np.int64)
        mel = np.zeros((count, *state.mel.shape[1:]), np.float32)
        for i, prompt in enumerate(payloads):
            tokens[i, : len(prompt.tokens)], mel[i, : len(prompt.mel)] = prompt.tokens, prompt.mel
        lengths = np.array([len(prompt.tokens) for prompt in payloads])
        voices = upload(np.stack([prompt.embedding for prompt in payloads]), device)
        state.length[rows.slots] = upload(lengths, device)
        state.tokens[rows.slots] = upload(tokens, device)
        state.mel[rows.slots] = upload(mel, device).to(state.mel.dtype)
        state.speaker[rows.slots] = self._net.conditions.speaker(voices)

    def decode(self, window: Window, rows: Rows, state: WholeFlowState) -> Tensor:
        """Makes the mel frames of whole segments, `[B, due * rate, mel]`."""
        assert window.present is not None
        slots, counts = rows.slots, window.present.sum(1)
        prompts = state.length[slots]
        most = self._most_prompt + window.due
        if slots.device.type == "cpu":  # reading the lengths costs nothing here, so only frames that exist are computed
            most = int((prompts + counts).max())
        place = torch.arange(most, device=slots.device) - prompts[:, None]  # [B, T], negative in the prompt
        spoken = window.frames[..., 0].gather(1, place.clamp(0, window.due - 1))
        prompted = F.pad(state.tokens[slots], (0, most))[:, :most]
        mel = F.pad(state.mel[slots], (0, 0, 0, most * self.rate))[:, : most * self.rate]
        ahead = self._net.settings.pre_lookahead_len
        tokens = F.pad(torch.where(place < 0, prompted, spoken), (LOOKBEHIND, ahead))
        known = F.pad(place < counts[:, None], (LOOKBEHIND, ahead))
        block = FlowBlock(tokens, known, mel, state.speaker[slots], torch.zeros_like(prompts))
        made = self._net.one_pass(block, masked=False)
        where = prompts[:, None] * self.rate + torch.arange(window.due * self.rate, device=slots.device)
        return made[torch.arange(len(made), device=slots.device)[:, None], where.clamp(max=made.shape[1] - 1)]

"""The flow stage that solves the beginning of a segment again and again, each time with some more tokens.

The network is not causal: the frames of a token depend on all tokens of its pass. So these frames are not those of one
pass over the segment. They are a function of the tokens all the same: the frames of token `t` are those of the pass
over all tokens up to the end of its block and of the few that follow it, and blocks lie on a grid that starts with the
segment. When tokens arrive, and how many blocks a launch has, changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rhapsode.device.ragged import LaunchSizes
from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.device.state import buffer
from rhapsode.models.base import Traits
from rhapsode.models.chatterbox.flow.net import S3FlowNet
from rhapsode.models.chatterbox.flow.prompt import S3FlowPrompt
from rhapsode.models.chatterbox.flow.sizes import RATE
from rhapsode.models.chatterbox.flow.voices import VoiceState, open_voices, solve_speech


class PrefixState(VoiceState):
    """The voice of each slot, and the tokens of its segment so far."""

    def __init__(self, slots: int, most_tokens: int, like: Tensor) -> None:
        super().__init__(slots, like)
        self.count = buffer(slots, dtype=torch.int64, device=like.device)
        self.spoken = buffer(slots, most_tokens, dtype=torch.int64, device=like.device)


class PrefixS3Flow:
    """Passes over the voice and all tokens so far, one for each block of tokens."""

    rate = RATE

    def __init__(self, net: S3FlowNet, most_tokens: int, block: int) -> None:
        """`most_tokens`: of the longest segment; `block`: tokens of a block."""
        self._net, self._block = net, block
        self._lookahead = net.sizes.conformer.lookahead
        self._room = most_tokens + block + self._lookahead
        self.reach = Reach(lookahead=self._lookahead, granularity=block)
        self.frame_shape = (net.sizes.mel,)
        self.frame_dtype = net.like.dtype

    def traits(self) -> Traits:
        # One row per launch: on a GPU, a launch always has the length of the longest segment.
        return Traits(open=self.open, most_rows=1)

    def state(self, slots: int) -> PrefixState:
        return PrefixState(slots, self._room, self._net.like)

    def open(
        self, payloads: Sequence[S3FlowPrompt], rows: Rows, state: PrefixState, sizes: LaunchSizes | None = None
    ) -> None:
        open_voices(self._net, payloads, rows.slots, state)

    def decode(self, window: Window, rows: Rows, state: PrefixState) -> Tensor:
        """Makes the mel frames of the next blocks, `[B, due * rate, mel]`."""
        assert window.present is not None
        made, width = [], self._block + self._lookahead
        for start in range(0, window.due, self._block):
            tokens, present = (x[:, start : start + width] for x in (window.frames[..., 0], window.present))
            made.append(self._solve(tokens, present, rows, state))
        return torch.cat(made, dim=1)

    def _solve(self, tokens: Tensor, present: Tensor, rows: Rows, state: PrefixState) -> Tensor:
        """Makes the frames of one block of each row; `tokens [B, block + lookahead]`, of which some are `present`."""
        slots, before = rows.slots, state.count[rows.slots]
        place = before[:, None] + torch.arange(tokens.shape[1], device=slots.device)
        place = place.clamp(max=self._room - 1)
        # Tokens that only look ahead are stored, too: they come again, with their own block.
        state.spoken[slots[:, None], place] = tokens
        due, ahead = present[:, : self._block].sum(1), present[:, self._block :].sum(1)
        ended = ahead < self._lookahead  # then all tokens of the segment are here, and the last pass solves all
        unsolved = torch.where(ended, 0, self._lookahead)
        frames = solve_speech(self._net, state.spoken[slots], before + due + ahead, rows, state, unsolved)
        state.count[slots] = before + due
        where = before[:, None] * RATE + torch.arange(self._block * RATE, device=slots.device)
        where = where.clamp(max=frames.shape[1] - 1)
        return frames[torch.arange(len(frames), device=slots.device)[:, None], where]

"""The voices of the flow's slots, and the sequences of prompt and speech that they become."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.device.upload import upload
from rhapsode.models.chatterbox.flow.net import FlowSequences, S3FlowNet, noise_of
from rhapsode.models.chatterbox.flow.prompt import S3FlowPrompt
from rhapsode.models.chatterbox.flow.sizes import MOST_PROMPT_TOKENS, RATE
from rhapsode.nn.ragged import Ragged


class VoiceState(State):
    """The voice of each slot."""

    def __init__(self, slots: int, like: Tensor) -> None:
        device, most, channels = like.device, MOST_PROMPT_TOKENS, like.shape[-1]
        self.length = buffer(slots, dtype=torch.int64, device=device)  # tokens of the prompt
        self.tokens = buffer(slots, most, dtype=torch.int64, device=device)
        self.mel = buffer(slots, most * RATE, channels, dtype=like.dtype, device=device)
        self.speaker = buffer(slots, channels, dtype=like.dtype, device=device)


def open_voices(net: S3FlowNet, payloads: Sequence[S3FlowPrompt], slots: Tensor, state: VoiceState) -> None:
    """Puts the voices of these requests into their slots."""
    device, count = slots.device, len(payloads)
    tokens = np.zeros((count, state.tokens.shape[1]), np.int64)
    mel = np.zeros((count, *state.mel.shape[1:]), np.float32)
    for i, prompt in enumerate(payloads):
        tokens[i, : len(prompt.tokens)], mel[i, : len(prompt.mel)] = prompt.tokens, prompt.mel
    state.length[slots] = upload(np.array([len(prompt.tokens) for prompt in payloads]), device)
    state.tokens[slots] = upload(tokens, device)
    state.mel[slots] = upload(mel, device).to(state.mel.dtype)
    state.speaker[slots] = net.conditions.speaker(upload(np.stack([prompt.embedding for prompt in payloads]), device))


def solve_speech(
    net: S3FlowNet, spoken: Tensor, counts: Tensor, rows: Rows, state: VoiceState, unsolved: Tensor | None = None
) -> Tensor:
    """Returns the mel frames of `spoken [B, n]` tokens after the rows' voices, `[B, n * RATE, mel]`.

    Of a row's tokens, `counts [B]` exist, and the last `unsolved [B]` of these get no frames of their own.
    """
    slots, width = rows.slots, spoken.shape[1]
    prompts = state.length[slots]
    bound = MOST_PROMPT_TOKENS + width
    most = longest(prompts + counts, bound)
    place = torch.arange(most, device=slots.device) - prompts[:, None]  # [B, T], negative in the prompt
    prompted = F.pad(state.tokens[slots], (0, most))[:, :most]
    tokens = torch.where(place < 0, prompted, spoken.gather(1, place.clamp(0, width - 1)))
    mel = F.pad(state.mel[slots], (0, 0, 0, most * RATE))[:, : most * RATE]
    ragged = Ragged.of((prompts + counts).clamp(min=1), most, is_full=len(slots) == 1 and most < bound)
    noise = noise_of(rows.seeds, most * RATE, net.like)
    made = net(FlowSequences(tokens, ragged, mel, state.speaker[slots], noise, unsolved))
    where = prompts[:, None] * RATE + torch.arange(width * RATE, device=slots.device)
    return made[torch.arange(len(made), device=slots.device)[:, None], where.clamp(max=made.shape[1] - 1)]


def longest(lengths: Tensor, bound: int) -> int:
    """Returns how many tokens a launch has. On a GPU it is always the bound: the host must not wait for the lengths."""
    return max(1, int(lengths.max())) if lengths.device.type == "cpu" else bound

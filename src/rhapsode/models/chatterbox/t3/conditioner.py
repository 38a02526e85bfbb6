"""What T3 hears of a voice: a row for its embedding, rows for its speech, and one for the exaggeration."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rhapsode.models.chatterbox.t3.net import EPS, Places
from rhapsode.models.chatterbox.t3.sizes import T3Sizes
from rhapsode.nn.kernels.attention import attention

HEADS = 4
"""Of the perceiver; no tensor shows it."""


class PerceiverAttention(nn.Module):
    """Attention from one sequence to another, with one norm for both."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, EPS)
        self.to_q, self.to_k, self.to_v, self.proj_out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        """Returns `x [B, T, width]` with what it finds in `other [B, S, width]` added."""
        query, key, value = self.to_q(self.norm(x)), self.to_k(self.norm(other)), self.to_v(self.norm(other))
        heads = (one.unflatten(-1, (HEADS, -1)) for one in (query, key, value))
        return x + self.proj_out(attention(*heads).flatten(2))


class Perceiver(nn.Module):
    """Reduces the speech of a reference to a few rows."""

    def __init__(self, sizes: T3Sizes) -> None:
        super().__init__()
        self.pre_attention_query = nn.Parameter(torch.empty(1, sizes.queries, sizes.hidden))
        self.attn = PerceiverAttention(sizes.hidden)

    def forward(self, speech: Tensor) -> Tensor:
        """Returns `[B, queries, width]` for `speech [B, S, width]`. The same weights are used twice."""
        found = self.attn(self.pre_attention_query.expand(len(speech), -1, -1), speech)
        reduced: Tensor = self.attn(found, found)
        return reduced


class VoiceEncoding(nn.Module):
    """The layers of the checkpoint's `cond_enc`."""

    def __init__(self, sizes: T3Sizes) -> None:
        super().__init__()
        self.spkr_enc = nn.Linear(sizes.speaker, sizes.hidden)
        self.perceiver = None if sizes.gpt2 else Perceiver(sizes)
        self.emotion_adv_fc = None if sizes.gpt2 else nn.Linear(1, sizes.hidden, bias=False)


class Conditioner(nn.Module):
    """Computes the rows of a prompt that depend on the voice. Turbo's speech needs none: its tokens are looked up."""

    def __init__(self, sizes: T3Sizes) -> None:
        super().__init__()
        self.cond_enc = VoiceEncoding(sizes)
        self.speech_emb = None if sizes.gpt2 else nn.Embedding(sizes.speech_rows, sizes.hidden)
        self.speech_pos_emb = None if sizes.gpt2 else Places(sizes.speech_places, sizes.hidden)

    def forward(self, speaker: Tensor, tokens: Tensor, exaggeration: Tensor) -> Tensor:
        """Returns `[B, voice rows, hidden]`.

        `speaker [B, E]`, `tokens [B, S]` of the reference's speech, `exaggeration [B]`.
        """
        rows = [self.cond_enc.spkr_enc(speaker)[:, None]]
        perceiver, emotion = self.cond_enc.perceiver, self.cond_enc.emotion_adv_fc
        if perceiver is not None and emotion is not None:
            assert self.speech_emb is not None
            assert self.speech_pos_emb is not None
            places = self.speech_pos_emb.emb(torch.arange(tokens.shape[1], device=tokens.device))
            rows += [perceiver(self.speech_emb(tokens) + places), emotion(exaggeration[:, None])[:, None]]
        return torch.cat(rows, dim=1)

"""The speech tokenizer (S3, version 2): 25 tokens per second of a recording."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.chatterbox.shapes import TensorShapes
from rhapsode.nn.rope import Rope, RopeConfig

PREFIX = "tokenizer."
HEAD_DIM = 64
"""The width of an attention head; no tensor shows it."""
FRAMES_PER_TOKEN = 4
"""Mel frames of a token."""
LEVELS = 3
"""Values of each digit of a token."""
ROUNDED = 0.9990000128746033
"""What digits are multiplied by before they are rounded, so that none is half way."""


@dataclass(frozen=True)
class SpeechTokenizerSizes:
    bands: int
    hidden: int
    ffn: int
    layers: int
    memory: int
    """The kernel of the convolution over values."""
    digits: int

    @classmethod
    def of(cls, found: TensorShapes) -> SpeechTokenizerSizes:
        first = "encoder.blocks.0."
        return cls(
            bands=found.size("encoder.conv1.weight", 1),
            hidden=found.size("encoder.conv1.weight"),
            ffn=found.size(f"{first}mlp.0.weight"),
            layers=found.count("encoder.blocks."),
            memory=found.size(f"{first}attn.fsmn_block.weight", 2),
            digits=found.size("quantizer._codebook.project_down.weight"),
        )


class MemoryAttention(nn.Module):
    """Attention of all frames to all, and a convolution over the values (FSMN), which is added to its result."""

    def __init__(self, sizes: SpeechTokenizerSizes) -> None:
        super().__init__()
        hidden = sizes.hidden
        self.query, self.value, self.out = (nn.Linear(hidden, hidden) for _ in range(3))
        self.key = nn.Linear(hidden, hidden, bias=False)
        padding = sizes.memory // 2
        self.fsmn_block = nn.Conv1d(hidden, hidden, sizes.memory, padding=padding, groups=hidden, bias=False)

    def forward(self, x: Tensor, rope: Rope) -> Tensor:
        angles = rope(torch.arange(x.shape[1], device=x.device)[None], x.dtype)
        value = self.value(x)
        query, key = (angles.rotate(each.unflatten(2, (-1, HEAD_DIM))) for each in (self.query(x), self.key(x)))
        heads = (each.transpose(1, 2) for each in (query, key, value.unflatten(2, (-1, HEAD_DIM))))
        attended = F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        memory = self.fsmn_block(value.transpose(1, 2)).transpose(1, 2)
        return self.out(attended) + memory + value


class TokenizerLayer(nn.Module):
    def __init__(self, sizes: SpeechTokenizerSizes) -> None:
        super().__init__()
        self.attn = MemoryAttention(sizes)
        self.attn_ln, self.mlp_ln = nn.LayerNorm(sizes.hidden), nn.LayerNorm(sizes.hidden)
        self.mlp = nn.Sequential(nn.Linear(sizes.hidden, sizes.ffn), nn.GELU(), nn.Linear(sizes.ffn, sizes.hidden))

    def forward(self, x: Tensor, rope: Rope) -> Tensor:
        x = x + self.attn(self.attn_ln(x), rope)
        return x + self.mlp(self.mlp_ln(x))


class TokenizerEncoder(nn.Module):
    def __init__(self, sizes: SpeechTokenizerSizes) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(sizes.bands, sizes.hidden, 3, 2, padding=1)
        self.conv2 = nn.Conv1d(sizes.hidden, sizes.hidden, 3, 2, padding=1)
        self.blocks = nn.ModuleList(TokenizerLayer(sizes) for _ in range(sizes.layers))
        self.rope = Rope(RopeConfig(HEAD_DIM))

    def forward(self, mel: Tensor) -> Tensor:
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).transpose(1, 2)
        for block in self.blocks:
            x = block(x, self.rope)
        return x


class SpeechTokenizer(nn.Module):
    """Maps Whisper's log-mel spectrogram `[B, bands, T]` to tokens `[B, T / 4]`, rounded up."""

    def __init__(self, sizes: SpeechTokenizerSizes) -> None:
        super().__init__()
        self.encoder = TokenizerEncoder(sizes)
        self.project_down = nn.Linear(sizes.hidden, sizes.digits)

    def forward(self, mel: Tensor) -> Tensor:
        digits = (self.project_down(self.encoder(mel)).tanh() * ROUNDED).round().long() + 1
        places = LEVELS ** torch.arange(digits.shape[2], device=digits.device)
        return (digits * places).sum(2)


NAMES = {"project_down": "quantizer._codebook.project_down"}
"""What the checkpoint calls these tensors."""
IGNORE = ("_mel_filters", "window")
"""Constants of the spectrogram, which some checkpoints hold."""

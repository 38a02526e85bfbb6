"""The text side: phonemes to durations, pitch, energy and what the decoder reads. It runs in float32."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.kokoro.config import KokoroConfig
from rhapsode.models.kokoro.net.albert import Albert
from rhapsode.models.kokoro.net.blocks import SLOPE, StyledBlock
from rhapsode.nn.adaptive_norm import AdaptiveLayerNorm
from rhapsode.nn.lstm import BiLSTM
from rhapsode.nn.ragged import Ragged


class ChannelsFirstNorm(nn.Module):
    """A layer norm over the channels of `[B, C, T]`."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.empty(channels))
        self.beta = nn.Parameter(torch.empty(channels))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x.transpose(1, 2), self.gamma.shape, self.gamma, self.beta, 1e-5).transpose(1, 2)


class TextEncoder(nn.Module):
    """Phonemes as the decoder reads them."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        size, kernel = config.hidden_dim, config.text_encoder_kernel_size
        self.embedding = nn.Embedding(config.n_token, size)
        self.cnn = nn.ModuleList(
            nn.Sequential(nn.Conv1d(size, size, kernel, padding=kernel // 2), ChannelsFirstNorm(size))
            for _ in range(config.n_layer)
        )
        self.lstm = BiLSTM(size, size // 2)

    def forward(self, ids: Tensor, ragged: Ragged) -> Tensor:
        """Maps ids `[B, P]` to `[B, P, hidden]`."""
        x = self.embedding(ids).transpose(1, 2)
        for convolution in self.cnn:
            x = F.leaky_relu(convolution(ragged.cut(x)), SLOPE)
        return self.lstm(x.transpose(1, 2), ragged)


class DurationEncoder(nn.Module):
    """Layers of an LSTM and a styled norm. The style is an input of each, too."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        size, style = config.hidden_dim, config.style_dim
        self.lstms = nn.ModuleList(
            layer
            for _ in range(config.n_layer)
            for layer in (BiLSTM(size + style, size // 2), AdaptiveLayerNorm(style, size))
        )

    def forward(self, x: Tensor, style: Tensor, ragged: Ragged) -> Tensor:
        """Maps `x [B, P, hidden]` to `[B, P, hidden + style]`."""
        beside = style[:, None].expand(-1, x.shape[1], -1)
        for i in range(0, len(self.lstms), 2):
            x = self.lstms[i](torch.cat((x, beside), dim=2), ragged)
            x = self.lstms[i + 1](x, style)
        return torch.cat((x, beside), dim=2)


class DurationProjection(nn.Module):
    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        self.linear_layer = nn.Linear(config.hidden_dim, config.max_dur)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_layer(x)


class Prosody(NamedTuple):
    """Two values for each frame."""

    f0: Tensor  # [B, 2 * T], in hertz; below 10 there is no voice
    energy: Tensor  # [B, 2 * T]


class ProsodyPredictor(nn.Module):
    """Durations of phonemes; pitch and energy of frames."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        size, style = config.hidden_dim, config.style_dim
        self.text_encoder = DurationEncoder(config)
        self.lstm = BiLSTM(size + style, size // 2)
        self.duration_proj = DurationProjection(config)
        self.shared = BiLSTM(size + style, size // 2)
        self.F0, self.N = (_branch(size, style) for _ in range(2))
        self.F0_proj, self.N_proj = (nn.Conv1d(size // 2, 1, 1) for _ in range(2))

    def duration_logits(self, encoded: Tensor, ragged: Ragged) -> Tensor:
        """Maps the encoded phonemes to `[B, P, max_dur]`; the sum of their sigmoids is a duration in frames."""
        return self.duration_proj(self.lstm(encoded, ragged))

    def prosody(self, frames: Tensor, style: Tensor, ragged: Ragged) -> Prosody:
        """Maps the encoded phonemes of frames, `[B, T, hidden + style]`, to pitch and energy."""
        x = self.shared(frames, ragged).transpose(1, 2)
        return Prosody(
            *(self._curve(x, style, ragged, *one) for one in ((self.F0, self.F0_proj), (self.N, self.N_proj)))
        )

    def _curve(self, x: Tensor, style: Tensor, ragged: Ragged, blocks: nn.ModuleList, last: nn.Conv1d) -> Tensor:
        for block in blocks:
            assert isinstance(block, StyledBlock)
            x = block(x, style, ragged)
            ragged = ragged if block.rate == 1 else ragged.scaled(block.rate)
        return last(x)[:, 0]


def _branch(size: int, style: int) -> nn.ModuleList:
    first, last = StyledBlock(size, size, style), StyledBlock(size // 2, size // 2, style)
    return nn.ModuleList((first, StyledBlock(size, size // 2, style, doubles=True), last))


class TextNet(nn.Module):
    """All networks before the decoder, with the names of the checkpoint."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        self.bert = Albert(config.plbert, config.n_token)
        self.bert_encoder = nn.Linear(config.plbert.hidden_size, config.hidden_dim)
        self.predictor = ProsodyPredictor(config)
        self.text_encoder = TextEncoder(config)

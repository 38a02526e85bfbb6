"""The decoder: phonemes, pitch and energy of frames to samples."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rhapsode.models.kokoro.config import KokoroConfig
from rhapsode.models.kokoro.net.blocks import StyledBlock
from rhapsode.models.kokoro.net.generator import SpectrumGenerator
from rhapsode.models.kokoro.net.text import Prosody
from rhapsode.nn.ragged import Ragged

BLOCKS = 3
"""Blocks of one rate; one more doubles it."""


class Decoder(nn.Module):
    def __init__(self, config: KokoroConfig, sample_rate: int) -> None:
        super().__init__()
        size, style, width = config.hidden_dim, config.style_dim, config.sizes.decoder_width
        residual, channels = config.sizes.residual_width, config.istftnet.upsample_initial_channel
        self.F0_conv, self.N_conv = (nn.Conv1d(1, 1, 3, stride=2, padding=1) for _ in range(2))
        self.encode = StyledBlock(size + 2, width, style)
        inputs = width + residual + 2
        self.decode = nn.ModuleList(StyledBlock(inputs, width, style) for _ in range(BLOCKS))
        self.decode.append(StyledBlock(inputs, channels, style, doubles=True))
        self.asr_res = nn.Sequential(nn.Conv1d(size, residual, 1))
        self.generator = SpectrumGenerator(config, sample_rate)

    def frames(self, text: Tensor, prosody: Prosody, style: Tensor, ragged: Ragged) -> Tensor:
        """Maps the phonemes of frames, `[B, hidden, T]`, to the generator's inputs, `[B, C, 2 * T]`."""
        halves = ragged.scaled(2)
        f0, energy = (
            conv(halves.cut(curve[:, None].to(text.dtype)))
            for conv, curve in ((self.F0_conv, prosody.f0), (self.N_conv, prosody.energy))
        )
        x = self.encode(torch.cat((text, f0, energy), dim=1), style, ragged)
        beside = torch.cat((self.asr_res(text), f0, energy), dim=1)
        for block in self.decode:
            x = block(torch.cat((x, beside), dim=1), style, ragged)
        return x

"""The speaker encoder (ECAPA-TDNN): reference audio to a speaker embedding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.checkpoints.folder import parse
from rhapsode.errors import BadAudio
from rhapsode.nn.mel import MelConfig, log_mel


@dataclass(frozen=True)
class SpeakerConfig:
    """`speaker_encoder_config` of config.json."""

    mel_dim: int = 128
    enc_dim: int = 1024
    enc_channels: tuple[int, ...] = (512, 512, 512, 512, 1536)
    enc_kernel_sizes: tuple[int, ...] = (5, 3, 3, 3, 1)
    enc_dilations: tuple[int, ...] = (1, 2, 3, 4, 1)
    enc_attention_channels: int = 128
    enc_res2net_scale: int = 8
    enc_se_channels: int = 128
    sample_rate: int = 24_000

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SpeakerConfig:
        return parse(cls, values, "speaker_encoder_config in config.json")


class SameConv1d(nn.Module):
    """A convolution with reflect padding, which keeps the length, and a ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation)
        total = dilation * (kernel - 1)
        self.padding = (total // 2, total - total // 2)

    def forward(self, x: Tensor) -> Tensor:
        padded = F.pad(x, self.padding, mode="reflect") if self.padding[1] else x
        return F.relu(self.conv(padded))


class Res2Net(nn.Module):
    """Splits channels into groups; each is convolved with the output of the previous group added."""

    def __init__(self, channels: int, scale: int, kernel: int, dilation: int) -> None:
        super().__init__()
        width = channels // scale
        self.scale = scale
        self.blocks = nn.ModuleList([SameConv1d(width, width, kernel, dilation) for _ in range(scale - 1)])

    def forward(self, x: Tensor) -> Tensor:
        first, *others = x.chunk(self.scale, dim=1)
        outputs = [first]
        for i, (block, group) in enumerate(zip(self.blocks, others, strict=True)):
            outputs.append(block(group + outputs[-1] if i else group))
        return torch.cat(outputs, dim=1)


class SqueezeExcitation(nn.Module):
    """Scales each channel by a gate that depends on the whole recording."""

    def __init__(self, channels: int, bottleneck: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(channels, bottleneck, 1)
        self.conv2 = nn.Conv1d(bottleneck, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.conv2(F.relu(self.conv1(x.mean(-1, keepdim=True)))).sigmoid()


class SERes2Net(nn.Module):
    def __init__(self, config: SpeakerConfig, layer: int) -> None:
        super().__init__()
        inputs, channels = config.enc_channels[layer - 1 : layer + 1]
        kernel, dilation = config.enc_kernel_sizes[layer], config.enc_dilations[layer]
        self.tdnn1 = SameConv1d(inputs, channels, 1)
        self.res2net_block = Res2Net(channels, config.enc_res2net_scale, kernel, dilation)
        self.tdnn2 = SameConv1d(channels, channels, 1)
        self.se_block = SqueezeExcitation(channels, config.enc_se_channels)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.se_block(self.tdnn2(self.res2net_block(self.tdnn1(x))))


class AttentivePooling(nn.Module):
    """Attentive statistics pooling: weighted mean and standard deviation over time, per channel."""

    def __init__(self, channels: int, bottleneck: int) -> None:
        super().__init__()
        self.tdnn = SameConv1d(3 * channels, bottleneck, 1)
        self.conv = nn.Conv1d(bottleneck, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        unweighted = self._moments(x, torch.full_like(x[:, :1], 1 / x.shape[-1]))
        context = torch.cat([x, *(moment.expand_as(x) for moment in unweighted)], dim=1)
        weight = self.conv(self.tdnn(context).tanh()).softmax(-1)
        return torch.cat(self._moments(x, weight), dim=1)  # [B, 2 C, 1]

    def _moments(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        mean = (weight * x).sum(-1, keepdim=True)
        variance = (weight * (x - mean).square()).sum(-1, keepdim=True)
        return mean, variance.clamp(min=1e-12).sqrt()


class SpeakerEncoder(nn.Module):
    """Encodes 24 kHz audio as a speaker embedding."""

    def __init__(self, config: SpeakerConfig) -> None:
        super().__init__()
        channels, last = config.enc_channels, len(config.enc_channels) - 1
        self.config = config
        self.mel = MelConfig(sample_rate=config.sample_rate, bands=config.mel_dim)
        first = SameConv1d(config.mel_dim, channels[0], config.enc_kernel_sizes[0], config.enc_dilations[0])
        self.blocks = nn.ModuleList([first, *(SERes2Net(config, layer) for layer in range(1, last))])
        self.mfa = SameConv1d(
            sum(channels[1:last]), channels[last], config.enc_kernel_sizes[-1], config.enc_dilations[-1]
        )
        self.asp = AttentivePooling(channels[last], config.enc_attention_channels)
        self.fc = nn.Conv1d(2 * channels[last], config.enc_dim, 1)

    @property
    def min_samples(self) -> int:
        """The shortest reference that allows reflect padding in every layer."""
        reach = max(d * (k - 1) for k, d in zip(self.config.enc_kernel_sizes, self.config.enc_dilations, strict=True))
        return max((reach - reach // 2 + 1) * self.mel.hop, self.mel.margin + 1)

    def forward(self, mel: Tensor) -> Tensor:
        """Encodes `mel [B, T, bands]`: [B, enc_dim]."""
        x = mel.transpose(1, 2)
        outputs = []
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        return self.fc(self.asp(self.mfa(torch.cat(outputs[1:], dim=1))))[..., 0]

    @torch.inference_mode()
    def embed(self, audio: Tensor) -> Tensor:
        """Encodes one recording, `audio [N]`: [enc_dim]."""
        if len(audio) < self.min_samples:
            least_ms = 1000 * self.min_samples / self.config.sample_rate
            raise BadAudio(f"The reference audio is too short: at least {least_ms:.0f} ms are needed.")
        weight = self.fc.weight
        mel = log_mel(audio[None].to(weight.device), self.mel)
        return self(mel.to(weight.dtype))[0]

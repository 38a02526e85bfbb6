"""The codec's encoder: acoustic and semantic features of recordings, side by side, and their codes."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.higgs.codec.decoder import HiggsVectors
from rhapsode.models.higgs.codec.hubert import Hubert
from rhapsode.models.higgs.codec.ragged import Lengths, RaggedConv
from rhapsode.models.higgs.codec.settings import DILATIONS, KERNEL, CodecSettings
from rhapsode.nn.snake import Snake


class AcousticUnit(nn.Module):
    """A dilated convolution and a pointwise one, each after a Snake, added to the input."""

    def __init__(self, dim: int, dilation: int) -> None:
        super().__init__()
        self.snake1, self.snake2 = Snake(dim), Snake(dim)
        self.conv1 = RaggedConv(dim, dim, KERNEL, dilation=dilation, padding=KERNEL // 2 * dilation)
        self.conv2 = nn.Conv1d(dim, dim, 1)

    def forward(self, x: Tensor, lengths: Lengths) -> Tensor:
        return x + self.conv2(self.snake2(self.conv1(self.snake1(x), lengths)))


class AcousticBlock(nn.Module):
    """Residual units, then a convolution that reduces the rate and doubles the channels."""

    def __init__(self, dim: int, rate: int) -> None:
        super().__init__()
        self.res_unit1, self.res_unit2, self.res_unit3 = (AcousticUnit(dim, dilation) for dilation in DILATIONS)
        self.snake1 = Snake(dim)
        self.conv1 = RaggedConv(dim, 2 * dim, 2 * rate, rate, padding=(rate + 1) // 2)

    def forward(self, x: Tensor, lengths: Lengths) -> tuple[Tensor, Lengths]:
        for unit in (self.res_unit1, self.res_unit2, self.res_unit3):
            x = unit(x, lengths)
        return self.conv1(self.snake1(x), lengths), self.conv1.lengths(lengths)


class AcousticEncoder(nn.Module):
    """Makes features `[B, hidden, T]` of samples `[B, N]`."""

    def __init__(self, settings: CodecSettings) -> None:
        super().__init__()
        acoustic = settings.acoustic
        dim = acoustic.encoder_hidden_size
        self.conv1 = RaggedConv(1, dim, KERNEL, padding=KERNEL // 2)
        self.block = nn.ModuleList(AcousticBlock(dim << i, rate) for i, rate in enumerate(acoustic.downsampling_ratios))
        dim <<= len(acoustic.downsampling_ratios)
        self.snake1 = Snake(dim)
        self.conv2 = RaggedConv(dim, acoustic.hidden_size, 3, padding=1)

    def forward(self, samples: Tensor, lengths: Lengths) -> tuple[Tensor, Lengths]:
        x = self.conv1(samples[:, None], lengths)
        for block in self.block:
            x, lengths = block(x, lengths)
        return self.conv2(self.snake1(x), lengths), lengths


class SemanticUnit(nn.Module):
    """A dilated convolution and a pointwise one, each after an ELU, added to the input."""

    def __init__(self, dim: int, kernel: int, dilation: int) -> None:
        super().__init__()
        padding = (kernel - 1) // 2 * dilation
        self.conv1 = RaggedConv(dim, dim, kernel, dilation=dilation, padding=padding, bias=False)
        self.conv2 = nn.Conv1d(dim, dim, 1, bias=False)

    def forward(self, x: Tensor, lengths: Lengths) -> Tensor:
        return x + self.conv2(F.elu(self.conv1(F.elu(x), lengths)))


class SemanticBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, settings: CodecSettings) -> None:
        super().__init__()
        self.res_units = nn.ModuleList(
            SemanticUnit(inputs, settings.unit_kernel_size, dilation) for dilation in settings.block_dilations
        )
        self.conv = RaggedConv(inputs, outputs, 3, padding=1)

    def forward(self, x: Tensor, lengths: Lengths) -> Tensor:
        for unit in self.res_units:
            x = unit(x, lengths)
        return self.conv(x, lengths)


class SemanticEncoder(nn.Module):
    """Refines semantic features `[B, hidden, T]`."""

    def __init__(self, settings: CodecSettings) -> None:
        super().__init__()
        size, kernel = settings.semantic.hidden_size, settings.kernel_size
        dims = [size, *(int(size * ratio) for ratio in settings.channel_ratios)]
        self.conv = RaggedConv(size, size, kernel, padding=kernel // 2, bias=False)
        self.conv_blocks = nn.ModuleList(SemanticBlock(inputs, outputs, settings) for inputs, outputs in pairwise(dims))

    def forward(self, x: Tensor, lengths: Lengths) -> Tensor:
        x = self.conv(x, lengths)
        for block in self.conv_blocks:
            x = block(x, lengths)
        return x


class SearchedBook(nn.Module):
    """A codebook that is searched for the nearest vector."""

    def __init__(self, settings: CodecSettings) -> None:
        super().__init__()
        self.project_in = nn.Linear(settings.latent, settings.codebook_dim)
        self.codebook = HiggsVectors(settings)
        self.project_out = nn.Linear(settings.codebook_dim, settings.latent)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the codes `[F]` of `x [F, latent]`, and the residual."""
        table = self.codebook.embed
        distance = table.square().sum(-1) - 2 * (self.project_in(x) @ table.T)  # without the term that all codes share
        codes = distance.argmin(-1)
        return codes, x - self.project_out(F.embedding(codes, table))


class HiggsQuantizer(nn.Module):
    def __init__(self, settings: CodecSettings) -> None:
        super().__init__()
        self.quantizers = nn.ModuleList(SearchedBook(settings) for _ in range(settings.quantizers))

    def forward(self, x: Tensor) -> Tensor:
        """Quantizes frames `x [F, latent]`: [F, books]."""
        found = []
        for book in self.quantizers:
            codes, x = book(x)
            found.append(codes)
        return torch.stack(found, dim=-1)


class HiggsEncoder(nn.Module):
    """The networks that encode recordings as codes; `reference.py` prepares the recordings."""

    def __init__(self, settings: CodecSettings) -> None:
        super().__init__()
        self.settings = settings
        self.acoustic_encoder = AcousticEncoder(settings)
        self.semantic_model = Hubert(settings.semantic)
        self.encoder_semantic = SemanticEncoder(settings)
        self.fc = nn.Linear(settings.latent, settings.latent)
        self.quantizer = HiggsQuantizer(settings)

    def semantic(self, samples: Tensor, lengths: Lengths) -> tuple[Tensor, Lengths]:
        """Returns the semantic features of `samples [B, N]` at the semantic rate, one per frame: `[B, T, hidden]`."""
        stride = self.settings.semantic_stride
        features, lengths = self.semantic_model(samples, lengths)
        return features[:, ::stride], [-(-length // stride) for length in lengths]

    def latents(self, acoustic: Tensor, semantic: Tensor, lengths: Lengths) -> Tensor:
        """Returns the vectors to quantize: acoustic `[B, hidden, T]` and semantic features `[B, T, hidden]`, mixed."""
        refined = self.encoder_semantic(semantic.transpose(1, 2), lengths)
        return self.fc(torch.cat([acoustic, refined], dim=1).transpose(1, 2))

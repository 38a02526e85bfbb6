"""HuBERT, a speech model: the mean of its layers' hidden states gives the semantic features of a recording."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.models.higgs.codec.ragged import Lengths, rows_within, within
from rhapsode.models.higgs.codec.settings import HubertSettings
from rhapsode.nn.derived import Derived


class ChannelNorm(nn.Module):
    """Normalises every channel over the length of its row: a group norm with one channel per group."""

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels))
        self.bias = nn.Parameter(torch.empty(channels))
        self._eps = eps

    def forward(self, x: Tensor, lengths: Lengths) -> Tensor:
        inside = rows_within(lengths, x.shape[2], x.device)
        if inside is None:
            return F.group_norm(x, x.shape[1], self.weight, self.bias, self._eps)
        length = torch.tensor(lengths, device=x.device, dtype=x.dtype)[:, None, None]
        mean = torch.where(inside[:, None], x, 0).sum(2, keepdim=True) / length
        centred = torch.where(inside[:, None], x - mean, 0)
        scale = (centred.square().sum(2, keepdim=True) / length + self._eps).rsqrt()
        return centred * scale * self.weight[:, None] + self.bias[:, None]


class FeatureLayer(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, bias: bool, normed: bool) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, stride, bias=bias)
        self.layer_norm = ChannelNorm(outputs) if normed else None

    def lengths(self, lengths: Lengths) -> list[int]:
        return [(length - self.conv.kernel_size[0]) // self.conv.stride[0] + 1 for length in lengths]

    def forward(self, x: Tensor, lengths: Lengths) -> Tensor:
        """`lengths` are those of the result. No padding is added, so rows do not depend on what follows them."""
        x = self.conv(x)
        return F.gelu(x if self.layer_norm is None else self.layer_norm(x, lengths))


class FeatureExtractor(nn.Module):
    """Makes features `[B, C, T]` of samples `[B, 1, N]`."""

    def __init__(self, settings: HubertSettings) -> None:
        super().__init__()
        sizes = zip(pairwise((1, *settings.conv_dim)), settings.conv_kernel, settings.conv_stride, strict=True)
        self.conv_layers = nn.ModuleList(
            FeatureLayer(*dims, kernel, stride, settings.conv_bias, normed=i == 0)
            for i, (dims, kernel, stride) in enumerate(sizes)
        )

    def forward(self, x: Tensor, lengths: Lengths) -> tuple[Tensor, Lengths]:
        for layer in self.conv_layers:
            assert isinstance(layer, FeatureLayer)
            lengths = layer.lengths(lengths)
            x = layer(x, lengths)
        return x, lengths


class FeatureProjection(nn.Module):
    def __init__(self, settings: HubertSettings) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(settings.conv_dim[-1], eps=settings.layer_norm_eps)
        self.projection = nn.Linear(settings.conv_dim[-1], settings.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.projection(self.layer_norm(x))


class NormedConv(Derived):
    """A grouped convolution under weight norm, which has one magnitude per tap."""

    weight: Tensor  # [C, C / groups, K]

    def __init__(self, settings: HubertSettings) -> None:
        super().__init__()
        size, kernel = settings.hidden_size, settings.num_conv_pos_embeddings
        self.groups = settings.num_conv_pos_embedding_groups
        self.magnitude = nn.Parameter(torch.empty(1, 1, kernel))
        self.direction = nn.Parameter(torch.empty(size, size // self.groups, kernel))
        self.bias = nn.Parameter(torch.empty(size))
        self.register_buffer("weight", None, persistent=False)

    def derive(self) -> None:
        norm = self.direction.norm(dim=(0, 1), keepdim=True)
        self.weight = self.direction * (self.magnitude / norm)

    def forward(self, x: Tensor) -> Tensor:
        kernel, length = self.weight.shape[2], x.shape[2]
        return F.conv1d(x, self.weight, self.bias, padding=kernel // 2, groups=self.groups)[..., :length]


class PositionalConv(nn.Module):
    """Encodes each position by a convolution over the features around it."""

    def __init__(self, settings: HubertSettings) -> None:
        super().__init__()
        self.conv = NormedConv(settings)

    def forward(self, x: Tensor, lengths: Lengths) -> Tensor:
        return F.gelu(self.conv(within(x.transpose(1, 2), lengths))).transpose(1, 2)


class HubertAttention(nn.Module):
    def __init__(self, settings: HubertSettings) -> None:
        super().__init__()
        size, self._heads = settings.hidden_size, settings.num_attention_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(size, size) for _ in range(4))

    def forward(self, x: Tensor, inside: Tensor | None) -> Tensor:
        query, key, value = (
            project(x).unflatten(2, (self._heads, -1)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        mask = None if inside is None else inside[:, None, None]
        return self.out_proj(F.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2).flatten(2))


class HubertFeedForward(nn.Module):
    def __init__(self, settings: HubertSettings) -> None:
        super().__init__()
        self.intermediate_dense = nn.Linear(settings.hidden_size, settings.intermediate_size)
        self.output_dense = nn.Linear(settings.intermediate_size, settings.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.output_dense(F.gelu(self.intermediate_dense(x)))


class HubertLayer(nn.Module):
    """A transformer layer that normalises after each sum."""

    def __init__(self, settings: HubertSettings) -> None:
        super().__init__()
        size, eps = settings.hidden_size, settings.layer_norm_eps
        self.attention = HubertAttention(settings)
        self.layer_norm = nn.LayerNorm(size, eps=eps)
        self.feed_forward = HubertFeedForward(settings)
        self.final_layer_norm = nn.LayerNorm(size, eps=eps)

    def forward(self, x: Tensor, inside: Tensor | None) -> Tensor:
        x = self.layer_norm(x + self.attention(x, inside))
        return self.final_layer_norm(x + self.feed_forward(x))


class HubertEncoder(nn.Module):
    def __init__(self, settings: HubertSettings) -> None:
        super().__init__()
        self.pos_conv_embed = PositionalConv(settings)
        self.layer_norm = nn.LayerNorm(settings.hidden_size, eps=settings.layer_norm_eps)
        self.layers = nn.ModuleList(HubertLayer(settings) for _ in range(settings.num_hidden_layers))

    def forward(self, x: Tensor, lengths: Lengths) -> Tensor:
        """Returns the mean of the layers' inputs and the last output, `[B, T, hidden]`."""
        x = self.layer_norm(x + self.pos_conv_embed(x, lengths))
        inside = rows_within(lengths, x.shape[1], x.device)
        total = x
        for layer in self.layers:
            x = layer(x, inside)
            total = total + x
        return total / (len(self.layers) + 1)


class Hubert(nn.Module):
    """Makes semantic features of samples `[B, N]` with their lengths."""

    def __init__(self, settings: HubertSettings) -> None:
        super().__init__()
        self.feature_extractor = FeatureExtractor(settings)
        self.feature_projection = FeatureProjection(settings)
        self.encoder = HubertEncoder(settings)

    def forward(self, samples: Tensor, lengths: Lengths) -> tuple[Tensor, Lengths]:
        """Returns features `[B, T, hidden]` and the lengths of their rows."""
        features, lengths = self.feature_extractor(samples[:, None], lengths)
        return self.encoder(self.feature_projection(features.transpose(1, 2)), lengths), lengths

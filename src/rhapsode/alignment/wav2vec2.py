"""The network of published CTC checkpoints: Wav2Vec2, as Hugging Face stores it (`Wav2Vec2ForCTC`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.checkpoints.folder import parse, read_config
from rhapsode.checkpoints.load import load
from rhapsode.checkpoints.uninitialised import on_meta
from rhapsode.checkpoints.weight_norm import fold_weight_norm
from rhapsode.checkpoints.weights import TensorsInMemory, open_weights
from rhapsode.errors import CheckpointError

RATE = 16_000


@dataclass(frozen=True)
class Wav2Vec2Config:
    """The keys of `config.json` that affect the computation."""

    vocab_size: int = 32
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-5
    feat_extract_norm: str = "group"
    feat_extract_activation: str = "gelu"
    conv_dim: tuple[int, ...] = (512,) * 7
    conv_stride: tuple[int, ...] = (5, 2, 2, 2, 2, 2, 2)
    conv_kernel: tuple[int, ...] = (10, 3, 3, 3, 3, 2, 2)
    conv_bias: bool = False
    num_conv_pos_embeddings: int = 128
    num_conv_pos_embedding_groups: int = 16
    do_stable_layer_norm: bool = False
    add_adapter: bool = False
    adapter_attn_dim: int | None = None
    pad_token_id: int = 0
    """The blank of CTC."""

    def check(self, where: str) -> None:
        """Raises if the configuration needs something that is not implemented."""
        known = {
            "hidden_act": ("gelu",),
            "feat_extract_activation": ("gelu",),
            "feat_extract_norm": ("group", "layer"),
            "add_adapter": (False,),
            "adapter_attn_dim": (None,),
        }
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise CheckpointError(f"'{name}' of {where} is {getattr(self, name)!r}; known here: {values}.")
        if not len(self.conv_dim) == len(self.conv_stride) == len(self.conv_kernel) > 0:
            raise CheckpointError(f"conv_dim, conv_stride and conv_kernel of {where} must have equal lengths.")
        if self.hidden_size % self.num_attention_heads or self.hidden_size % self.num_conv_pos_embedding_groups:
            raise CheckpointError(f"'hidden_size' of {where} must be a multiple of its heads and groups.")
        if not self.pad_token_id < self.vocab_size:
            raise CheckpointError(f"'pad_token_id' of {where} is not in the vocabulary.")


class SampleNorm(nn.LayerNorm):
    """A layer norm over the channels of `[B, channels, T]`."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.mT).mT


class SampleConvolution(nn.Module):
    """One layer of the feature extractor: a convolution, perhaps a norm, GELU."""

    def __init__(self, config: Wav2Vec2Config, index: int) -> None:
        super().__init__()
        width = config.conv_dim[index]
        before = config.conv_dim[index - 1] if index else 1
        kernel, stride = config.conv_kernel[index], config.conv_stride[index]
        self.conv = nn.Conv1d(before, width, kernel, stride, bias=config.conv_bias)
        self.layer_norm: nn.Module = nn.Identity()
        if config.feat_extract_norm == "layer":
            self.layer_norm = SampleNorm(width)
        elif index == 0:
            self.layer_norm = nn.GroupNorm(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.layer_norm(self.conv(x)))


class SampleFeatures(nn.Module):
    """Convolutions over samples: one vector for every 20 ms."""

    def __init__(self, config: Wav2Vec2Config) -> None:
        super().__init__()
        self.conv_layers = nn.ModuleList(SampleConvolution(config, index) for index in range(len(config.conv_dim)))

    def forward(self, samples: Tensor) -> Tensor:
        x = samples[:, None]
        for layer in self.conv_layers:
            x = layer(x)
        return x.mT  # [B, T, conv_dim]


class SampleProjection(nn.Module):
    """From the convolutions' width to that of the transformer."""

    def __init__(self, config: Wav2Vec2Config) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(config.conv_dim[-1], eps=config.layer_norm_eps)
        self.projection = nn.Linear(config.conv_dim[-1], config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        projected: Tensor = self.projection(self.layer_norm(x))
        return projected


class RelativePositions(nn.Module):
    """A wide grouped convolution in place of position embeddings."""

    def __init__(self, config: Wav2Vec2Config) -> None:
        super().__init__()
        kernel, groups = config.num_conv_pos_embeddings, config.num_conv_pos_embedding_groups
        self.conv = nn.Conv1d(config.hidden_size, config.hidden_size, kernel, padding=kernel // 2, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        mixed = self.conv(x.mT)[..., : x.shape[1]]  # an even kernel gives one frame too many
        return F.gelu(mixed).mT


class SpeechAttention(nn.Module):
    """Attention of every frame to every frame."""

    def __init__(self, config: Wav2Vec2Config) -> None:
        super().__init__()
        self._heads = config.num_attention_heads
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.k_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.v_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.out_proj = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part(x).unflatten(-1, (self._heads, -1)).transpose(1, 2) for part in self._parts())
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        out: Tensor = self.out_proj(mixed)
        return out

    def _parts(self) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
        return self.q_proj, self.k_proj, self.v_proj


class SpeechFeedForward(nn.Module):
    """Two linear layers with GELU between them."""

    def __init__(self, config: Wav2Vec2Config) -> None:
        super().__init__()
        self.intermediate_dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output_dense = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.output_dense(F.gelu(self.intermediate_dense(x)))
        return out


class SpeechLayer(nn.Module):
    """A transformer layer, with its norms before (`do_stable_layer_norm`) or after attention and feed-forward."""

    def __init__(self, config: Wav2Vec2Config) -> None:
        super().__init__()
        self._norm_first = config.do_stable_layer_norm
        self.attention = SpeechAttention(config)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = SpeechFeedForward(config)
        self.final_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor
        if self._norm_first:
            x = x + self.attention(self.layer_norm(x))
            out = x + self.feed_forward(self.final_layer_norm(x))
        else:
            x = self.layer_norm(x + self.attention(x))
            out = self.final_layer_norm(x + self.feed_forward(x))
        return out


class SpeechEncoder(nn.Module):
    """The transformer. It is not causal."""

    def __init__(self, config: Wav2Vec2Config) -> None:
        super().__init__()
        self._norm_first = config.do_stable_layer_norm
        self.pos_conv_embed = RelativePositions(config)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.layers = nn.ModuleList(SpeechLayer(config) for _ in range(config.num_hidden_layers))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.pos_conv_embed(x)
        x = x if self._norm_first else self.layer_norm(x)
        for layer in self.layers:
            x = layer(x)
        return self.layer_norm(x) if self._norm_first else x


class Wav2Vec2(nn.Module):
    """Everything below the output layer."""

    def __init__(self, config: Wav2Vec2Config) -> None:
        super().__init__()
        self.feature_extractor = SampleFeatures(config)
        self.feature_projection = SampleProjection(config)
        self.encoder = SpeechEncoder(config)

    def forward(self, samples: Tensor) -> Tensor:
        encoded: Tensor = self.encoder(self.feature_projection(self.feature_extractor(samples)))
        return encoded


class Wav2Vec2Letters(nn.Module):
    """Samples at 16 kHz in, logits of the vocabulary out: `[B, N]` to `[B, T, vocab_size]`."""

    def __init__(self, config: Wav2Vec2Config) -> None:
        super().__init__()
        self.config = config
        self.wav2vec2 = Wav2Vec2(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, samples: Tensor) -> Tensor:
        logits: Tensor = self.lm_head(self.wav2vec2(samples))
        return logits

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> Wav2Vec2Letters:
        """Reads `config.json`, and `model.safetensors` or `pytorch_model.bin`."""
        where = str(folder / "config.json")
        config = parse(Wav2Vec2Config, read_config(folder), where)
        config.check(where)
        with on_meta():
            network = cls(config)
        stored = open_weights(folder)
        folded = fold_weight_norm({name: stored.read(name) for name in stored})  # of `RelativePositions`
        tensors = TensorsInMemory(stored.file_of(next(iter(stored))), folded)
        load(network, tensors, device=device, ignore=("wav2vec2.masked_spec_embed",))
        return network.eval().requires_grad_(False)

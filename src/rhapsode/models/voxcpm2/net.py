"""The talker's network, with the checkpoint's names: two language models, a local encoder and a diffusion head."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.device.slots import Rows
from rhapsode.models.voxcpm2.config import VoxConfig
from rhapsode.models.voxcpm2.local import LocalDiT, LocalEncoder
from rhapsode.nn.attention import PagedAttention
from rhapsode.nn.decoder import DecoderStack
from rhapsode.nn.linear import linear


class BaseLM(DecoderStack):
    def __init__(self, config: VoxConfig) -> None:
        super().__init__(config.lm.layers())
        self.embed_tokens = nn.Embedding(config.lm.vocab_size, config.lm.hidden_size)


class Quantizer(nn.Module):
    """Finite scalar quantization of the hidden states of speech positions."""

    def __init__(self, hidden: int, latent: int, scale: int) -> None:
        super().__init__()
        self.scale = scale
        self.in_proj = nn.Linear(hidden, latent)
        self.out_proj = nn.Linear(latent, hidden)

    def forward(self, x: Tensor) -> Tensor:
        latent = torch.tanh(linear(x, self.in_proj))
        return linear(torch.round(latent * self.scale) / self.scale, self.out_proj)


class FlowHead(nn.Module):
    """Holds the network that predicts velocities in `estimator`, as upstream nests it."""

    def __init__(self, config: VoxConfig, dtype: torch.dtype, max_timesteps: int) -> None:
        super().__init__()
        self.estimator = LocalDiT(config, dtype, max_timesteps)


class VoxNet(nn.Module):
    def __init__(self, config: VoxConfig, dtype: torch.dtype, max_timesteps: int) -> None:
        super().__init__()
        lm, patch, dit = config.lm.hidden_size, config.patch, config.dit.hidden_dim
        self.base_lm = BaseLM(config)
        self.residual_lm = DecoderStack(config.residual.layers(rope=not patch.residual_lm_no_rope))
        self.feat_encoder = LocalEncoder(config)
        self.feat_decoder = FlowHead(config, dtype, max_timesteps)
        self.fsq_layer = Quantizer(lm, patch.scalar_quantization_latent_dim, patch.scalar_quantization_scale)
        self.enc_to_lm_proj = nn.Linear(config.encoder.hidden_dim, lm)
        self.lm_to_dit_proj = nn.Linear(lm, dit)
        self.res_to_dit_proj = nn.Linear(lm, dit)
        self.fusion_concat_proj = nn.Linear(2 * lm, lm)
        self.stop_proj = nn.Linear(lm, lm)
        self.stop_head = nn.Linear(lm, 2, bias=False)

    @property
    def dit(self) -> LocalDiT:
        return self.feat_decoder.estimator

    def sounds(self, patches: Tensor) -> Tensor:
        """Embeds `patches [N, patch, feat]` for the language models: [N, hidden]."""
        return linear(self.feat_encoder(patches), self.enc_to_lm_proj)

    def hidden(
        self, x: Tensor, sounding: Tensor, rows: Rows, positions: Tensor, valid: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Runs both language models over `x [B, T, hidden]`: patches where `sounding [B, T]`, tokens elsewhere."""
        speech = x * sounding[..., None]  # a copy: the language model may overwrite x
        rotary = self.base_lm.rotary(positions, x.dtype)
        base = self.base_lm(x, rotary, PagedAttention(rows.kv[0], rows, positions, valid))
        base = torch.where(sounding[..., None], self.fsq_layer(base), base)
        mixed = linear(torch.cat((base, speech), dim=-1), self.fusion_concat_proj)
        rotary = self.residual_lm.rotary(positions, x.dtype)
        return base, self.residual_lm(mixed, rotary, PagedAttention(rows.kv[1], rows, positions, valid))

    def condition(self, base: Tensor, residual: Tensor) -> Tensor:
        """Projects both outputs to the condition of the diffusion head, [B, 2, its width]."""
        return torch.stack((linear(base, self.lm_to_dit_proj), linear(residual, self.res_to_dit_proj)), dim=1)

    def stop(self, base: Tensor) -> Tensor:
        """Returns the logits of continuing and of stopping, [B, 2]."""
        return linear(F.silu(linear(base, self.stop_proj)), self.stop_head)

"""The talker's `config.json`, typed. Imports torch only to build layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rhapsode.checkpoints.folder import parse, section
from rhapsode.errors import CheckpointError

if TYPE_CHECKING:
    from rhapsode.nn.decoder import DecoderConfig

_ACTIVATIONS: dict[str, Literal["gelu", "gelu_tanh"]] = {"gelu_new": "gelu_tanh", "gelu": "gelu"}


@dataclass(frozen=True)
class MossLayersConfig:
    """Sizes of the GPT-2 layers of the global and of the local transformer."""

    n_embd: int
    n_layer: int
    n_head: int
    vocab_size: int
    n_inner: int | None = None
    layer_norm_epsilon: float = 1e-5
    rope_base: float = 10_000.0
    activation_function: str = "gelu_new"
    position_embedding_type: str = "rope"
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False

    def __post_init__(self) -> None:
        if self.activation_function not in _ACTIVATIONS:
            known = ", ".join(_ACTIVATIONS)
            raise CheckpointError(f"'activation_function' is '{self.activation_function}'; known: {known}.")
        if self.position_embedding_type != "rope" or not self.scale_attn_weights:
            raise CheckpointError(
                "MOSS-TTS-Nano has rotary positions and scaled attention; config.json says otherwise."
            )
        if self.scale_attn_by_inverse_layer_idx or self.n_embd % self.n_head:
            raise CheckpointError("the attention that config.json describes is not that of MOSS-TTS-Nano.")

    def layers(self, count: int) -> DecoderConfig:
        """Returns the shape of a stack of `count` such layers."""
        from rhapsode.nn.decoder import DecoderConfig
        from rhapsode.nn.rope import RopeConfig

        head_dim = self.n_embd // self.n_head
        return DecoderConfig(
            hidden=self.n_embd,
            ffn=self.n_inner or 4 * self.n_embd,
            layers=count,
            heads=self.n_head,
            kv_heads=self.n_head,
            head_dim=head_dim,
            rope=RopeConfig(head_dim, self.rope_base),
            norm="layer",
            eps=self.layer_norm_epsilon,
            mlp=_ACTIVATIONS[self.activation_function],
            attention_bias=True,
            output_bias=True,
            mlp_bias=True,
        )


@dataclass(frozen=True)
class MossTokensConfig:
    """Special ids, codebooks and the other keys of config.json that are not of the layers."""

    n_vq: int
    audio_codebook_sizes: tuple[int, ...]
    audio_pad_token_id: int
    im_start_token_id: int
    im_end_token_id: int
    audio_start_token_id: int
    audio_end_token_id: int
    audio_user_slot_token_id: int
    audio_assistant_slot_token_id: int
    max_position_embeddings: int
    local_transformer_layers: int = 1
    model_architecture: str = "global_local_transformer"

    def __post_init__(self) -> None:
        sizes = self.audio_codebook_sizes
        if len(sizes) != self.n_vq or len(set(sizes)) != 1:
            raise CheckpointError(f"'audio_codebook_sizes' must be {self.n_vq} equal sizes, not {list(sizes)}.")
        if self.audio_pad_token_id < sizes[0]:
            raise CheckpointError(f"'audio_pad_token_id' is {self.audio_pad_token_id}, which is a code.")
        if self.model_architecture != "global_local_transformer":
            raise CheckpointError(f"'model_architecture' is '{self.model_architecture}', which is not supported.")


@dataclass(frozen=True)
class MossConfig:
    """All of a checkpoint's configuration that prompts and talker use."""

    layers: MossLayersConfig
    tokens: MossTokensConfig

    @property
    def books(self) -> int:
        return self.tokens.n_vq

    @property
    def codes(self) -> int:
        """The number of codes per codebook. In a frame, this number itself means no code."""
        return self.tokens.audio_codebook_sizes[0]


def read(config: Mapping[str, Any]) -> MossConfig:
    """Returns the configuration from the content of `config.json`."""
    layers = parse(MossLayersConfig, section(config, "gpt2_config", "config.json"), "gpt2_config in config.json")
    return MossConfig(layers, parse(MossTokensConfig, config, "config.json"))

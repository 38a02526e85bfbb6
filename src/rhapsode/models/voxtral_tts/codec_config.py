"""`audio_tokenizer_args` of `params.json`: the sizes of the codec. Imports torch only to build layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from rhapsode.errors import CheckpointError

if TYPE_CHECKING:
    from rhapsode.nn.decoder import DecoderConfig

WHERE = "audio_tokenizer_args in params.json"


def numbers(text: str, key: str) -> list[int]:
    """Returns the positive numbers of a text with commas between them."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise CheckpointError(f"'{key}' of params.json must be numbers with commas between them, not '{text}'.")
    return found


class Block(NamedTuple):
    """A convolution and the transformer beside it."""

    kernel: int
    stride: int
    layers: int
    window: int
    """Positions before its own that the transformer attends to."""


@dataclass(frozen=True)
class VoxtralCodecConfig:
    """Sizes of the codec. The defaults of `encoder_*` are upstream's: released files leave these keys out."""

    sampling_rate: int
    pretransform_patch_size: int
    patch_proj_kernel_size: int
    semantic_codebook_size: int
    semantic_dim: int
    acoustic_codebook_size: int
    acoustic_dim: int
    attn_sliding_window_size: int
    dim: int
    hidden_dim: int
    head_dim: int
    n_heads: int
    n_kv_heads: int
    decoder_transformer_lengths_str: str
    decoder_convs_kernels_str: str
    decoder_convs_strides_str: str
    encoder_transformer_lengths_str: str = "2,2,2,2"
    encoder_convs_kernels_str: str = "4,4,4,3"
    encoder_convs_strides_str: str = "2,2,2,1"
    norm_eps: float = 1e-2
    qk_norm: bool = True
    qk_norm_eps: float = 1e-6
    half_attn_window_upon_downsampling: bool = True
    channels: int = 1
    causal: bool = True
    layer_scale: bool = True
    use_biases: bool = False
    voice: Mapping[str, Any] = field(default_factory=dict)
    """The presets: names and indices."""

    def __post_init__(self) -> None:
        if not self.causal or not self.layer_scale or self.use_biases or self.channels != 1:
            raise CheckpointError(
                f"Voxtral's codec is causal and mono, with layer scales and without biases; {WHERE} differs."
            )
        if not all(isinstance(index, int) for index in self.voice.values()):
            raise CheckpointError(f"'voice' of {WHERE} must give every voice its index.")
        up = prod(stride for _, stride, *_ in self.decoder_blocks())
        if up != prod(stride for _, stride, *_ in self.encoder_blocks()):
            raise CheckpointError(f"{WHERE}: decoder and encoder strides must have the same product.")

    @property
    def hop(self) -> int:
        """Samples per frame."""
        return self.pretransform_patch_size * prod(stride for _, stride, *_ in self.decoder_blocks())

    @property
    def latent_dim(self) -> int:
        return self.semantic_dim + self.acoustic_dim

    @property
    def voices(self) -> tuple[str, ...]:
        """The presets' names, by index."""
        return tuple(sorted(self.voice, key=lambda name: self.voice[name]))

    def encoder_blocks(self) -> list[Block]:
        """Returns the blocks, waveform first. A transformer comes before its convolution; strides halve windows."""
        blocks, window = [], self.attn_sliding_window_size
        for kernel, stride, layers in self._lists("encoder"):
            blocks.append(Block(kernel, stride, layers, window))
            window = max(1, window // self._window_ratio(stride))
        return blocks

    def decoder_blocks(self) -> list[Block]:
        """Returns the blocks, latents first. A transformer comes after its convolution; strides double windows."""
        window = self.attn_sliding_window_size
        for _, stride, *_ in self.encoder_blocks():
            window = max(1, window // self._window_ratio(stride))
        blocks = []
        for kernel, stride, layers in self._lists("decoder"):
            window *= self._window_ratio(stride)
            blocks.append(Block(kernel, stride, layers, window))
        return blocks

    def _window_ratio(self, stride: int) -> int:
        return 2 if self.half_attn_window_upon_downsampling and stride > 1 else 1

    def _lists(self, side: str) -> list[tuple[int, ...]]:
        keys = (f"{side}_convs_kernels_str", f"{side}_convs_strides_str", f"{side}_transformer_lengths_str")
        lists = [numbers(getattr(self, key), key) for key in keys]
        if len({len(each) for each in lists}) > 1:
            raise CheckpointError(f"{WHERE}: {', '.join(keys)} must have the same length.")
        return list(zip(*lists, strict=True))

    def layers(self, count: int) -> DecoderConfig:
        """Returns the shape of `count` transformer layers, in the form that `nn` takes."""
        from rhapsode.nn.decoder import DecoderConfig

        return DecoderConfig(
            hidden=self.dim,
            ffn=self.hidden_dim,
            layers=count,
            heads=self.n_heads,
            kv_heads=self.n_kv_heads,
            head_dim=self.head_dim,
            rope=None,
            eps=self.norm_eps,
            qk_norm=self.qk_norm,
            qk_norm_width="all heads",
            qk_norm_eps=self.qk_norm_eps,
        )

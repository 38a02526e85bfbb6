"""The sizes of a Kokoro network: from its configuration, and from its tensors where the configuration is silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from rhapsode.checkpoints.folder import parse, section
from rhapsode.checkpoints.weights import Tensors
from rhapsode.errors import CheckpointError

WHERE = "config.json"


@dataclass(frozen=True)
class AlbertConfig:
    hidden_size: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    num_hidden_layers: int
    embedding_size: int = 128
    layer_norm_eps: float = 1e-12
    type_vocab_size: int = 2


@dataclass(frozen=True)
class VocoderConfig:
    """The decoder's generator; the keys are those of `istftnet`."""

    upsample_rates: tuple[int, ...]
    upsample_kernel_sizes: tuple[int, ...]
    upsample_initial_channel: int
    resblock_kernel_sizes: tuple[int, ...]
    resblock_dilation_sizes: tuple[tuple[int, ...], ...]
    gen_istft_n_fft: int
    gen_istft_hop_size: int

    @property
    def hop(self) -> int:
        """Samples for each of the generator's inputs."""
        return prod(self.upsample_rates) * self.gen_istft_hop_size


@dataclass(frozen=True)
class NetSizes:
    """Sizes that no configuration names; the defaults are those of the published checkpoint."""

    decoder_width: int = 1024
    residual_width: int = 64
    harmonics: int = 9
    noise_kernels: tuple[int, ...] = (7, 11)
    """Of the residual block for the source's spectrum in each stage."""


@dataclass(frozen=True)
class KokoroConfig:
    hidden_dim: int
    style_dim: int
    n_layer: int
    max_dur: int
    n_token: int
    text_encoder_kernel_size: int
    plbert: AlbertConfig
    istftnet: VocoderConfig
    vocab: Mapping[str, int]
    sizes: NetSizes = field(default_factory=NetSizes)

    @property
    def most_phonemes(self) -> int:
        """The longest phoneme string: there is a 0 at either end of it."""
        return self.plbert.max_position_embeddings - 2

    @property
    def samples_per_frame(self) -> int:
        """The generator has two inputs for each frame of a duration."""
        return 2 * self.istftnet.hop


@dataclass(frozen=True)
class _Flat:
    hidden_dim: int
    style_dim: int
    n_layer: int
    max_dur: int
    n_token: int
    text_encoder_kernel_size: int
    vocab: Mapping[str, Any]


def read_config(values: Mapping[str, Any], tensors: Tensors | None = None) -> KokoroConfig:
    """Returns the configuration; with the checkpoint's tensors, the sizes that only these have, too."""
    flat = parse(_Flat, values, WHERE)
    albert = dict(section(values, "plbert", WHERE))
    if tensors is not None:
        albert["embedding_size"] = _shape(tensors, "bert.embeddings.word_embeddings.weight", 2)[1]
    config = KokoroConfig(
        **vars(flat),
        plbert=parse(AlbertConfig, albert, f"'plbert' of {WHERE}"),
        istftnet=_vocoder(section(values, "istftnet", WHERE)),
        sizes=NetSizes() if tensors is None else _sizes(tensors),
    )
    _check_vocabulary(config)
    return config


def _vocoder(values: Mapping[str, Any]) -> VocoderConfig:
    found = parse(VocoderConfig, values, f"'istftnet' of {WHERE}")
    dilations = tuple(tuple(one) for one in found.resblock_dilation_sizes)
    if not len(found.upsample_rates) == len(found.upsample_kernel_sizes) > 0:
        raise CheckpointError(f"'upsample_rates' and 'upsample_kernel_sizes' of {WHERE} must have the same length.")
    if not len(found.resblock_kernel_sizes) == len(dilations) > 0:
        raise CheckpointError(f"'resblock_kernel_sizes' and '..._dilation_sizes' of {WHERE} differ in length.")
    return VocoderConfig(**{**vars(found), "resblock_dilation_sizes": dilations})


def _sizes(tensors: Tensors) -> NetSizes:
    kernels: list[int] = []
    while (name := f"decoder.generator.noise_res.{len(kernels)}.convs1.0.weight") in tensors:
        kernels.append(_shape(tensors, name, 3)[2])
    return NetSizes(
        decoder_width=_shape(tensors, "decoder.encode.conv1.weight", 3)[0],
        residual_width=_shape(tensors, "decoder.asr_res.0.weight", 3)[0],
        harmonics=_shape(tensors, "decoder.generator.m_source.l_linear.weight", 2)[1],
        noise_kernels=tuple(kernels),
    )


def _shape(tensors: Tensors, name: str, axes: int) -> tuple[int, ...]:
    if name not in tensors:
        raise CheckpointError(f"{tensors.folder} lacks the tensor '{name}'.")
    shape = tensors.shape(name)
    if len(shape) != axes:
        raise CheckpointError(f"the tensor '{name}' of {tensors.folder} must have {axes} axes, not {len(shape)}.")
    return shape


def _check_vocabulary(config: KokoroConfig) -> None:
    for symbol, number in config.vocab.items():
        if len(symbol) != 1 or not isinstance(number, int) or not 0 < number < config.n_token:
            raise CheckpointError(
                f"'vocab' of {WHERE} must hold single characters with ids from 1 to {config.n_token - 1}, "
                f"not {symbol!r}: {number!r}."
            )

"""Tiny random Higgs codecs in the published layout, made with NumPy alone: the same everywhere.

`tensors` can also be part of a checkpoint of v3, whose codec is inside it, under a prefix.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tiny import weights

SAMPLE_RATE, HOP = 24_000, 960
LATENT, SEMANTIC, CONV, FFN = 8, 12, 6, 20
UP, DOWN = (8, 4, 5, 3, 2), (2, 5, 4, 8, 3)  # not in the published order
ENCODER_DIM, DECODER_DIM, BOOK_DIM = 2, 32, 4
KERNELS, STRIDES = (10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2)
POSITIONS, GROUPS, LAYERS = 6, 3, 2

Named = Iterator[tuple[str, np.ndarray]]


@dataclass(frozen=True)
class TinyCodec:
    """The recipe of one codec."""

    books: int = 3
    codes: int = 16
    seed: int = 6


def config(tiny: TinyCodec) -> dict:
    """`config.json`."""
    kbit_s = tiny.books * 25 * (tiny.codes - 1).bit_length() / 1000 + 0.001  # upstream rounds down
    return {
        "model_type": "higgs_audio_v2_tokenizer",
        "architectures": ["HiggsAudioV2TokenizerModel"],
        "acoustic_model_config": {
            "model_type": "dac", "hidden_size": LATENT, "encoder_hidden_size": ENCODER_DIM,
            "decoder_hidden_size": DECODER_DIM, "downsampling_ratios": list(DOWN), "upsampling_ratios": list(UP),
        },
        "semantic_model_config": {
            "model_type": "hubert", "hidden_size": SEMANTIC, "num_hidden_layers": LAYERS, "num_attention_heads": 2,
            "intermediate_size": FFN, "conv_dim": [CONV] * len(KERNELS), "conv_kernel": list(KERNELS),
            "conv_stride": list(STRIDES), "conv_bias": False, "feat_extract_norm": "group",
            "do_stable_layer_norm": False, "num_conv_pos_embeddings": POSITIONS,
            "num_conv_pos_embedding_groups": GROUPS, "layer_norm_eps": 1e-5,
        },
        "codebook_size": tiny.codes, "codebook_dim": BOOK_DIM, "target_bandwidths": [kbit_s / 2, kbit_s],
        "sample_rate": SAMPLE_RATE, "semantic_sample_rate": 16_000, "downsample_factor": 320, "kernel_size": 3,
        "unit_kernel_size": 3, "channel_ratios": [1, 1], "strides": [1, 1], "block_dilations": [1, 2],
    }  # fmt: skip


def write(folder: Path, tiny: TinyCodec | None = None) -> str:
    """Writes a codec in a folder of its own, as v2 has it; returns the fingerprint of its tensors."""
    tiny = tiny or TinyCodec()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(tiny), indent=1))
    made = tensors(tiny)
    weights.save(folder, made)
    return weights.digest(made)


def recording(samples: int) -> np.ndarray:
    """A tone that rises, with noise: float32 samples within [-0.5, 0.5]."""
    t = np.arange(samples) / SAMPLE_RATE
    noise = weights.uniform(f"recording {samples}", (samples,), -0.1, 0.1, 0)
    return (0.3 * np.sin(2 * np.pi * (150 + 90 * t) * t) + noise).astype(np.float32)


def frames(count: int, tiny: TinyCodec | None = None) -> np.ndarray:
    """Codes of so many frames, `[count, books]`."""
    tiny = tiny or TinyCodec()
    return weights.uniform("frames", (count, tiny.books), 0, tiny.codes, tiny.seed).astype(np.int64)


def tensors(tiny: TinyCodec, prefix: str = "") -> dict[str, np.ndarray]:
    """All tensors of the published layout, those that only training needs included."""
    return {f"{prefix}{name}": tensor for name, tensor in _Maker(tiny).all()}


class _Maker:
    def __init__(self, tiny: TinyCodec) -> None:
        self._tiny = tiny

    def all(self) -> Named:
        yield from self._decoder("acoustic_decoder")
        yield from self._encoder("acoustic_encoder")
        yield from self._hubert("semantic_model")
        for half in ("encoder_semantic", "decoder_semantic"):
            yield from self._semantic(half)
        both = LATENT + SEMANTIC
        for name, outputs in (("fc", both), ("fc1", SEMANTIC), ("fc2", LATENT)):
            yield from self._weight(name, (outputs, both))
        for i in range(self._tiny.books):
            yield from self._book(f"quantizer.quantizers.{i}", both, 0.7**i)

    def _uniform(self, name: str, shape: tuple[int, ...], low: float, high: float) -> Named:
        yield name, weights.uniform(name, shape, low, high, self._tiny.seed)

    def _weight(self, name: str, shape: tuple[int, ...], gain: float = 1.0, bias: int | None = None) -> Named:
        """A matrix or convolution whose outputs vary as its inputs do, with `bias` outputs; 0: without."""
        fan_in = float(np.prod(shape[1:]))
        yield f"{name}.weight", weights.spread(f"{name}.weight", shape, gain / fan_in**0.5, self._tiny.seed)
        if bias != 0:
            yield from self._uniform(f"{name}.bias", (bias or shape[0],), -0.05, 0.05)

    def _norm(self, name: str, size: int) -> Named:
        yield from self._uniform(f"{name}.weight", (size,), 0.7, 1.3)
        yield from self._uniform(f"{name}.bias", (size,), -0.1, 0.1)

    def _snake(self, name: str, channels: int) -> Named:
        # All positive, unlike those of `weights.snake`: upstream's outputs for this codec are committed.
        yield from self._uniform(f"{name}.alpha", (1, channels, 1), 0.6, 1.6)

    def _units(self, path: str, dim: int) -> Named:
        for i in (1, 2, 3):
            unit = f"{path}.res_unit{i}"
            yield from self._snake(f"{unit}.snake1", dim)
            yield from self._weight(f"{unit}.conv1", (dim, dim, 7))
            yield from self._snake(f"{unit}.snake2", dim)
            yield from self._weight(f"{unit}.conv2", (dim, dim, 1), gain=0.4)

    def _decoder(self, path: str) -> Named:
        yield from self._weight(f"{path}.conv1", (DECODER_DIM, LATENT, 7))
        dim = DECODER_DIM
        for i, rate in enumerate(UP):
            yield from self._snake(f"{path}.block.{i}.snake1", dim)
            yield from self._weight(f"{path}.block.{i}.conv_t1", (dim, dim // 2, 2 * rate), gain=1.4, bias=dim // 2)
            dim //= 2
            yield from self._units(f"{path}.block.{i}", dim)
        yield from self._snake(f"{path}.snake1", dim)
        yield from self._weight(f"{path}.conv2", (1, dim, 7), gain=0.04)

    def _encoder(self, path: str) -> Named:
        yield from self._weight(f"{path}.conv1", (ENCODER_DIM, 1, 7), gain=2.0)
        dim = ENCODER_DIM
        for i, rate in enumerate(DOWN):
            yield from self._units(f"{path}.block.{i}", dim)
            yield from self._snake(f"{path}.block.{i}.snake1", dim)
            yield from self._weight(f"{path}.block.{i}.conv1", (2 * dim, dim, 2 * rate))
            dim *= 2
        yield from self._snake(f"{path}.snake1", dim)
        yield from self._weight(f"{path}.conv2", (LATENT, dim, 3))

    def _hubert(self, path: str) -> Named:
        yield from self._uniform(f"{path}.masked_spec_embed", (SEMANTIC,), 0, 1)
        for i, kernel in enumerate(KERNELS):
            layer = f"{path}.feature_extractor.conv_layers.{i}"
            yield from self._weight(f"{layer}.conv", (CONV, CONV if i else 1, kernel), gain=1.5, bias=0)
            if not i:
                yield from self._norm(f"{layer}.layer_norm", CONV)
        yield from self._norm(f"{path}.feature_projection.layer_norm", CONV)
        yield from self._weight(f"{path}.feature_projection.projection", (SEMANTIC, CONV))
        normed = f"{path}.encoder.pos_conv_embed.conv"
        shape = (SEMANTIC, SEMANTIC // GROUPS, POSITIONS)
        yield from self._uniform(f"{normed}.parametrizations.weight.original0", (1, 1, POSITIONS), 0.5, 1.5)
        yield from self._uniform(f"{normed}.parametrizations.weight.original1", shape, -1, 1)
        yield from self._uniform(f"{normed}.bias", (SEMANTIC,), -0.05, 0.05)
        yield from self._norm(f"{path}.encoder.layer_norm", SEMANTIC)
        for i in range(LAYERS):
            yield from self._layer(f"{path}.encoder.layers.{i}")

    def _layer(self, path: str) -> Named:
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield from self._weight(f"{path}.attention.{part}", (SEMANTIC, SEMANTIC))
        yield from self._norm(f"{path}.layer_norm", SEMANTIC)
        yield from self._weight(f"{path}.feed_forward.intermediate_dense", (FFN, SEMANTIC))
        yield from self._weight(f"{path}.feed_forward.output_dense", (SEMANTIC, FFN))
        yield from self._norm(f"{path}.final_layer_norm", SEMANTIC)

    def _semantic(self, path: str) -> Named:
        square = (SEMANTIC, SEMANTIC)
        ends = ("conv",) if path.startswith("encoder") else ("conv1", "conv2")
        for name in ends:
            yield from self._weight(f"{path}.{name}", (*square, 3), bias=0)
        for i in (0, 1):
            block = f"{path}.conv_blocks.{i}"
            for j in (0, 1):
                yield from self._weight(f"{block}.res_units.{j}.conv1", (*square, 3), bias=0)
                yield from self._weight(f"{block}.res_units.{j}.conv2", (*square, 1), gain=0.5, bias=0)
            yield from self._weight(f"{block}.conv", (*square, 3))

    def _book(self, path: str, both: int, size: float) -> Named:
        codes = self._tiny.codes
        yield from self._weight(f"{path}.project_in", (BOOK_DIM, both))
        yield from self._weight(f"{path}.project_out", (both, BOOK_DIM))
        for name in ("embed", "embed_avg"):
            yield from self._uniform(f"{path}.codebook.{name}", (codes, BOOK_DIM), -1.5 * size, 1.5 * size)
        yield f"{path}.codebook.cluster_size", np.ones(codes, np.float32)
        yield f"{path}.codebook.inited", np.ones(1, np.float32)

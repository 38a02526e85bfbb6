"""Tiny random flow and vocoder of CosyVoice3 in the published layout: sections of the YAML file, tensors by name."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tiny import weights

TIME_CHANNELS, POSITION_KERNEL, GROUPS = 256, 31, 16


@dataclass(frozen=True)
class TinySound:
    """The recipe of both networks."""

    tokens: int = 40
    mel: int = 12
    speaker: int = 10
    chunk_tokens: int = 4
    dim: int = 32
    depth: int = 2
    heads: int = 2
    head_dim: int = 8
    base: int = 32
    rates: tuple[int, ...] = (2, 3, 2)
    f0: int = 8
    blocks: int = 2
    """Residual blocks of a stage, and layers of each."""
    seed: int = 0

    @property
    def hop(self) -> int:
        return 4 * int(np.prod(self.rates))


def flow_section(tiny: TinySound) -> dict:
    """The section `flow`, with its references resolved."""
    return {
        "input_size": tiny.mel,
        "output_size": tiny.mel,
        "spk_embed_dim": tiny.speaker,
        "vocab_size": tiny.tokens,
        "token_mel_ratio": 2,
        "pre_lookahead_len": 3,
        "pre_lookahead_layer": {"in_channels": tiny.mel, "channels": 14, "pre_lookahead_len": 3},
        "decoder": {
            "cfm_params": {"content": {"inference_cfg_rate": 0.7}},
            "estimator": {
                "dim": tiny.dim,
                "depth": tiny.depth,
                "heads": tiny.heads,
                "dim_head": tiny.head_dim,
                "ff_mult": 2,
                "static_chunk_size": 2 * tiny.chunk_tokens,
            },
        },
    }


def hift_section(tiny: TinySound) -> dict:
    """The section `hift`."""
    return {
        "in_channels": tiny.mel,
        "base_channels": tiny.base,
        "nb_harmonics": 8,
        "sampling_rate": 24000,
        "nsf_alpha": 0.1,
        "nsf_sigma": 0.003,
        "nsf_voiced_threshold": 10,
        "upsample_rates": list(tiny.rates),
        "upsample_kernel_sizes": [7, 5, 3],
        "istft_params": {"n_fft": 16, "hop_len": 4},
        "resblock_kernel_sizes": [3, 5][: tiny.blocks],
        "resblock_dilation_sizes": [dilations[: tiny.blocks] for dilations in ([1, 3], [1, 2])][: tiny.blocks],
        "source_resblock_kernel_sizes": [3, 3, 5],
        "source_resblock_dilation_sizes": [dilations[: tiny.blocks] for dilations in ([1, 3], [1, 3], [1, 2])],
        "lrelu_slope": 0.1,
        "audio_limit": 0.99,
        "conv_pre_look_right": 4,
        "f0_predictor": {"num_class": 1, "in_channels": tiny.mel, "cond_channels": tiny.f0},
    }


def flow_tensors(tiny: TinySound) -> dict[str, np.ndarray]:
    """The tensors of `flow.pt`."""
    shapes = dict(_flow_shapes(tiny))
    made = {name: _tensor(f"flow/{name}", shape, tiny.seed) for name, shape in shapes.items()}
    made["input_embedding.weight"] = weights.spread("flow/tokens", (tiny.tokens, tiny.mel), 0.8, tiny.seed)
    made["decoder.estimator.rotary_embed.inv_freq"] = _inv_freq(tiny.head_dim)
    return made


def hift_tensors(tiny: TinySound) -> dict[str, np.ndarray]:
    """The tensors of `hift.pt`, convolutions with weight norm."""
    made = {name: _tensor(f"hift/{name}", shape, tiny.seed) for name, shape in _hift_shapes(tiny)}
    for name in [name for name in made if name.endswith("original0")]:
        made[name] = np.abs(made[name]) * 0.3 + 0.3
    for name in [name for name in made if name.endswith("alpha")]:
        made[name] = np.abs(made[name]) * 4 + 0.5
        made[name][weights.NEGATIVE] *= -1
    made["f0_predictor.classifier.weight"] *= 300.0  # hertz
    made["conv_post.bias"] += 1.0  # loud enough to hear differences
    return made


def _tensor(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    if len(shape) == 1:
        return weights.spread(name, shape, 0.1, seed)
    return weights.spread(name, shape, float(np.prod(shape[1:])) ** -0.5, seed)


def _inv_freq(head_dim: int) -> np.ndarray:
    return (10_000.0 ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)).astype(np.float32)


def _linear(name: str, outputs: int, *inputs: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (outputs, *inputs)
    yield f"{name}.bias", (outputs,)


def _flow_shapes(tiny: TinySound) -> Iterator[tuple[str, tuple[int, ...]]]:
    dim, inner, at = tiny.dim, tiny.heads * tiny.head_dim, "decoder.estimator"
    yield "input_embedding.weight", (tiny.tokens, tiny.mel)
    yield from _linear("spk_embed_affine_layer", tiny.mel, tiny.speaker)
    yield from _linear("pre_lookahead_layer.conv1", 14, tiny.mel, 4)
    yield from _linear("pre_lookahead_layer.conv2", tiny.mel, 14, 3)
    yield from _linear(f"{at}.time_embed.time_mlp.0", dim, TIME_CHANNELS)
    yield from _linear(f"{at}.time_embed.time_mlp.2", dim, dim)
    yield from _linear(f"{at}.input_embed.proj", dim, 4 * tiny.mel)
    for conv in ("conv1", "conv2"):
        yield from _linear(f"{at}.input_embed.conv_pos_embed.{conv}.0", dim, dim // GROUPS, POSITION_KERNEL)
    yield f"{at}.rotary_embed.inv_freq", (tiny.head_dim // 2,)
    for i in range(tiny.depth):
        layer = f"{at}.transformer_blocks.{i}"
        yield from _linear(f"{layer}.attn_norm.linear", 6 * dim, dim)
        for one in "qkv":
            yield from _linear(f"{layer}.attn.to_{one}", inner, dim)
        yield from _linear(f"{layer}.attn.to_out.0", dim, inner)
        yield from _linear(f"{layer}.ff.ff.0.0", 2 * dim, dim)
        yield from _linear(f"{layer}.ff.ff.2", dim, 2 * dim)
    yield from _linear(f"{at}.norm_out.linear", 2 * dim, dim)
    yield from _linear(f"{at}.proj_out", tiny.mel, dim)


def _normed(name: str, outputs: int, inputs: int, kernel: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.bias", (outputs,)
    yield f"{name}.parametrizations.weight.original0", (outputs, 1, 1)
    yield f"{name}.parametrizations.weight.original1", (outputs, inputs, kernel)


def _block(name: str, channels: int, kernel: int, count: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for i in range(count):
        for half in (1, 2):
            yield from _normed(f"{name}.convs{half}.{i}", channels, channels, kernel)
            yield f"{name}.activations{half}.{i}.alpha", (channels,)


def _hift_shapes(tiny: TinySound) -> Iterator[tuple[str, tuple[int, ...]]]:
    section = hift_section(tiny)
    yield from _linear("m_source.l_linear", 1, 9)
    yield from _normed("conv_pre", tiny.base, tiny.mel, 5)
    kernels = list(zip(section["resblock_kernel_sizes"], section["resblock_dilation_sizes"], strict=True))
    for i, kernel in enumerate(section["upsample_kernel_sizes"]):
        channels, stride = tiny.base >> (i + 1), int(np.prod(tiny.rates[i + 1 :]))
        yield from _normed(f"ups.{i}", channels, 2 * channels, kernel)
        yield from _linear(f"source_downs.{i}", channels, 18, 2 * stride if stride > 1 else 1)
        dilations = section["source_resblock_dilation_sizes"][i]
        yield from _block(f"source_resblocks.{i}", channels, section["source_resblock_kernel_sizes"][i], len(dilations))
        for j, (size, dilations) in enumerate(kernels):
            yield from _block(f"resblocks.{i * len(kernels) + j}", channels, size, len(dilations))
    yield from _normed("conv_post", 18, tiny.base >> len(tiny.rates), 7)
    yield from _normed("f0_predictor.condnet.0", tiny.f0, tiny.mel, 4)
    for i in (2, 4, 6, 8):
        yield from _normed(f"f0_predictor.condnet.{i}", tiny.f0, tiny.f0, 3)
    yield from _linear("f0_predictor.classifier", 1, tiny.f0)

"""The acoustic half of a tiny Chatterbox checkpoint in the published layout: the files `s3gen` and `ve`.

Every number comes from the raw output of a PCG64 generator that is seeded by the tensor's name, so that the files are
the same everywhere. With `ORIGINAL` and `TURBO` they are those that the golden data was made with.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod, sqrt
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from rhapsode.nn.mel import MelConfig, filterbank

Shaped = Iterator[tuple[str, tuple[int, ...]]]
SPEECH_CODES, MEL, SPEAKER = 6561, 80, 192
XVECTOR_LAYERS = (12, 24, 16)
SHARP = ("linear_q.weight", "linear_k.weight", "linear_pos.weight", "to_q.weight", "to_k.weight")
"""Weights that are larger than usual, so that attention has a clear choice."""


@dataclass(frozen=True)
class TinyS3Gen:
    """The recipe of one pair of files."""

    salt: str
    """Part of the seed of each tensor."""
    meanflow: bool = False
    tokenizer: int = 64
    growth: int = 8
    flow: int = 32
    flow_ffn: int = 48
    estimator: int = 32
    time: int = 128
    vocoder: int = 32
    f0: int = 12
    level: float = -5.2
    """The logarithm of how loud the vocoder is."""
    voice: int = 24
    voice_out: int = 32


ORIGINAL, TURBO = TinyS3Gen("pub/s3gen"), TinyS3Gen("pub/s3gen-mf", meanflow=True, level=-1.3)
VOICE_SALTS = {ORIGINAL.salt: "pub/ve", TURBO.salt: "pub/ve-turbo"}


def s3gen_tensors(tiny: TinyS3Gen) -> dict[str, np.ndarray]:
    """The tensors of `s3gen.safetensors`, or of `s3gen_meanflow.safetensors`."""
    parts = (_tokenizer(tiny), _xvector(tiny), _flow(tiny), _vocoder(tiny))
    made = {name: _tensor(tiny.salt, name, shape) for part in parts for name, shape in part}
    made["mel2wav.conv_post.bias"] = _tensor(tiny.salt, "mel2wav.conv_post.bias", (18,), (tiny.level, 0.15))
    whisper = MelConfig(sample_rate=16_000, n_fft=400, hop=160, bands=128, high_hz=8_000)
    made["tokenizer._mel_filters"] = filterbank(whisper)
    made["tokenizer.window"] = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)).astype(np.float32)
    return dict(sorted(made.items()))


def voice_tensors(tiny: TinyS3Gen) -> dict[str, np.ndarray]:
    """The tensors of `ve.safetensors`."""
    salt = VOICE_SALTS.get(tiny.salt, tiny.salt)
    return dict(sorted((name, _tensor(salt, name, shape)) for name, shape in _voice(tiny)))


def write(folder: Path, tiny: TinyS3Gen) -> None:
    """Writes both files."""
    name = "s3gen_meanflow" if tiny.meanflow else "s3gen"
    save_file(s3gen_tensors(tiny), folder / f"{name}.safetensors")
    save_file(voice_tensors(tiny), folder / "ve.safetensors")


# --- values ---


def _tensor(salt: str, name: str, shape: tuple[int, ...], values: tuple[float, float] | None = None) -> np.ndarray:
    if name.endswith("num_batches_tracked"):
        return np.zeros(shape, np.int64)
    bits = np.random.PCG64(zlib.crc32(f"{salt}/{name}".encode())).random_raw(prod(shape)) >> np.uint64(40)
    middle, width = values or _range(name, shape)
    return (middle + width * (bits.astype(np.float64) / 2**23 - 1.0)).astype(np.float32).reshape(shape)


def _range(name: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """The middle and half of the width of a tensor's values."""
    special = {
        "input_embedding.weight": (0, 1.2),
        "pos_bias_u": (0, 0.5),
        "pos_bias_v": (0, 0.5),
        "l_linear.weight": (0, 0.6),
        "l_linear.bias": (0, 0.6),
        "classifier.weight": (0, 60.0),  # hertz
        "classifier.bias": (60.0, 0),
        "conv_post.parametrizations.weight.original0": (0.3, 0.1),
        "original0": (1.0, 0.4),
        "original1": (0, 1.0),
        "alpha": (1.0, 0.6),
        "running_mean": (0.0, 0.3),
        "running_var": (1.0, 0.5),
        "similarity_weight": (10.0, 0),
        "similarity_bias": (-5.0, 0),
    }
    if found := next((values for end, values in special.items() if name.endswith(end)), None):
        return found
    if len(shape) == 1:
        return (0, 0.15) if name.rpartition(".")[2].startswith("bias") else (1.0, 0.3)
    gain = 1.7 if name.endswith(SHARP) else 1.6 if "project_down" in name else 1.0
    return 0, gain * sqrt(3 / prod(shape[1:]))


# --- shapes ---


def _linear(name: str, *shape: int, bias: bool = True) -> Shaped:
    yield f"{name}.weight", shape
    if bias:
        yield f"{name}.bias", shape[:1]


def _norm(name: str, channels: int) -> Shaped:
    yield f"{name}.weight", (channels,)
    yield f"{name}.bias", (channels,)


def _batch_norm(name: str, channels: int, affine: bool = True) -> Shaped:
    if affine:
        yield from _norm(name, channels)
    yield f"{name}.running_mean", (channels,)
    yield f"{name}.running_var", (channels,)
    yield f"{name}.num_batches_tracked", ()


def _tokenizer(tiny: TinyS3Gen) -> Shaped:
    hidden = tiny.tokenizer
    yield from _linear("tokenizer.encoder.conv1", hidden, 128, 3)
    yield from _linear("tokenizer.encoder.conv2", hidden, hidden, 3)
    for i in range(2):
        block = f"tokenizer.encoder.blocks.{i}"
        for one in ("query", "key", "value", "out"):
            yield from _linear(f"{block}.attn.{one}", hidden, hidden, bias=one != "key")
        yield from _linear(f"{block}.attn.fsmn_block", hidden, 1, 31, bias=False)
        yield from _norm(f"{block}.attn_ln", hidden)
        yield from _linear(f"{block}.mlp.0", 4 * hidden, hidden)
        yield from _linear(f"{block}.mlp.2", hidden, 4 * hidden)
        yield from _norm(f"{block}.mlp_ln", hidden)
    yield from _linear("tokenizer.quantizer._codebook.project_down", 8, hidden)


def _xvector(tiny: TinyS3Gen) -> Shaped:
    head, width, growth = "speaker_encoder.head", 32, tiny.growth
    yield from _linear(f"{head}.conv1", width, 1, 3, 3, bias=False)
    yield from _batch_norm(f"{head}.bn1", width)
    for layer in ("layer1", "layer2"):
        for i in range(2):
            block = f"{head}.{layer}.{i}"
            for conv in "12":
                yield from _linear(f"{block}.conv{conv}", width, width, 3, 3, bias=False)
                yield from _batch_norm(f"{block}.bn{conv}", width)
            if i == 0:  # the one with a stride
                yield from _linear(f"{block}.shortcut.0", width, width, 1, 1, bias=False)
                yield from _batch_norm(f"{block}.shortcut.1", width)
    yield from _linear(f"{head}.conv2", width, width, 3, 3, bias=False)
    yield from _batch_norm(f"{head}.bn2", width)
    body, channels, inner = "speaker_encoder.xvector", 2 * growth, 4 * growth
    yield from _linear(f"{body}.tdnn.linear", channels, 320, 5, bias=False)
    yield from _batch_norm(f"{body}.tdnn.nonlinear.batchnorm", channels)
    for i, layers in enumerate(XVECTOR_LAYERS, start=1):
        for j in range(1, layers + 1):
            layer = f"{body}.block{i}.tdnnd{j}"
            yield from _batch_norm(f"{layer}.nonlinear1.batchnorm", channels)
            yield from _linear(f"{layer}.linear1", inner, channels, 1, bias=False)
            yield from _batch_norm(f"{layer}.nonlinear2.batchnorm", inner)
            yield from _linear(f"{layer}.cam_layer.linear_local", growth, inner, 3, bias=False)
            yield from _linear(f"{layer}.cam_layer.linear1", inner // 2, inner, 1)
            yield from _linear(f"{layer}.cam_layer.linear2", growth, inner // 2, 1)
            channels += growth
        yield from _batch_norm(f"{body}.transit{i}.nonlinear.batchnorm", channels)
        yield from _linear(f"{body}.transit{i}.linear", channels // 2, channels, 1, bias=False)
        channels //= 2
    yield from _batch_norm(f"{body}.out_nonlinear.batchnorm", channels)
    yield from _linear(f"{body}.dense.linear", SPEAKER, 2 * channels, 1, bias=False)
    yield from _batch_norm(f"{body}.dense.nonlinear.batchnorm", SPEAKER, affine=False)


def _flow(tiny: TinyS3Gen) -> Shaped:
    hidden, encoder = tiny.flow, "flow.encoder"
    yield "flow.input_embedding.weight", (SPEECH_CODES, hidden)
    yield from _linear("flow.spk_embed_affine_layer", MEL, SPEAKER)
    for embed in ("embed", "up_embed"):
        yield from _linear(f"{encoder}.{embed}.out.0", hidden, hidden)
        yield from _norm(f"{encoder}.{embed}.out.1", hidden)
    yield from _norm(f"{encoder}.after_norm", hidden)
    yield from _linear(f"{encoder}.pre_lookahead_layer.conv1", hidden, hidden, 4)
    yield from _linear(f"{encoder}.pre_lookahead_layer.conv2", hidden, hidden, 3)
    yield from _linear(f"{encoder}.up_layer.conv", hidden, hidden, 5)
    for layers in ("encoders", "up_encoders"):
        for i in range(2):
            layer = f"{encoder}.{layers}.{i}"
            for one in ("q", "k", "v", "out", "pos"):
                yield from _linear(f"{layer}.self_attn.linear_{one}", hidden, hidden, bias=one != "pos")
            for one in "uv":
                yield f"{layer}.self_attn.pos_bias_{one}", (2, hidden // 2)
            yield from _linear(f"{layer}.feed_forward.w_1", tiny.flow_ffn, hidden)
            yield from _linear(f"{layer}.feed_forward.w_2", hidden, tiny.flow_ffn)
            yield from _norm(f"{layer}.norm_ff", hidden)
            yield from _norm(f"{layer}.norm_mha", hidden)
    yield from _linear("flow.encoder_proj", MEL, hidden)
    yield from _estimator(tiny)


def _estimator(tiny: TinyS3Gen) -> Shaped:
    at, channels, time = "flow.decoder.estimator", tiny.estimator, tiny.time
    yield from _linear(f"{at}.time_mlp.linear_1", time, 4 * MEL)
    yield from _linear(f"{at}.time_mlp.linear_2", time, time)
    if tiny.meanflow:
        yield f"{at}.time_embed_mixer.weight", (time, 2 * time)
    inputs = {"down_blocks.0": 4 * MEL, "mid_blocks.0": channels, "mid_blocks.1": channels, "up_blocks.0": 2 * channels}
    for name, width in inputs.items():
        yield from _linear(f"{at}.{name}.0.mlp.1", channels, time)
        for block, given in (("block1", width), ("block2", channels)):
            yield from _linear(f"{at}.{name}.0.{block}.block.0", channels, given, 3)
            yield from _norm(f"{at}.{name}.0.{block}.block.2", channels)
        yield from _linear(f"{at}.{name}.0.res_conv", channels, width, 1)
        layer = f"{at}.{name}.1.0"
        yield from _norm(f"{layer}.norm1", channels)
        for one in "qkv":
            yield f"{layer}.attn1.to_{one}.weight", (64, channels)
        yield from _linear(f"{layer}.attn1.to_out.0", channels, 64)
        yield from _norm(f"{layer}.norm3", channels)
        yield from _linear(f"{layer}.ff.net.0.proj", 4 * channels, channels)
        yield from _linear(f"{layer}.ff.net.2", channels, 4 * channels)
        if "mid" not in name:
            yield from _linear(f"{at}.{name}.2", channels, channels, 3)
    yield from _linear(f"{at}.final_block.block.0", channels, channels, 3)
    yield from _norm(f"{at}.final_block.block.2", channels)
    yield from _linear(f"{at}.final_proj", MEL, channels, 1)


def _normed(name: str, outputs: int, inputs: int, kernel: int, transposed: bool = False) -> Shaped:
    yield f"{name}.bias", (outputs,)
    shape = (inputs, outputs, kernel) if transposed else (outputs, inputs, kernel)
    yield f"{name}.parametrizations.weight.original0", (shape[0], 1, 1)
    yield f"{name}.parametrizations.weight.original1", shape


def _vocoder(tiny: TinyS3Gen) -> Shaped:
    base = tiny.vocoder
    yield from _linear("mel2wav.m_source.l_linear", 1, 9)
    yield from _normed("mel2wav.conv_pre", base, MEL, 7)
    sizes = zip((16, 11, 7), (30, 6, 1), (7, 7, 11), strict=True)
    for i, (kernel, source, source_block) in enumerate(sizes):
        channels = base >> (i + 1)
        yield from _normed(f"mel2wav.ups.{i}", channels, 2 * channels, kernel, transposed=True)
        yield from _linear(f"mel2wav.source_downs.{i}", channels, 18, source)
        yield from _vocoder_block(f"mel2wav.source_resblocks.{i}", channels, source_block)
        for j, size in enumerate((3, 7, 11)):
            yield from _vocoder_block(f"mel2wav.resblocks.{3 * i + j}", channels, size)
    yield from _normed("mel2wav.conv_post", 18, base >> 3, 7)
    yield from _normed("mel2wav.f0_predictor.condnet.0", tiny.f0, MEL, 3)
    for i in (2, 4, 6, 8):
        yield from _normed(f"mel2wav.f0_predictor.condnet.{i}", tiny.f0, tiny.f0, 3)
    yield from _linear("mel2wav.f0_predictor.classifier", 1, tiny.f0)


def _vocoder_block(name: str, channels: int, kernel: int) -> Shaped:
    for i in range(3):
        for half in (1, 2):
            yield from _normed(f"{name}.convs{half}.{i}", channels, channels, kernel)
            yield f"{name}.activations{half}.{i}.alpha", (channels,)


def _voice(tiny: TinyS3Gen) -> Shaped:
    hidden = tiny.voice
    yield "similarity_weight", (1,)
    yield "similarity_bias", (1,)
    for i in range(3):
        yield f"lstm.weight_ih_l{i}", (4 * hidden, hidden if i else 40)
        yield f"lstm.weight_hh_l{i}", (4 * hidden, hidden)
        yield f"lstm.bias_ih_l{i}", (4 * hidden,)
        yield f"lstm.bias_hh_l{i}", (4 * hidden,)
    yield from _linear("proj", tiny.voice_out, hidden)

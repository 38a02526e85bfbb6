"""Tiny random Fish S2-Pro checkpoints in the published layout, made with NumPy alone: the same everywhere.

The codec is `codec.safetensors`, with the names of the published `codec.pth`: that format cannot be written without
torch. The tokenizer has bytes, a few merges and the control tokens.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from rhapsode.bench.engine.byte_tokenizer import description
from tiny import weights

SAMPLE_RATE = 44_100
CODES, BOOKS = 40, 4
DIM, FAST_DIM, HEADS, KV_HEADS, HEAD_DIM, FAST_HEAD_DIM = 32, 24, 4, 2, 10, 8
LATENT, CODE_DIM, RESIDUAL_CODES = 64, 6, 12
ENCODER_DIM, ENCODER_RATES = 16, (2, 3)
DECODER_DIM, DECODER_RATES = 16, (3, 2)
RATIOS = (2, 2)
HOP = 24
CONTROL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>", "<|phoneme_start|>", "<|phoneme_end|>", "<|voice|>",
    *(f"<|semantic:{i}|>" for i in range(CODES)),
)  # fmt: skip


@dataclass(frozen=True)
class Tiny:
    """The recipe of one checkpoint."""

    end_gain: float = 1.0
    """How far the logit of the end swings; 1.0 swings like any other token."""
    max_seq_len: int = 4096
    seed: int = 0


def tokenizer() -> dict:
    """`tokenizer.json`: the byte tokenizer of the benchmarks with control tokens added."""
    made = description()
    first = len(made["model"]["vocab"])
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    made["added_tokens"] = [{"id": first + i, "content": name} | flags for i, name in enumerate(CONTROL)]
    return made


def config(tiny: Tiny) -> dict:
    ids = {token["content"]: token["id"] for token in tokenizer()["added_tokens"]}
    layers = {"intermediate_size": 48, "n_head": HEADS, "n_local_heads": KV_HEADS, "use_moe": False}
    shared = {"rope_base": 1_000_000, "norm_eps": 1e-6, "attention_qkv_bias": False, "attention_o_bias": False}
    return {
        "architectures": ["FishQwen3OmniForCausalLM"],
        "model_type": "fish_qwen3_omni",
        "eos_token_id": ids["<|im_end|>"],
        "semantic_start_token_id": ids["<|semantic:0|>"],
        "semantic_end_token_id": ids[f"<|semantic:{CODES - 1}|>"],
        "text_config": {
            **layers, **shared, "dim": DIM, "n_layer": 2, "head_dim": HEAD_DIM, "vocab_size": max(ids.values()) + 3,
            "attention_qk_norm": True, "tie_word_embeddings": True, "max_seq_len": tiny.max_seq_len,
        },
        "audio_decoder_config": {
            **layers, **shared, "dim": FAST_DIM, "n_layer": 1, "head_dim": FAST_HEAD_DIM, "vocab_size": CODES,
            "attention_qk_norm": False, "tie_word_embeddings": False, "text_dim": DIM, "num_codebooks": BOOKS,
        },
    }  # fmt: skip


def write(folder: Path, tiny: Tiny | None = None, shards: int = 2) -> str:
    """Writes a checkpoint; returns the fingerprint of its tensors."""
    tiny = tiny or Tiny()
    folder.mkdir(parents=True, exist_ok=True)
    settings = config(tiny)
    (folder / "config.json").write_text(json.dumps(settings, indent=1))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(), ensure_ascii=False), encoding="utf-8")
    model, codec = dict(model_tensors(tiny, settings)), dict(codec_tensors(tiny.seed))
    weights.save(folder, model, shards)
    save_file(codec, folder / "codec.safetensors", metadata={"format": "pt"})
    return weights.digest(model | {f"codec.{name}": tensor for name, tensor in codec.items()})


Named = Iterator[tuple[str, np.ndarray]]


def _matrix(name: str, shape: tuple[int, ...], seed: int, gain: float = 1.0) -> Named:
    yield name, weights.spread(name, shape, gain / float(np.prod(shape[1:])) ** 0.5, seed)


def _vector(name: str, size: int, low: float, high: float, seed: int) -> Named:
    yield name, weights.uniform(name, (size,), low, high, seed)


def _layers(path: str, c: dict, seed: int) -> Named:
    dim, ffn, head = c["dim"], c["intermediate_size"], c["head_dim"]
    for i in range(c["n_layer"]):
        at = f"{path}.layers.{i}"
        yield from _matrix(f"{at}.attention.wqkv.weight", ((HEADS + 2 * KV_HEADS) * head, dim), seed)
        yield from _matrix(f"{at}.attention.wo.weight", (dim, HEADS * head), seed)
        for part, shape in (("w1", (ffn, dim)), ("w3", (ffn, dim)), ("w2", (dim, ffn))):
            yield from _matrix(f"{at}.feed_forward.{part}.weight", shape, seed)
        for norm in ("attention_norm", "ffn_norm"):
            yield from _vector(f"{at}.{norm}.weight", dim, 0.7, 1.3, seed)
        for norm in ("q_norm", "k_norm") if c["attention_qk_norm"] else ():
            yield from _vector(f"{at}.attention.{norm}.weight", head, 0.7, 1.3, seed)
    yield from _vector(f"{path}.norm.weight", dim, 0.7, 1.3, seed)


def model_tensors(tiny: Tiny, c: dict) -> Named:
    """The slow and the fast model."""
    seed, slow, fast = tiny.seed, c["text_config"], c["audio_decoder_config"]
    words = weights.spread("text_model.model.embeddings.weight", (slow["vocab_size"], DIM), 0.35, seed)
    words[c["eos_token_id"]] *= np.float32(tiny.end_gain)
    yield "text_model.model.embeddings.weight", words
    yield from _layers("text_model.model", slow, seed)
    at = "audio_decoder"
    yield from _layers(at, fast, seed)
    yield f"{at}.codebook_embeddings.weight", weights.spread("codebooks", (CODES * BOOKS, DIM), 0.35, seed)
    yield f"{at}.embeddings.weight", weights.spread("fast.embeddings", (CODES, FAST_DIM), 0.7, seed)
    yield from _matrix(f"{at}.output.weight", (CODES, FAST_DIM), seed, gain=2.0)
    yield from _matrix(f"{at}.project_in.weight", (FAST_DIM, DIM), seed)
    yield from _vector(f"{at}.project_in.bias", FAST_DIM, -0.1, 0.1, seed)


def _normed(name: str, shape: tuple[int, ...], gain: float, seed: int, old: bool = False) -> Named:
    """A convolution under weight norm, in either spelling."""
    first, second = ("weight_g", "weight_v") if old else (f"parametrizations.weight.original{i}" for i in (0, 1))
    yield f"{name}.{first}", weights.uniform(f"{name}.g", (shape[0], 1, 1), 0.8 * gain, 1.2 * gain, seed)
    yield f"{name}.{second}", weights.spread(f"{name}.v", shape, 1.0, seed)


def _conv(name: str, shape: tuple[int, ...], gain: float, seed: int, outputs: int = 0) -> Named:
    yield from _normed(f"{name}.conv", shape, gain, seed)
    yield from _vector(f"{name}.conv.bias", outputs or shape[0], -0.05, 0.05, seed)


def _snake(name: str, channels: int, seed: int) -> Named:
    draw = weights.uniform if name.startswith("encoder") else weights.snake  # known codes come from this encoder
    yield f"{name}.alpha", draw(f"{name}.alpha", (1, channels, 1), 0.6, 1.6, seed)


def _units(path: str, first: int, dim: int, seed: int) -> Named:
    for i in range(first, first + 3):
        block = f"{path}.{i}.block"
        yield from _snake(f"{block}.0", dim, seed)
        yield from _conv(f"{block}.1", (dim, dim, 7), 1.0, seed)
        yield from _snake(f"{block}.2", dim, seed)
        yield from _conv(f"{block}.3", (dim, dim, 1), 0.4, seed)


def _transformer(path: str, seed: int) -> Named:
    at = f"{path}.layers.0"
    yield from _matrix(f"{at}.attention.wqkv.weight", (3 * LATENT, LATENT), seed)
    yield from _matrix(f"{at}.attention.wo.weight", (LATENT, LATENT), seed)
    for part, shape in (("w1", (48, LATENT)), ("w3", (48, LATENT)), ("w2", (LATENT, 48))):
        yield from _matrix(f"{at}.feed_forward.{part}.weight", shape, seed)
    for name in ("attention_norm.weight", "ffn_norm.weight"):
        yield from _vector(f"{at}.{name}", LATENT, 0.7, 1.3, seed)
    for name in ("attention_layer_scale.gamma", "ffn_layer_scale.gamma"):
        yield from _vector(f"{at}.{name}", LATENT, 0.2, 0.6, seed)
    yield from _vector(f"{path}.norm.weight", LATENT, 0.7, 1.3, seed)


def _next(path: str, seed: int) -> Named:
    """A ConvNeXt block."""
    yield from _matrix(f"{path}.dwconv.conv.weight", (LATENT, 1, 7), seed)
    yield from _vector(f"{path}.norm.weight", LATENT, 0.7, 1.3, seed)
    yield from _matrix(f"{path}.pwconv1.weight", (4 * LATENT, LATENT), seed)
    yield from _matrix(f"{path}.pwconv2.weight", (LATENT, 4 * LATENT), seed)
    for name, size in (("dwconv.conv", LATENT), ("norm", LATENT), ("pwconv1", 4 * LATENT), ("pwconv2", LATENT)):
        yield from _vector(f"{path}.{name}.bias", size, -0.05, 0.05, seed)
    yield from _vector(f"{path}.gamma", LATENT, 0.2, 0.6, seed)


def codec_tensors(seed: int) -> Named:
    """Both halves of the codec."""
    dim = ENCODER_DIM
    yield from _conv("encoder.block.0", (dim, 1, 7), 3.0, seed)
    for i, rate in enumerate(ENCODER_RATES, start=1):
        block = f"encoder.block.{i}.block"
        yield from _units(block, 0, dim, seed)
        yield from _snake(f"{block}.3", dim, seed)
        yield from _conv(f"{block}.4", (2 * dim, dim, 2 * rate), 1.0, seed)
        dim *= 2
    last = len(ENCODER_RATES)
    yield from _transformer(f"encoder.block.{last}.block.5", seed)
    yield from _snake(f"encoder.block.{last + 1}", dim, seed)
    yield from _conv(f"encoder.block.{last + 2}", (LATENT, dim, 3), 1.0, seed)
    for side in ("downsample", "upsample"):
        for i, ratio in enumerate(RATIOS):
            yield from _matrix(f"quantizer.{side}.{i}.0.conv.weight", (LATENT, LATENT, ratio), seed)
            yield from _vector(f"quantizer.{side}.{i}.0.conv.bias", LATENT, -0.05, 0.05, seed)
            yield from _next(f"quantizer.{side}.{i}.1", seed)
    yield from _transformer("quantizer.pre_module", seed)
    yield from _transformer("quantizer.post_module", seed)
    for book in range(BOOKS):
        at = f"quantizer.quantizer.quantizers.{book - 1}" if book else "quantizer.semantic_quantizer.quantizers.0"
        table = f"{at}.codebook.weight"
        yield table, weights.spread(table, (RESIDUAL_CODES if book else CODES, CODE_DIM), 1.0, seed)
        for name, shape in (("in_proj", (CODE_DIM, LATENT, 1)), ("out_proj", (LATENT, CODE_DIM, 1))):
            yield from _normed(f"{at}.{name}", shape, 1.0, seed, old=True)
            yield from _vector(f"{at}.{name}.bias", shape[0], -0.05, 0.05, seed)
    yield from _vocoder_tensors(seed)


def _vocoder_tensors(seed: int) -> Named:
    dim = DECODER_DIM
    yield from _conv("decoder.model.0", (dim, LATENT, 7), 1.0, seed)
    for i, rate in enumerate(DECODER_RATES, start=1):
        block = f"decoder.model.{i}.block"
        yield from _snake(f"{block}.0", dim, seed)
        yield from _conv(f"{block}.1", (dim, dim // 2, 2 * rate), 1.0, seed, outputs=dim // 2)
        dim //= 2
        yield from _units(block, 2, dim, seed)
    last = len(DECODER_RATES) + 1
    yield from _snake(f"decoder.model.{last}", dim, seed)
    yield from _conv(f"decoder.model.{last + 1}", (1, dim, 7), 0.4, seed)


def reference_audio(samples: int, seed: int = 0) -> np.ndarray:
    """A gliding tone with noise, by formula; heard as written at 44.1 kHz."""
    t = np.arange(samples) / SAMPLE_RATE
    tone = 0.3 * np.sin(2 * np.pi * (300 + 170 * seed + 900 * t) * t)
    return (tone + weights.spread(f"reference{seed}", (samples,), 0.1, 0)).astype(np.float32)

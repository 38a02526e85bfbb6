"""Tiny random VoxCPM2 checkpoints in the published layout, made with NumPy alone: the same everywhere."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from tiny import weights
from tiny.llama_tokenizer import tokenizer, vocabulary

SAMPLE_RATE, OUT_RATE = 16_000, 48_000
PATCH, FEAT, HIDDEN, LOCAL = 4, 8, 64, 32
HOP = 1920 * PATCH
ENCODER_RATES, DECODER_RATES = (2, 5, 8, 8), (8, 6, 5, 2, 2, 2)
ENCODER_DIM, DECODER_DIM = 8, 128
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 16
FSQ = 24
RATE_BINS = (20_000, 30_000, 40_000)


@dataclass(frozen=True)
class Tiny:
    """What differs between checkpoints."""

    stop_shift: float = 1.0
    """How much going on is preferred to ending; at 0 every second patch would be the last."""
    max_positions: int = 512
    """Twice as many as LongRoPE's original: then the long factors hold, and cosines are scaled."""
    decoder_rates: tuple[int, ...] = DECODER_RATES
    """Fewer and smaller ones make patches of fewer samples."""
    layers: tuple[int, int, int] = (3, 2, 2)
    """Of the base LM, the residual LM and the local transformers."""
    patch: int = PATCH
    feat: int = FEAT
    rate_bins: tuple[int, ...] | None = RATE_BINS
    """`sr_bin_boundaries`; with None the decoder is not conditioned on a sample rate."""
    seed: int = 0


def config(tiny: Tiny) -> dict:
    base, residual, deep = tiny.layers
    local = {"hidden_dim": LOCAL, "ffn_dim": 64, "num_heads": HEADS, "num_layers": deep, "kv_channels": HEAD_DIM}
    return {
        "architecture": "voxcpm2",
        "lm_config": {
            "bos_token_id": 1,
            "eos_token_id": 2,
            "hidden_size": HIDDEN,
            "intermediate_size": 96,
            "max_position_embeddings": tiny.max_positions,
            "num_attention_heads": HEADS,
            "num_hidden_layers": base,
            "num_key_value_heads": KV_HEADS,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000,
            "kv_channels": HEAD_DIM,
            "rope_scaling": {
                "type": "longrope",
                "long_factor": [1.0 + 0.25 * i for i in range(HEAD_DIM // 2)],
                "short_factor": [1.0 + 0.1 * i for i in range(HEAD_DIM // 2)],
                "original_max_position_embeddings": 256,
            },
            "vocab_size": len(vocabulary()),
            "use_mup": False,
            "scale_emb": 12,
            "dim_model_base": 256,
            "scale_depth": 1.4,
        },
        "patch_size": tiny.patch,
        "feat_dim": tiny.feat,
        "scalar_quantization_latent_dim": FSQ,
        "scalar_quantization_scale": 9,
        "residual_lm_num_layers": residual,
        "residual_lm_no_rope": True,
        "encoder_config": local,
        "dit_config": {
            **local,
            "mean_mode": True,  # a key nobody reads
            "cfm_config": {"sigma_min": 1e-6, "solver": "euler", "t_scheduler": "log-norm", "inference_cfg_rate": 2.0},
        },
        "audio_vae_config": {
            "encoder_dim": ENCODER_DIM,
            "encoder_rates": list(ENCODER_RATES),
            "latent_dim": tiny.feat,
            "decoder_dim": DECODER_DIM,
            "decoder_rates": list(tiny.decoder_rates),
            "sr_bin_boundaries": tiny.rate_bins and list(tiny.rate_bins),
            "sample_rate": SAMPLE_RATE,
            "out_sample_rate": OUT_RATE,
        },
        "max_length": 512,
        "device": "cpu",
        "dtype": "float32",
    }


# --- weights ---


def write(folder: Path, tiny: Tiny | None = None) -> str:
    """Write a checkpoint; returns the fingerprint of its tensors."""
    tiny = tiny or Tiny()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(tiny), indent=1))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(), ensure_ascii=False), encoding="utf-8")
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizerFast", **special}))
    model, vae = dict(model_tensors(tiny)), dict(vae_tensors(tiny))
    weights.save(folder, model)
    save_file(vae, folder / "audiovae.safetensors", metadata={"format": "pt"})
    return weights.digest(model | {f"audio_vae.{name}": tensor for name, tensor in vae.items()})


Named = Iterator[tuple[str, np.ndarray]]


def _linear(name: str, outputs: int, inputs: int, seed: int, bias: bool = True, gain: float = 1.0) -> Named:
    yield f"{name}.weight", weights.spread(f"{name}.weight", (outputs, inputs), gain / inputs**0.5, seed)
    if bias:
        yield f"{name}.bias", weights.spread(f"{name}.bias", (outputs,), 0.1, seed)


def _layers(name: str, hidden: int, ffn: int, layers: int, seed: int) -> Named:
    queries, keys = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    for i in range(layers):
        layer = f"{name}.layers.{i}"
        for part, size in (("q", queries), ("k", keys), ("v", keys)):
            yield from _linear(f"{layer}.self_attn.{part}_proj", size, hidden, seed, bias=False)
        yield from _linear(f"{layer}.self_attn.o_proj", hidden, queries, seed, bias=False)
        yield from _linear(f"{layer}.mlp.gate_proj", ffn, hidden, seed, bias=False)
        yield from _linear(f"{layer}.mlp.up_proj", ffn, hidden, seed, bias=False)
        yield from _linear(f"{layer}.mlp.down_proj", hidden, ffn, seed, bias=False)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{layer}.{norm}.weight", weights.uniform(f"{layer}.{norm}.weight", (hidden,), 0.7, 1.3, seed)
    yield f"{name}.norm.weight", weights.uniform(f"{name}.norm.weight", (hidden,), 0.7, 1.3, seed)


def model_tensors(tiny: Tiny) -> Named:
    seed = tiny.seed
    base, residual, deep = tiny.layers
    yield "base_lm.embed_tokens.weight", weights.spread("embed", (len(vocabulary()), HIDDEN), 1.0, seed)
    yield from _layers("base_lm", HIDDEN, 96, base, seed)
    yield from _layers("residual_lm", HIDDEN, 96, residual, seed)
    yield "feat_encoder.special_token", weights.spread("special", (1, 1, 1, LOCAL), 1.0, seed)
    yield from _linear("feat_encoder.in_proj", LOCAL, tiny.feat, seed)
    yield from _layers("feat_encoder.encoder", LOCAL, 64, deep, seed)
    dit = "feat_decoder.estimator"
    # Calm enough that a rounding of one patch does not grow in those that follow it.
    for part, outputs, inputs, gain in (
        ("in", LOCAL, tiny.feat, 0.7),
        ("cond", LOCAL, tiny.feat, 0.5),
        ("out", tiny.feat, LOCAL, 0.5),
    ):
        yield from _linear(f"{dit}.{part}_proj", outputs, inputs, seed, gain=gain)
    for part in ("time_mlp", "delta_time_mlp"):
        for i in (1, 2):
            yield from _linear(f"{dit}.{part}.linear_{i}", LOCAL, LOCAL, seed)
    yield from _layers(f"{dit}.decoder", LOCAL, 64, deep, seed)
    yield from _linear("fsq_layer.in_proj", FSQ, HIDDEN, seed)
    yield from _linear("fsq_layer.out_proj", HIDDEN, FSQ, seed, gain=2.0)
    yield from _linear("enc_to_lm_proj", HIDDEN, LOCAL, seed)
    yield from _linear("lm_to_dit_proj", LOCAL, HIDDEN, seed)
    yield from _linear("res_to_dit_proj", LOCAL, HIDDEN, seed)
    yield from _linear("fusion_concat_proj", HIDDEN, 2 * HIDDEN, seed)
    yield from _linear("stop_proj", HIDDEN, HIDDEN, seed)
    head = weights.spread("stop_head.weight", (2, HIDDEN), 1 / HIDDEN**0.5, seed)
    head[0] += np.float32(tiny.stop_shift * 0.05)
    yield "stop_head.weight", head


def _conv(name: str, shape: tuple[int, int, int], gain: float, seed: int, outputs: int | None = None) -> Named:
    """A convolution under weight norm: lengths and directions."""
    lengths = weights.uniform(f"{name}.weight_g", (shape[0], 1, 1), 0.8 * gain, 1.2 * gain, seed)
    yield f"{name}.weight_g", lengths
    yield f"{name}.weight_v", weights.spread(f"{name}.weight_v", shape, 1.0, seed)
    yield f"{name}.bias", weights.spread(f"{name}.bias", (outputs or shape[0],), 0.02, seed)


def _snake(name: str, channels: int, seed: int) -> Named:
    # All positive, unlike those of `weights.snake`: upstream's outputs for this checkpoint are committed.
    yield f"{name}.alpha", weights.uniform(f"{name}.alpha", (1, channels, 1), 0.6, 1.6, seed)


def _units(name: str, first: int, dim: int, seed: int) -> Named:
    for i in range(3):
        block = f"{name}.{first + i}.block"
        yield from _snake(f"{block}.0", dim, seed)
        yield from _conv(f"{block}.1", (dim, 1, 7), 1.0, seed)
        yield from _snake(f"{block}.2", dim, seed)
        yield from _conv(f"{block}.3", (dim, dim, 1), 0.4, seed)


def vae_tensors(tiny: Tiny) -> Named:
    seed, rates, feat = tiny.seed, tiny.decoder_rates, tiny.feat
    dim = ENCODER_DIM
    yield from _conv("encoder.block.0", (dim, 1, 7), 2.0, seed)
    for i, rate in enumerate(ENCODER_RATES, start=1):
        block = f"encoder.block.{i}.block"
        yield from _units(block, 0, dim, seed)
        yield from _snake(f"{block}.3", dim, seed)
        yield from _conv(f"{block}.4", (2 * dim, dim, 2 * rate), 1.0, seed)
        dim *= 2
    yield from _conv("encoder.fc_mu", (feat, dim, 3), 1.0, seed)
    yield from _conv("encoder.fc_logvar", (feat, dim, 3), 1.0, seed)
    if tiny.rate_bins is not None:
        yield "decoder.sr_bin_boundaries", np.array(tiny.rate_bins, np.int32)
        yield from _rate_conditions(tiny.rate_bins, len(rates), seed)
    yield from _conv("decoder.model.0", (feat, 1, 7), 1.0, seed)
    yield from _conv("decoder.model.1", (DECODER_DIM, feat, 1), 1.0, seed)
    dim = DECODER_DIM
    for i, rate in enumerate(rates, start=2):
        block = f"decoder.model.{i}.block"
        yield from _snake(f"{block}.0", dim, seed)
        yield from _conv(f"{block}.1", (dim, dim // 2, 2 * rate), 0.8 * (rate / 2) ** 0.5, seed, outputs=dim // 2)
        yield from _units(block, 2, dim // 2, seed)
        dim //= 2
    last = len(rates) + 2
    yield from _snake(f"decoder.model.{last}", dim, seed)
    yield from _conv(f"decoder.model.{last + 1}", (1, dim, 7), 0.2, seed)


def _rate_conditions(bins: tuple[int, ...], blocks: int, seed: int) -> Named:
    for i in range(blocks):
        for part, low, high in (("scale", 0.6, 1.1), ("bias", -0.2, 0.2)):
            embed = f"decoder.sr_cond_model.{i + 2}.{part}_embed.weight"
            yield embed, weights.uniform(embed, (len(bins) + 1, DECODER_DIM >> i), low, high, seed)


# --- what upstream and the tests are given ---


def reference_audio(samples: int, seed: int = 0) -> np.ndarray:
    """A gliding tone with noise, by formula; heard as written at 16 kHz, higher at higher rates."""
    t = np.arange(samples) / SAMPLE_RATE
    tone = 0.3 * np.sin(2 * np.pi * (180 + 60 * seed + 40 * t) * t)
    return (tone + weights.spread(f"reference{seed}", (samples,), 0.05, 0)).astype(np.float32)


def noise(patches: int, seed: int, tiny: Tiny | None = None) -> np.ndarray:
    """The noise each patch starts from, [patches, feat, patch] as upstream draws it; about normal."""
    tiny = tiny or Tiny()
    shape = (patches, tiny.feat, tiny.patch)
    total = sum(weights.uniform(f"noise{seed}.{i}", shape, -0.5, 0.5, 0) for i in range(12))
    return total.astype(np.float32)


LORA_RANK, LORA_ALPHA = 4, 8
LORA_PROJECTIONS = ("enc_to_lm_proj", "lm_to_dit_proj", "res_to_dit_proj", "fusion_concat_proj")


def write_lora(folder: Path, tiny: Tiny) -> None:
    """An adapter of everything that can have one, as upstream's training writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for name, tensor in model_tensors(tiny):
        owner, leaf = name.removesuffix(".weight"), name.rpartition(".")[2]
        attention = ".self_attn." in name and not name.startswith("feat_encoder.")
        if leaf == "weight" and (attention or owner in LORA_PROJECTIONS):
            outputs, inputs = tensor.shape
            tensors[f"{owner}.lora_A"] = weights.spread(f"{owner}.A", (LORA_RANK, inputs), 0.3, tiny.seed)
            tensors[f"{owner}.lora_B"] = weights.spread(f"{owner}.B", (outputs, LORA_RANK), 0.1, tiny.seed)
    save_file(tensors, folder / "lora_weights.safetensors")
    settings = {"base_model": "tiny", "lora_config": {"r": LORA_RANK, "alpha": LORA_ALPHA}}
    (folder / "lora_config.json").write_text(json.dumps(settings))

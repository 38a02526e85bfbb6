"""Tiny random Voxtral-TTS checkpoints in the published layout, made from seeds: the same everywhere."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from tiny import weights
from tiny.tekken import VOCAB, tekken

SAMPLE_RATE, PATCH, DIM = 24_000, 5, 32
VOICES = {"cheerful_female": 6, "fr_male": 9, "hi_male": 3}
"""Positions in a prompt; `hi_male` has one row less in its file, `fr_male` one more."""
Named = Iterator[tuple[str, np.ndarray]]


@dataclass(frozen=True)
class Tiny:
    """What differs between checkpoints."""

    end_gain: float = 0.0
    """Length of the row that ends speech, in the semantic head: the longer, the sooner it wins. At 0 it never does."""
    encoder: bool = False
    steps: int | None = 3
    """Euler steps; `None` leaves the key out."""
    patch: int = PATCH
    seed: int = 0


def params(tiny: Tiny) -> dict[str, Any]:
    flow = {"input_dim": DIM, "dim": DIM, "n_layers": 1, "head_dim": 8, "hidden_dim": 24, "n_heads": 4, "n_kv_heads": 2}
    if tiny.steps is not None:
        flow["n_decoding_steps"] = tiny.steps
    return {
        "dim": DIM,
        "n_layers": 2,
        "head_dim": 6,
        "hidden_dim": 40,
        "n_heads": 6,
        "n_kv_heads": 3,
        "use_biases": False,
        "rope_theta": 1e6,
        "norm_eps": 1e-5,
        "vocab_size": VOCAB,
        "tied_embeddings": True,
        "max_seq_len": 4096,
        "model_type": "voxtral_tts",
        "multimodal": {
            "bos_token_id": 1,
            "audio_model_args": {
                "semantic_codebook_size": 37,
                "acoustic_codebook_size": 9,
                "n_acoustic_codebook": 5,
                "audio_token_id": 24,
                "begin_audio_token_id": 25,
                "input_embedding_concat_type": "sum",
                "acoustic_transformer_args": flow,
            },
            "audio_tokenizer_args": {
                "channels": 1,
                "sampling_rate": SAMPLE_RATE,
                "pretransform_patch_size": tiny.patch,
                "patch_proj_kernel_size": 7,
                "semantic_codebook_size": 37,
                "semantic_dim": 6,
                "acoustic_codebook_size": 9,
                "acoustic_dim": 5,
                "conv_weight_norm": True,
                "causal": True,
                "attn_sliding_window_size": 16,
                "half_attn_window_upon_downsampling": True,
                "dim": 16,
                "hidden_dim": 20,
                "head_dim": 6,
                "n_heads": 3,
                "n_kv_heads": 3,
                "qk_norm": True,
                "qk_norm_eps": 1e-6,
                "norm_eps": 0.01,
                "layer_scale": True,
                "decoder_transformer_lengths_str": "1,1,1,1",
                "decoder_convs_kernels_str": "3,4,4,4",
                "decoder_convs_strides_str": "1,2,2,2",
                "encoder_transformer_lengths_str": "1,1,1,1",
                "voice": {name: i for i, name in enumerate(VOICES)},
            },
        },
    }


def hop(tiny: Tiny) -> int:
    return 8 * tiny.patch


def write(folder: Path, tiny: Tiny | None = None) -> None:
    """Write a checkpoint."""
    tiny = tiny or Tiny()
    folder.mkdir(parents=True, exist_ok=True)
    settings = params(tiny)
    (folder / "params.json").write_text(json.dumps(settings, indent=1))
    (folder / "tekken.json").write_text(json.dumps(tekken(VOICES)), encoding="utf-8")
    save_file(dict(model_tensors(settings, tiny)), folder / "consolidated.safetensors")
    if tiny.encoder:
        save_file(dict(encoder_tensors(settings, tiny.seed)), folder / "encoder.safetensors")
    rows = {name: VOICES[name] + extra for name, extra in zip(VOICES, (0, 1, -1), strict=True)}
    voices = {name: weights.spread(f"voice {name}", (count, DIM), 0.5, tiny.seed) for name, count in rows.items()}
    write_voices(folder, voices)


def write_voices(folder: Path, voices: dict[str, np.ndarray]) -> None:
    """Write the presets, as upstream has them: bfloat16 tensors, pickled. That needs torch."""
    import torch

    (folder / "voice_embedding").mkdir(exist_ok=True)
    for name, rows in voices.items():
        torch.save(torch.from_numpy(rows).to(torch.bfloat16), folder / "voice_embedding" / f"{name}.pt")


# --- tensors ---


def _linear(name: str, outputs: int, inputs: int, seed: int, gain: float = 1.0) -> Named:
    yield f"{name}.weight", weights.spread(f"{name}.weight", (outputs, inputs), gain / inputs**0.5, seed)


def _layers(name: str, sizes: dict[str, Any], count: int, seed: int, codec: bool = False) -> Named:
    dim, queries, keys = sizes["dim"], sizes["n_heads"] * sizes["head_dim"], sizes["n_kv_heads"] * sizes["head_dim"]
    for i in range(count):
        layer = f"{name}layers.{i}"
        for part, outputs in (("wq", queries), ("wk", keys), ("wv", keys)):
            yield from _linear(f"{layer}.attention.{part}", outputs, dim, seed)
        yield from _linear(f"{layer}.attention.wo", dim, queries, seed)
        yield from _linear(f"{layer}.feed_forward.w1", sizes["hidden_dim"], dim, seed)
        yield from _linear(f"{layer}.feed_forward.w3", sizes["hidden_dim"], dim, seed)
        yield from _linear(f"{layer}.feed_forward.w2", dim, sizes["hidden_dim"], seed)
        vectors = {"attention_norm.weight": dim, "ffn_norm.weight": dim}
        if codec:
            norms = {"attention.q_norm.weight": queries, "attention.k_norm.weight": keys}
            vectors |= norms | {"attention_scale": dim, "ffn_scale": dim}
        for part, width in vectors.items():
            yield f"{layer}.{part}", weights.uniform(f"{layer}.{part}", (width,), 0.7, 1.3, seed)


def model_tensors(settings: dict[str, Any], tiny: Tiny) -> Named:
    seed, audio = tiny.seed, settings["multimodal"]["audio_model_args"]
    flow, levels = audio["acoustic_transformer_args"], audio["acoustic_codebook_size"] + 2
    semantic, books = audio["semantic_codebook_size"] + 2, audio["n_acoustic_codebook"]
    inputs = "mm_audio_embeddings"
    yield f"{inputs}.tok_embeddings.weight", weights.spread("tok", (settings["vocab_size"], DIM), 1.0, seed)
    rows = -(-(semantic + books * levels) // 128) * 128
    table = f"{inputs}.audio_codebook_embeddings.embeddings.weight"
    yield table, weights.spread(table, (rows, DIM), 1 / (1 + books) ** 0.5, seed)
    yield from _layers("", settings, settings["n_layers"], seed)
    yield "norm.weight", weights.uniform("norm", (DIM,), 0.7, 1.3, seed)
    head = "acoustic_transformer."
    yield from _layers(head, flow, flow["n_layers"], seed)
    yield f"{head}norm.weight", weights.uniform(f"{head}norm", (DIM,), 0.7, 1.3, seed)
    ((name, logits),) = _linear(f"{head}semantic_codebook_output", -(-semantic // 128) * 128, DIM, seed)
    logits[1] *= np.float32(tiny.end_gain)
    yield name, logits
    yield from _linear(f"{head}acoustic_codebook_output", books, DIM, seed)
    yield from _linear(f"{head}input_projection", DIM, books, seed)
    yield from _linear(f"{head}time_projection", DIM, DIM, seed)
    yield from _linear(f"{head}llm_projection", DIM, DIM, seed)
    yield from decoder_tensors(settings, seed)


def _conv(name: str, shape: tuple[int, int, int], gain: float, seed: int) -> Named:
    """A convolution under weight norm: magnitudes and directions."""
    owner = f"{name}.conv.parametrizations.weight.original"
    yield f"{owner}0", weights.uniform(f"{owner}0", (shape[0], 1, 1), 0.8 * gain, 1.2 * gain, seed)
    yield f"{owner}1", weights.spread(f"{owner}1", shape, 1.0, seed)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def decoder_tensors(settings: dict[str, Any], seed: int) -> Named:
    codec = settings["multimodal"]["audio_tokenizer_args"]
    dim, width = codec["dim"], codec["semantic_dim"] + codec["acoustic_dim"]
    kernels, strides = (_numbers(codec[f"decoder_convs_{key}_str"]) for key in ("kernels", "strides"))
    lengths = _numbers(codec["decoder_transformer_lengths_str"])
    for i, (kernel, stride, count) in enumerate(zip(kernels, strides, lengths, strict=True)):
        shape = (dim, width, kernel) if stride == 1 else (width, dim, kernel)
        yield from _conv(f"audio_tokenizer.decoder_blocks.{2 * i}", shape, 1.0, seed)
        yield from _layers(f"audio_tokenizer.decoder_blocks.{2 * i + 1}.", codec, count, seed, codec=True)
        width = dim
    shape = (codec["pretransform_patch_size"], dim, codec["patch_proj_kernel_size"])
    yield from _conv("audio_tokenizer.output_proj", shape, 0.1, seed)
    book, codes = "audio_tokenizer.quantizer.semantic_codebook", codec["semantic_codebook_size"]
    yield f"{book}.cluster_usage", weights.uniform(f"{book}.cluster_usage", (codes,), 0.5, 3.0, seed)
    yield f"{book}.embedding_sum", weights.spread(f"{book}.embedding_sum", (codes, codec["semantic_dim"]), 1.5, seed)


def encoder_tensors(settings: dict[str, Any], seed: int) -> Named:
    """What the released file lacks."""
    codec = settings["multimodal"]["audio_tokenizer_args"]
    dim, latent = codec["dim"], codec["semantic_dim"] + codec["acoustic_dim"]
    usual = {"kernels": "4,4,4,3", "strides": "2,2,2,1"}
    kernels, strides = (_numbers(codec.get(f"encoder_convs_{key}_str", usual[key])) for key in usual)
    lengths = _numbers(codec.get("encoder_transformer_lengths_str", "2,2,2,2"))
    assert prod(strides) == prod(_numbers(codec["decoder_convs_strides_str"]))
    shape = (dim, codec["pretransform_patch_size"], codec["patch_proj_kernel_size"])
    yield from _conv("audio_tokenizer.input_proj", shape, 3.0, seed)
    for i, (kernel, count) in enumerate(zip(kernels, lengths, strict=True)):
        yield from _layers(f"audio_tokenizer.encoder_blocks.{2 * i}.", codec, count, seed, codec=True)
        outputs = latent if i + 1 == len(kernels) else dim
        yield from _conv(f"audio_tokenizer.encoder_blocks.{2 * i + 1}", (outputs, dim, kernel), 0.7, seed)


def reference_audio(samples: int, seed: int = 0) -> np.ndarray:
    """A gliding tone with noise, by formula."""
    t = np.arange(samples) / SAMPLE_RATE
    tone = 0.3 * np.sin(2 * np.pi * (180 + 60 * seed + 40 * t) * t)
    return (tone + weights.spread(f"reference{seed}", (samples,), 0.05, 0)).astype(np.float32)

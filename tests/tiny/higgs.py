"""Tiny random checkpoints of Higgs v2, in both layouts, and of Higgs v3, made with NumPy alone: the same everywhere."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from rhapsode.bench.engine.byte_tokenizer import description
from tiny import higgs_codec, weights

SAMPLE_RATE = higgs_codec.SAMPLE_RATE
HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 24, 32, 2, 4, 2, 8
V2_CONTROL = (
    "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|audio_eos|>",
    "<|audio_out_bos|>", "<|reserved_special_token_6|>", "<|AUDIO_OUT|>", "<|scene_desc_start|>", "<|scene_desc_end|>",
)  # fmt: skip
V3_CONTROL = (
    "<|endoftext|>", "<|tts|>", "<|text|>", "<|audio|>", "<|ref_text|>", "<|ref_audio|>", "<|emotion:elation|>",
    "<|sfx:laughter|>",
)  # fmt: skip


@dataclass(frozen=True)
class Tiny:
    """The recipe of one checkpoint."""

    generation: Literal[2, 3] = 2
    original: bool = False
    """v2 under the names of its first release, with a table in two halves."""
    end_gain: float = 1.0
    """How far the logit of the end swings; 1.0 swings like any other code."""
    books: int = 3
    codes: int = 16
    seed: int = 0

    @property
    def ids(self) -> int:
        return self.codes + 2

    @property
    def codec(self) -> higgs_codec.TinyCodec:
        return higgs_codec.TinyCodec(self.books, self.codes)


def tokenizer(tiny: Tiny) -> dict:
    """`tokenizer.json`: the byte tokenizer of the benchmarks with control tokens added."""
    made = description()
    first = len(made["model"]["vocab"])
    names = V2_CONTROL if tiny.generation == 2 else V3_CONTROL
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    made["added_tokens"] = [{"id": first + i, "content": name} | flags for i, name in enumerate(names)]
    return made


def token(tiny: Tiny, name: str) -> int:
    return next(entry["id"] for entry in tokenizer(tiny)["added_tokens"] if entry["content"] == name)


def vocabulary(tiny: Tiny) -> int:
    return max(entry["id"] for entry in tokenizer(tiny)["added_tokens"]) + 1


def config(tiny: Tiny) -> dict:
    body = {
        "vocab_size": vocabulary(tiny), "hidden_size": HIDDEN, "intermediate_size": FFN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "hidden_act": "silu",
    }  # fmt: skip
    if tiny.generation == 3:
        audio = {"encoder_type": "discrete", "num_codebooks": tiny.books, "vocab_size": tiny.ids}
        return {
            "architectures": ["HiggsMultimodalQwen3ForConditionalGeneration"],
            "model_type": "higgs_multimodal_qwen3",
            "audio_encoder_config": audio | {"tie_word_embeddings": True, "use_delay_pattern": True},
            "text_config": body | {"rms_norm_eps": 1e-6, "rope_theta": None, "max_position_embeddings": 32768},
        }
    rope = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 0.125, "high_freq_factor": 0.5}
    ends = {"audio_stream_bos_id": tiny.codes, "audio_stream_eos_id": tiny.codes + 1}
    if tiny.original:
        rope |= {"original_max_position_embeddings": 64}
        return ends | {
            "model_type": "higgs_audio",
            "audio_adapter_type": "dual_ffn_fast_forward",
            "audio_dual_ffn_layers": list(range(LAYERS)),
            "audio_num_codebooks": tiny.books,
            "audio_codebook_size": tiny.codes,
            "audio_out_token_idx": token(tiny, "<|AUDIO_OUT|>"),
            "text_config": body | {"rms_norm_eps": 1e-5, "rope_theta": 500000.0, "rope_scaling": rope},
        }
    rope |= {"rope_theta": 500000.0, "original_max_position_embeddings": 64}
    return ends | body | {
        "architectures": ["HiggsAudioV2ForConditionalGeneration"],
        "model_type": "higgs_audio_v2",
        "rms_norm_eps": 1e-5,
        "num_codebooks": tiny.books,
        "codebook_size": tiny.ids,
        "audio_token_id": token(tiny, "<|AUDIO_OUT|>"),
        "rope_parameters": rope,
    }  # fmt: skip


def write(folder: Path, tiny: Tiny, shards: int = 1) -> Path:
    """Writes a checkpoint; v2's codec is its sub-folder `codec`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(tiny), indent=1))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(tiny)), "utf-8")
    made = tensors(tiny)
    if tiny.generation == 2:
        higgs_codec.write(folder / "codec", tiny.codec)
    else:
        (folder / "audio_tokenizer").mkdir(exist_ok=True)
        (folder / "audio_tokenizer" / "config.json").write_text(json.dumps(higgs_codec.config(tiny.codec)))
        made |= higgs_codec.tensors(tiny.codec, "tied.embedding.modality_embeddings.0.model.")
    weights.save(folder, made, shards)
    return folder


def tensors(tiny: Tiny) -> dict[str, np.ndarray]:
    """The talker's tensors, under the names of the layout."""
    made = dict(_tensors(tiny))
    if tiny.generation == 3:
        names = {"text": "tied.embedding.text_embedding", "codes": "tied.embedding.modality_embeddings.0.embedding"}
        return _named(made, names | {"layers": "body.layers", "norm": "body.norm"})
    if not tiny.original:
        names = {"text": "model.embed_tokens", "codes": "model.embed_audio_tokens.embed_audio_tokens"}
        return _named(made, names | {"layers": "model.layers", "norm": "model.norm", "head": "audio_lm_head"})
    names = {"text": "embed_tokens", "codes": "audio_codebook_embeddings", "layers": "layers", "norm": "norm"}
    found = _named(made, names | {"head": "audio_decoder_proj.audio_lm_head"})
    table = found.pop("embed_tokens.weight")
    halves = {"embedding_frozen": table[:-6], "embedding_trainable": table[-6:]}
    return found | {f"embed_tokens.{half}.weight": rows for half, rows in halves.items()}


def _named(made: dict[str, np.ndarray], names: dict[str, str]) -> dict[str, np.ndarray]:
    return {f"{names[name.split('.')[0]]}.{name.split('.', 1)[1]}": tensor for name, tensor in made.items()}


def _tensors(tiny: Tiny) -> Iterator[tuple[str, np.ndarray]]:
    def spread(name: str, *shape: int, std: float | None = None) -> tuple[str, np.ndarray]:
        return name, weights.spread(name, shape, std or shape[-1] ** -0.5, tiny.seed)

    def norm(name: str, size: int = HIDDEN) -> tuple[str, np.ndarray]:
        return f"{name}.weight", weights.uniform(name, (size,), 0.7, 1.3, tiny.seed)

    yield spread("text.weight", vocabulary(tiny), HIDDEN, std=1.0)
    codes = _ends_gained(spread("codes.weight", tiny.books * tiny.ids, HIDDEN, std=0.3)[1], tiny)
    yield "codes.weight", codes
    if tiny.generation == 2:
        head = spread("head.weight", tiny.books * tiny.ids, HIDDEN, std=1.5 * HIDDEN**-0.5)[1]
        yield "head.weight", _ends_gained(head, tiny)
    yield norm("norm")
    twins = ("", "audio_") if tiny.generation == 2 else ("",)
    for i in range(LAYERS):
        at = f"layers.{i}"
        for part, rows in (("q_proj", HEADS), ("k_proj", KV_HEADS), ("v_proj", KV_HEADS)):
            yield spread(f"{at}.self_attn.{part}.weight", rows * HEAD_DIM, HIDDEN)
        yield spread(f"{at}.self_attn.o_proj.weight", HIDDEN, HEADS * HEAD_DIM)
        if tiny.generation == 3:
            yield norm(f"{at}.self_attn.q_norm", HEAD_DIM)
            yield norm(f"{at}.self_attn.k_norm", HEAD_DIM)
        for twin in twins:
            yield norm(f"{at}.{twin}input_layernorm")
            yield norm(f"{at}.{twin}post_attention_layernorm")
            for part, shape in (("gate", (FFN, HIDDEN)), ("up", (FFN, HIDDEN)), ("down", (HIDDEN, FFN))):
                yield spread(f"{at}.{twin}mlp.{part}_proj.weight", *shape)


def _ends_gained(table: np.ndarray, tiny: Tiny) -> np.ndarray:
    """Scales what decides about the end: a row that ends is as likely as the test wants it to be."""
    rows = table.reshape(tiny.books, tiny.ids, HIDDEN).copy()
    rows[:, tiny.codes + 1] *= tiny.end_gain
    rows[:, tiny.codes] *= 0.5
    return rows.reshape(table.shape)


def reference_audio(samples: int) -> np.ndarray:
    """`[1, samples]`."""
    return higgs_codec.recording(samples)[None]

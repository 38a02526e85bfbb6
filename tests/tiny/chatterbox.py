"""Tiny Chatterbox checkpoints in the published layout: their T3, made from seeds, and the files around it.

Every number comes from the raw output of a PCG64 generator that is seeded by the tensor's name, so that the files are
the same everywhere. `ORIGINAL`, `MULTILINGUAL` and `TURBO` are those that the golden data was made with.
"""

import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod, sqrt
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

from tiny import chatterbox_s3gen as s3gen

GOLDEN = Path(__file__).parents[1] / "golden" / "chatterbox"
TOKENIZERS = ("tokenizer.json", "grapheme_mtl_merged_expanded_v1.json", "Cangjie5_TC.json")
START, STOP, CODES = 6561, 6562, 6561
HOP = 960
"""Samples of a speech token."""

Shaped = Iterator[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class TinyT3:
    """The recipe of one T3."""

    salt: str
    """Part of the seed of each tensor."""
    file: str
    text_rows: int
    speech_rows: int = 8194
    gpt2: bool = False
    hidden: int = 128
    ffn: int = 192
    layers: int = 2
    speaker: int = 32
    queries: int = 8
    end_gain: float = 0.0
    """How far the logit of the end swings more than that of any token: then speech ends after a few tokens."""

    @property
    def voice(self) -> str:
        """The golden voice that belongs to it."""
        return "turbo" if self.gpt2 else "original"


ORIGINAL = TinyT3("pub/t3", "t3_cfg", 704)
MULTILINGUAL = TinyT3("pub/mtlv3", "t3_mtl23ls_v3", 2454)
TURBO = TinyT3("pub/turbo", "t3_turbo_v1", 320, 6563, gpt2=True, ffn=512)
NANO = TinyT3("nano", "t3_nano_v1", 320, 6563, gpt2=True, ffn=256, hidden=64)
ENDING = {
    "original": replace(ORIGINAL, end_gain=3.0),
    "multilingual": replace(MULTILINGUAL, end_gain=3.0),
    "turbo": replace(TURBO, end_gain=6.0),
    "nano": replace(NANO, end_gain=3.0),
}
"""They soon decide to end."""


def write(folder: Path, *recipes: TinyT3) -> Path:
    """Writes a checkpoint with these T3, the acoustic half, the tokenizers and the preset voice."""
    folder.mkdir(parents=True, exist_ok=True)
    for tiny in recipes:
        save_file(t3_tensors(tiny), folder / f"{tiny.file}.safetensors")
    if recipes[0].gpt2:
        shutil.copytree(GOLDEN / "turbo", folder, dirs_exist_ok=True)
    else:
        for name in TOKENIZERS:
            shutil.copyfile(GOLDEN / name, folder / name)
    torch.save(preset(recipes[0].voice), folder / "conds.pt")
    s3gen.write(folder, s3gen.TURBO if recipes[0].gpt2 else s3gen.ORIGINAL)
    return folder


def preset(name: str) -> dict:
    """The content of `conds.pt`: the golden voice of this name."""
    with np.load(GOLDEN / f"reference-{name}.npz") as arrays:
        found = {key: torch.from_numpy(arrays[key]) for key in VOICE}
    tokens, count = found["prompt_token"].long(), torch.tensor([found["prompt_token"].shape[1]])
    talker = {"speaker_emb": found["speaker_emb"], "clap_emb": None, "cond_prompt_speech_emb": None}
    talker |= {"cond_prompt_speech_tokens": found["cond_tokens"].long(), "emotion_adv": torch.full((1, 1, 1), 0.5)}
    flow = {"prompt_token": tokens, "prompt_token_len": count, "prompt_feat_len": None}
    return {"t3": talker, "gen": {**flow, "prompt_feat": found["prompt_feat"], "embedding": found["embedding"]}}


VOICE = ("speaker_emb", "cond_tokens", "prompt_token", "prompt_feat", "embedding")


def t3_tensors(tiny: TinyT3) -> dict[str, np.ndarray]:
    """The tensors of a T3's file."""
    made = {name: _tensor(tiny.salt, name, shape) for name, shape in (_gpt2 if tiny.gpt2 else _llama)(tiny)}
    made["speech_head.weight"][STOP] *= 1 + tiny.end_gain
    return made


# --- values ---

SPREAD = {"text_emb": 1.2, "speech_emb": 1.2, "wte": 1.2, "text_pos_emb": 0.5, "speech_pos_emb": 0.5, "wpe": 0.5}
"""The reach of embeddings."""
SHARP = {"q_proj": 1.7, "k_proj": 1.7, "to_q": 1.7, "to_k": 1.7, "speech_head": 2.5}
"""Matrices that are larger than usual, so that attention and the head have a clear choice."""
NORMS = ("norm", "layernorm", "ln_1", "ln_2", "ln_f")


def _tensor(salt: str, name: str, shape: tuple[int, ...]) -> np.ndarray:
    bits = np.random.PCG64(zlib.crc32(f"{salt}/{name}".encode())).random_raw(prod(shape)) >> np.uint64(40)
    centre, reach = _values(name, shape)
    values = centre + reach * (bits.astype(np.float64) / 2**23 - 1.0)
    return values.astype(np.float32).reshape(shape)


def _values(name: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """The middle of a tensor's values, and how far they are from it at most."""
    *_, layer, leaf = name.split(".")
    if leaf == "pre_attention_query":
        return 0.0, 0.8
    if leaf == "bias":
        return 0.0, 0.15
    if layer.endswith(NORMS):
        return 1.0, 0.3
    table = next((reach for part, reach in SPREAD.items() if part in name.split(".")), None)
    if table is not None:
        return 0.0, table
    inputs = shape[0] if layer.startswith("c_") else shape[1]  # GPT-2's matrices are stored as [inputs, outputs]
    return 0.0, SHARP.get(layer, 1.0) * sqrt(3 / inputs)


# --- shapes ---


def _llama(tiny: TinyT3) -> Shaped:
    width = tiny.hidden
    yield "tfmr.embed_tokens.weight", (8, width)
    for i in range(tiny.layers):
        layer = f"tfmr.layers.{i}"
        for part in "qkvo":
            yield f"{layer}.self_attn.{part}_proj.weight", (width, width)
        for part in ("gate", "up"):
            yield f"{layer}.mlp.{part}_proj.weight", (tiny.ffn, width)
        yield f"{layer}.mlp.down_proj.weight", (width, tiny.ffn)
        yield f"{layer}.input_layernorm.weight", (width,)
        yield f"{layer}.post_attention_layernorm.weight", (width,)
    yield "tfmr.norm.weight", (width,)
    yield from _common(tiny)
    yield "speech_head.weight", (tiny.speech_rows, width)
    yield "text_pos_emb.emb.weight", (122, width)
    yield "speech_pos_emb.emb.weight", (334, width)
    yield "cond_enc.emotion_adv_fc.weight", (width, 1)
    yield "cond_enc.perceiver.pre_attention_query", (1, tiny.queries, width)
    for part in ("to_q", "to_k", "to_v", "proj_out"):
        yield from _linear(f"cond_enc.perceiver.attn.{part}", width, width)
    yield from _norm("cond_enc.perceiver.attn.norm", width)


def _gpt2(tiny: TinyT3) -> Shaped:
    width = tiny.hidden
    yield "tfmr.wte.weight", (tiny.text_rows, width)
    yield "tfmr.wpe.weight", (900, width)
    for i in range(tiny.layers):
        layer = f"tfmr.h.{i}"
        yield from _norm(f"{layer}.ln_1", width)
        yield from _conv1d(f"{layer}.attn.c_attn", width, 3 * width)
        yield from _conv1d(f"{layer}.attn.c_proj", width, width)
        yield from _norm(f"{layer}.ln_2", width)
        yield from _conv1d(f"{layer}.mlp.c_fc", width, tiny.ffn)
        yield from _conv1d(f"{layer}.mlp.c_proj", tiny.ffn, width)
    yield from _norm("tfmr.ln_f", width)
    yield from _common(tiny)
    yield from _linear("speech_head", width, tiny.speech_rows)


def _common(tiny: TinyT3) -> Shaped:
    width = tiny.hidden
    yield "text_emb.weight", (tiny.text_rows, width)
    yield "speech_emb.weight", (tiny.speech_rows, width)
    yield "text_head.weight", (tiny.text_rows, width)
    yield from _linear("cond_enc.spkr_enc", tiny.speaker, width)


def _linear(name: str, inputs: int, outputs: int) -> Shaped:
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def _conv1d(name: str, inputs: int, outputs: int) -> Shaped:
    yield f"{name}.weight", (inputs, outputs)
    yield f"{name}.bias", (outputs,)


def _norm(name: str, width: int) -> Shaped:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)

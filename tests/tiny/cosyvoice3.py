"""Tiny random CosyVoice3 checkpoints in the published layout: the values are made with NumPy from seeds."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import yaml

from tiny import qwen_tokenizer, weights
from tiny.cosyvoice3_sound import TinySound, flow_section, flow_tensors, hift_section, hift_tensors

SAMPLE_RATE = 24_000
SPECIAL, RATE = 200, 2
SOUND = TinySound(depth=1, base=16, rates=(8, 5, 3), blocks=1)
CODES, MELS, EMBEDDING, CHUNK = SOUND.tokens, SOUND.mel, SOUND.speaker, SOUND.chunk_tokens
HIDDEN, FFN, LAYERS, HEADS, KV_HEADS = 32, 48, 2, 4, 2
MIX = (2, 3)
HOP = 960
"""Samples of a speech token."""
WORDS = (
    "You", " are", " a", " helpful", " assistant", "Hello", " there", "One", " two", " three", " four", " five",
    "Good", " morning", " to", " you", " all", "Yes", " it", " is", " the", " ref", "the", "ing",
    " voice", " speak", "Bonjour", " Please", " very", " slowly",
)  # fmt: skip

YAML = f"""\
__set_seed1: !apply:random.seed [1986]
sample_rate: {SAMPLE_RATE}
llm_input_size: {HIDDEN}
llm_output_size: {HIDDEN}
spk_embed_dim: {EMBEDDING}
qwen_pretrain_path: ''
token_frame_rate: 25
token_mel_ratio: {RATE}
chunk_size: {CHUNK}
num_decoding_left_chunks: -1
llm: !new:cosyvoice.llm.llm.CosyVoice3LM
    llm_input_size: !ref <llm_input_size>
    llm_output_size: !ref <llm_output_size>
    speech_token_size: {CODES}
    mix_ratio: {list(MIX)}
    llm: !new:cosyvoice.llm.llm.Qwen2Encoder
        pretrain_path: !ref <qwen_pretrain_path>
    sampling: !name:cosyvoice.utils.common.ras_sampling
        top_p: 0.8
        top_k: 25
        win_size: 10
        tau_r: 0.1
feat_extractor: !name:matcha.utils.audio.mel_spectrogram
    n_fft: 1920
    num_mels: {MELS}
    sampling_rate: !ref <sample_rate>
    hop_size: 480
    win_size: 1920
    fmin: 0
    fmax: null
    center: False
"""

ESTIMATOR = ("    estimator:\n", "    estimator:\n      static_chunk_size: !ref <chunk_size> * <token_mel_ratio>\n")

Named = Iterator[tuple[str, np.ndarray]]


@dataclass(frozen=True)
class TinyCosyVoice:
    """The recipe of one checkpoint."""

    end_gain: float = 1.0
    """How far the logit of the end swings; 1.0 swings like that of a speech token."""
    seed: int = 0
    rl: bool = False
    """It has a second language model."""


def write(folder: Path, tiny: TinyCosyVoice | None = None) -> Path:
    """Writes a checkpoint with two preset speakers: `ada`, a vector, and `bob`, a stored reference."""
    tiny = tiny or TinyCosyVoice()
    qwen = folder / "CosyVoice-BlankEN"
    qwen.mkdir(parents=True, exist_ok=True)
    special = qwen_tokenizer.write(qwen, WORDS, qwen_tokenizer.SPECIALS[:3])
    vocabulary = max(special.values()) + 279 + 4
    sizes = {
        "hidden_size": HIDDEN, "intermediate_size": FFN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "vocab_size": vocabulary, "rope_theta": 1e6,
        "rms_norm_eps": 1e-6, "hidden_act": "silu", "use_sliding_window": False, "max_position_embeddings": 32768,
    }  # fmt: skip
    (qwen / "config.json").write_text(json.dumps(sizes))
    (folder / "config.json").write_text("{}")
    flow = flow_section(SOUND)
    flow["decoder"]["estimator"].pop("static_chunk_size")  # of the file itself, where it is a reference
    sections = yaml.safe_dump({"hift": hift_section(SOUND), "flow": flow})
    (folder / "cosyvoice3.yaml").write_text(YAML + sections.replace(*ESTIMATOR))
    _save(folder / "llm.pt", llm_tensors(tiny, vocabulary))
    if tiny.rl:
        _save(folder / "llm.rl.pt", llm_tensors(TinyCosyVoice(tiny.end_gain, tiny.seed + 1), vocabulary))
    _save(folder / "flow.pt", flow_tensors(SOUND).items())
    _save(folder / "hift.pt", hift_tensors(SOUND).items())
    torch.save(_speakers(special["<|im_end|>"] + 1), folder / "spk2info.pt")
    return folder


def _save(file: Path, tensors: Iterable[tuple[str, np.ndarray]]) -> None:
    torch.save({name: torch.from_numpy(tensor) for name, tensor in tensors}, file)


def _speakers(end_of_prompt: int) -> dict:
    """Words of the stored transcript are bytes: `the ref`."""
    tokens = torch.from_numpy(reference_tokens(9))[None].int()
    text = torch.tensor([[*b"You are a helpful assistant.", end_of_prompt, *b"the ref"]], dtype=torch.int32)
    mel = torch.from_numpy(weights.uniform("bob.mel", (1, RATE * 9, MELS), -8.0, -1.0, 0))
    ada, bob = (torch.from_numpy(speaker_embedding(i))[None] for i in range(2))
    stored = {"prompt_text": text, "llm_prompt_speech_token": tokens, "flow_prompt_speech_token": tokens}
    stored |= {"prompt_speech_feat": mel, "llm_embedding": bob, "flow_embedding": bob}
    return {"ada": {"embedding": ada}, "bob": stored}


def reference_tokens(count: int) -> np.ndarray:
    return weights.uniform("reference.tokens", (count,), 0, CODES - 0.01, 0).astype(np.int64)


def speaker_embedding(i: int) -> np.ndarray:
    return weights.spread(f"speaker{i}", (EMBEDDING,), 1.0, 0)


def reference_audio(samples: int, sample_rate: int = SAMPLE_RATE) -> np.ndarray:
    """A gliding tone with noise, by formula."""
    t = np.arange(samples) / sample_rate
    tone = 0.3 * np.sin(2 * np.pi * (200 + 400 * t) * t)
    return (tone + weights.spread("reference", (samples,), 0.02, 0)).astype(np.float32)


def _matrix(name: str, shape: tuple[int, ...], seed: int, gain: float = 1.0, bias: bool = False) -> Named:
    yield f"{name}.weight", weights.spread(f"{name}.weight", shape, gain / float(np.prod(shape[1:])) ** 0.5, seed)
    if bias:
        yield f"{name}.bias", weights.uniform(f"{name}.bias", (shape[0],), -0.1, 0.1, seed)


def llm_tensors(tiny: TinyCosyVoice, vocabulary: int) -> Named:
    """The language model; of the special speech tokens only the end has a logit that swings."""
    seed, at, head = tiny.seed, "llm.model.model", HIDDEN // HEADS
    words = weights.spread("words", (vocabulary, HIDDEN), 0.6, seed)
    yield f"{at}.embed_tokens.weight", words
    yield "llm.model.lm_head.weight", words
    for i in range(LAYERS):
        layer = f"{at}.layers.{i}"
        for part, size in (("q", HEADS * head), ("k", KV_HEADS * head), ("v", KV_HEADS * head)):
            yield from _matrix(f"{layer}.self_attn.{part}_proj", (size, HIDDEN), seed, 1.5, bias=True)
        yield from _matrix(f"{layer}.self_attn.o_proj", (HIDDEN, HEADS * head), seed)
        for part, shape in (("gate", (FFN, HIDDEN)), ("up", (FFN, HIDDEN)), ("down", (HIDDEN, FFN))):
            yield from _matrix(f"{layer}.mlp.{part}_proj", shape, seed)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{layer}.{norm}.weight", weights.uniform(f"{layer}.{norm}", (HIDDEN,), 0.7, 1.3, seed)
    yield f"{at}.norm.weight", weights.uniform("norm", (HIDDEN,), 0.7, 1.3, seed)
    decoder = weights.spread("decoder", (CODES + SPECIAL, HIDDEN), 3.0 / HIDDEN**0.5, seed)
    decoder[CODES:] *= 0
    decoder[CODES + 1] = weights.spread("end", (HIDDEN,), 3.0 * tiny.end_gain / HIDDEN**0.5, seed)
    yield "llm_decoder.weight", decoder
    yield "speech_embedding.weight", weights.spread("speech", (CODES + SPECIAL, HIDDEN), 0.6, seed)

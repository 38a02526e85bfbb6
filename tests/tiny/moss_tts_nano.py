"""Tiny random MOSS-TTS-Nano checkpoints in the published layout, made with NumPy alone: the same everywhere."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tiny import sentencepiece, weights

SAMPLE_RATE, CHANNELS = 48_000, 2
CODEC = "MOSS-Audio-Tokenizer-Nano"
VOCAB = 520
NAMES = ("im_start", "im_end", "audio_start", "audio_end", "audio_user_slot", "audio_assistant_slot")
SYMBOLS = (*(f"<|{name}|>" for name in NAMES), "<user_inst>", "</user_inst>")
ID = {name: 1 + i for i, name in enumerate(NAMES)}
# Of the prompt's template: one token each, so that prompts are short.
_FIELDS = ("Instruction", "Tokens", "Quality", "Sound Event", "Ambient Sound", "Language")
WORDS = ("user", "- Reference(s):", "".join(f" - {name}: None" for name in _FIELDS) + " - Text:", "None", "assistant")
CODEC_WIDTH, CODEC_HEADS, CODEC_FFN, LATENT, RVQ, CODE_DIM = 16, 2, 24, 24, 12, 4


@dataclass(frozen=True)
class Tiny:
    """What differs between checkpoints."""

    last_codes: int = 2
    """After a frame that begins with one of so many codes the speech ends; with 0 it never does."""
    layers: int = 2
    local_layers: int = 1
    hidden: int = 32
    heads: int = 4
    books: int = 3
    codes: int = 23
    pad: int = 25
    """Larger than `codes`: the first number that is no code is not always the pad id."""
    patch: int = 12
    """Interleaved samples of a token of the codec's last transformer."""
    seed: int = 0

    @property
    def hop(self) -> int:
        return 2 * 2 * self.patch // CHANNELS

    def decoder(self) -> tuple:
        """Factors of the token rate, and (input, output, layers, window in seconds) of transformers."""
        token_s = self.patch / (SAMPLE_RATE * CHANNELS)  # at the last transformer
        return (2, (12, 24, 2, 48 * token_s), 2, (12, self.patch, 1, 12 * token_s), self.patch)

    def encoder(self) -> tuple:
        """The decoder's steps backwards."""
        return tuple(p if isinstance(p, int) else (p[1], p[0], *p[2:]) for p in self.decoder()[::-1])


def config(tiny: Tiny) -> dict:
    return {
        "architectures": ["MossTTSNanoForCausalLM"],
        "model_type": "moss_tts_nano",
        "model_architecture": "global_local_transformer",
        "n_vq": tiny.books,
        "audio_vocab_size": tiny.codes,
        "audio_codebook_sizes": [tiny.codes] * tiny.books,
        "audio_pad_token_id": tiny.pad,
        "local_transformer_layers": tiny.local_layers,
        "vocab_size": VOCAB,
        "hidden_size": tiny.hidden,
        "max_position_embeddings": 4096,
        "audio_tokenizer_pretrained_name_or_path": f"OpenMOSS-Team/{CODEC}",
        **{f"{name}_token_id": number for name, number in ID.items()},
        "gpt2_config": {
            "n_embd": tiny.hidden,
            "n_layer": tiny.layers,
            "n_head": tiny.heads,
            "n_inner": 40,
            "vocab_size": VOCAB,
            "activation_function": "gelu_new",
            "layer_norm_epsilon": 1e-5,
            "position_embedding_type": "rope",
            "rope_base": 10000.0,
        },
    }


def codec_config(tiny: Tiny) -> dict:
    def step(part: int | tuple) -> dict:
        if isinstance(part, int):
            return {"module_type": "PatchedPretransform", "patch_size": part}
        inputs, outputs, layers, window_s = part
        sizes = {"d_model": CODEC_WIDTH, "num_heads": CODEC_HEADS, "dim_feedforward": CODEC_FFN, "num_layers": layers}
        kinds = {"norm": "layer_norm", "gating": "none", "positional_embedding": "rope", "causal": True}
        widths = {"input_dimension": inputs, "output_dimension": outputs, "context_duration": window_s}
        return {"module_type": "Transformer", **widths, **sizes, **kinds, "layer_scale": 0.01, "max_period": 10000}

    return {
        "model_type": "moss-audio-tokenizer",
        "sampling_rate": SAMPLE_RATE,
        "number_channels": CHANNELS,
        "enable_channel_interleave": True,
        "downsample_rate": tiny.hop,
        "quantizer_type": "rlfq",
        "quantizer_kwargs": {
            "input_dim": LATENT,
            "rvq_dim": RVQ,
            "output_dim": LATENT,
            "codebook_dim": CODE_DIM,
            "codebook_size": tiny.codes,
            "num_quantizers": tiny.books,
        },
        "decoder_kwargs": [step(part) for part in tiny.decoder()],
        "encoder_kwargs": [step(part) for part in tiny.encoder()],
    }


# --- weights ---


def write(folder: Path, tiny: Tiny | None = None) -> str:
    """Writes a checkpoint, with its codec in a sub-folder; returns the fingerprint of its tensors."""
    tiny = tiny or Tiny()
    codec = folder / CODEC
    codec.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(tiny), indent=1))
    assert sentencepiece.write(folder / "tokenizer.model", WORDS, SYMBOLS) <= VOCAB
    (codec / "config.json").write_text(json.dumps(codec_config(tiny), indent=1))
    talker, codec_weights = dict(talker_tensors(tiny)), dict(codec_tensors(tiny))
    weights.save(folder, talker)
    weights.save(codec, codec_weights)
    return weights.digest(talker | codec_weights)


Named = Iterator[tuple[str, np.ndarray]]


def _linear(name: str, outputs: int, inputs: int, seed: int, bias: bool = True) -> Named:
    yield f"{name}.weight", weights.spread(f"{name}.weight", (outputs, inputs), inputs**-0.5, seed)
    if bias:
        yield f"{name}.bias", weights.spread(f"{name}.bias", (outputs,), 0.1, seed)


def _norm(name: str, width: int, seed: int) -> Named:
    yield f"{name}.weight", weights.uniform(f"{name}.weight", (width,), 0.7, 1.3, seed)
    yield f"{name}.bias", weights.spread(f"{name}.bias", (width,), 0.1, seed)


def _gpt2(name: str, layers: int, tiny: Tiny) -> Named:
    hidden, seed = tiny.hidden, tiny.seed
    for i in range(layers):
        yield from _norm(f"{name}.h.{i}.ln_1", hidden, seed)
        yield from _linear(f"{name}.h.{i}.attn.c_attn", 3 * hidden, hidden, seed)
        yield from _linear(f"{name}.h.{i}.attn.c_proj", hidden, hidden, seed)
        yield from _norm(f"{name}.h.{i}.ln_2", hidden, seed)
        yield from _linear(f"{name}.h.{i}.mlp.fc_in", 40, hidden, seed)
        yield from _linear(f"{name}.h.{i}.mlp.fc_out", hidden, 40, seed)
    yield from _norm(f"{name}.ln_f", hidden, seed)


def talker_tensors(tiny: Tiny) -> Named:
    words = weights.spread("wte", (VOCAB, tiny.hidden), 0.5, tiny.seed)
    # The first channel says whether the last frame was the last one. Heads are tied to embeddings, so the final norm
    # makes this channel small: else it would also decide which codes are drawn.
    words[ID["audio_end"], 0], words[ID["audio_assistant_slot"], 0] = 200.0, 0.0
    yield "transformer.wte.weight", words
    yield from _gpt2("transformer", tiny.layers, tiny)
    local = dict(_gpt2("local_transformer", tiny.local_layers, tiny))
    local["local_transformer.ln_f.weight"][0] = 0.02
    local["local_transformer.ln_f.bias"][0] = -0.04 if tiny.last_codes else -1.0
    yield from local.items()
    for book in range(tiny.books):
        name = f"audio_embeddings.{book}.weight"
        table = weights.spread(name, (tiny.codes, tiny.hidden), 0.5, tiny.seed)
        table[:, 0] = 0.0
        if book == 0:
            table[: tiny.last_codes, 0] = 20.0
        yield name, table


def _level(name: str, inputs: int, outputs: int, layers: int, seed: int) -> Named:
    yield from _linear(f"{name}.input_proj", CODEC_WIDTH, inputs, seed, bias=False)
    for i in range(layers):
        layer = f"{name}.transformer.layers.{i}"
        yield from _norm(f"{layer}.norm1", CODEC_WIDTH, seed)
        yield from _linear(f"{layer}.self_attn.in_proj", 3 * CODEC_WIDTH, CODEC_WIDTH, seed, bias=False)
        yield from _linear(f"{layer}.self_attn.out_proj", CODEC_WIDTH, CODEC_WIDTH, seed, bias=False)
        yield from _norm(f"{layer}.norm2", CODEC_WIDTH, seed)
        yield from _linear(f"{layer}.ffn.0", CODEC_FFN, CODEC_WIDTH, seed, bias=False)
        yield from _linear(f"{layer}.ffn.2", CODEC_WIDTH, CODEC_FFN, seed, bias=False)
        for scale in ("layer_scale_1.scale", "layer_scale_2.scale"):
            yield f"{layer}.{scale}", weights.uniform(f"{layer}.{scale}", (CODEC_WIDTH,), 0.2, 0.6, seed)
    yield from _linear(f"{name}.output_proj", outputs, CODEC_WIDTH, seed, bias=False)


def _conv(name: str, outputs: int, inputs: int, seed: int) -> Named:
    original = f"{name}.parametrizations.weight.original"
    yield f"{original}0", weights.uniform(f"{original}0", (outputs, 1, 1), 0.5, 1.0, seed)
    yield f"{original}1", weights.spread(f"{original}1", (outputs, inputs, 1), 1.0, seed)
    yield f"{name}.bias", weights.spread(f"{name}.bias", (outputs,), 0.05, seed)


def codec_tensors(tiny: Tiny) -> Named:
    seed = tiny.seed
    for side, steps in (("encoder", tiny.encoder()), ("decoder", tiny.decoder())):
        for i, step in enumerate(steps):
            if not isinstance(step, int):
                yield from _level(f"{side}.{i}", *step[:3], seed)
    yield from _conv("quantizer.input_proj", RVQ, LATENT, seed)
    yield from _conv("quantizer.output_proj", LATENT, RVQ, seed)
    for book in range(tiny.books):
        name = f"quantizer.quantizers.{book}"
        yield from _conv(f"{name}.in_proj", CODE_DIM, RVQ, seed)
        yield from _conv(f"{name}.out_proj", RVQ, CODE_DIM, seed)
        yield f"{name}.codebook.weight", weights.spread(f"{name}.codebook", (tiny.codes, CODE_DIM), 1.0, seed)


def reference_audio(samples: int, channels: int = CHANNELS) -> np.ndarray:
    """Gliding tones with noise, another on each channel, by formula: [channels, samples]."""
    t = np.arange(samples) / SAMPLE_RATE
    tones = [0.3 * np.sin(2 * np.pi * (180 + 90 * channel + 40 * t) * t) for channel in range(channels)]
    return (np.stack(tones) + weights.spread("reference", (channels, samples), 0.05, 0)).astype(np.float32)

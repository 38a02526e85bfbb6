"""Tiny random Qwen3-TTS 12 Hz checkpoints in the published layout.

    write(folder, Tiny(kind="base", predictor="proj"))

makes a folder that upstream's `from_pretrained` and ours both load. Values depend on the recipe only, so goldens hold
upstream's outputs and tests re-make the inputs.
"""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tiny import qwen_tokenizer, weights
from tiny.qwen3_tts_shapes import Shapes, codec_shapes, talker_shapes

Kind = Literal["base", "custom_voice", "voice_design"]

HIDDEN = 64  # talker width, and so the width of a speaker embedding
GROUPS = 16  # codebooks
CODES = 64  # codes per codebook; the codec's special ids live in [CODES, CODES + 1024)
EOS = CODES + 102
SAMPLE_RATE = 24_000
HOP = 1920


@dataclass(frozen=True)
class Tiny:
    """The recipe of one checkpoint."""

    kind: Kind = "custom_voice"
    predictor: Literal["same", "proj"] = "proj"  # predictor width: the talker's, or half of it behind a projection
    size: str = "1b7"  # "0b6" makes upstream ignore `instruct` for custom voices
    eos_gain: float = 0.3  # how far the end-of-speech logit swings; 1.0 swings like any other code
    seed: int = 0


def config(tiny: Tiny, special_ids: dict[str, int]) -> dict[str, Any]:
    """`config.json`."""
    presets = tiny.kind == "custom_voice"
    return {
        "model_type": "qwen3_tts",
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "tts_model_type": tiny.kind,
        "tts_model_size": tiny.size,
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "im_start_token_id": special_ids["<|im_start|>"],
        "im_end_token_id": special_ids["<|im_end|>"],
        "tts_pad_token_id": special_ids["<tts_pad>"],
        "tts_bos_token_id": special_ids["<tts_text_bos>"],
        "tts_eos_token_id": special_ids["<tts_text_eod>"],
        "speaker_encoder_config": {
            "mel_dim": 128,
            "enc_dim": HIDDEN,
            "enc_channels": [32, 32, 32, 32, 96],
            "enc_kernel_sizes": [5, 3, 3, 3, 1],
            "enc_dilations": [1, 2, 3, 4, 1],
            "enc_attention_channels": 16,
            "enc_res2net_scale": 4,
            "enc_se_channels": 16,
            "sample_rate": SAMPLE_RATE,
        },
        "talker_config": {
            "vocab_size": CODES + 1024,
            "hidden_size": HIDDEN,
            "intermediate_size": 96,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "hidden_act": "silu",
            "text_vocab_size": max(special_ids.values()) + 8,  # padded, as published
            "text_hidden_size": 48,
            "num_code_groups": GROUPS,
            "rope_theta": 1_000_000,
            "rope_scaling": {
                "interleaved": True,
                "mrope_section": [8, 4, 4],
                "rope_type": "default",
                "type": "default",
            },
            "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-6,
            "attention_bias": False,
            "use_sliding_window": False,
            "codec_pad_id": CODES + 100,
            "codec_bos_id": CODES + 101,
            "codec_eos_token_id": EOS,
            "codec_think_id": CODES + 106,
            "codec_nothink_id": CODES + 107,
            "codec_think_bos_id": CODES + 108,
            "codec_think_eos_id": CODES + 109,
            "codec_language_id": {
                "english": CODES + 2,
                "german": CODES + 5,
                "chinese": CODES + 7,
                "sichuan_dialect": CODES + 14,
                "beijing_dialect": CODES + 26,
            },
            "spk_id": {"aiden": CODES + 813, "eric": CODES + 827, "dylan": CODES + 830} if presets else {},
            "spk_is_dialect": {"aiden": False, "eric": "sichuan_dialect", "dylan": "beijing_dialect"}
            if presets
            else {},
            "position_id_per_seconds": 13,
            "code_predictor_config": {
                "vocab_size": CODES,
                "hidden_size": HIDDEN if tiny.predictor == "same" else HIDDEN // 2,
                "intermediate_size": 80,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "head_dim": 16,
                "hidden_act": "silu",
                "num_code_groups": GROUPS,
                "rope_theta": 1_000_000,
                "max_position_embeddings": 65536,
                "rms_norm_eps": 1e-6,
                "attention_bias": False,
                "use_sliding_window": False,
            },
        },
    }


GENERATION_CONFIG = {
    "do_sample": True,
    "repetition_penalty": 1.05,
    "temperature": 0.9,
    "top_p": 1.0,
    "top_k": 50,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_p": 1.0,
    "subtalker_top_k": 50,
    "max_new_tokens": 8192,
}

CODEC_CONFIG: dict[str, Any] = {
    "model_type": "qwen3_tts_tokenizer_12hz",
    "architectures": ["Qwen3TTSTokenizerV2Model"],
    "encoder_valid_num_quantizers": GROUPS,
    "input_sample_rate": SAMPLE_RATE,
    "output_sample_rate": SAMPLE_RATE,
    "encode_downsample_rate": HOP,
    "decode_upsample_rate": HOP,
    "encoder_config": {
        "model_type": "mimi",
        "audio_channels": 1,
        "sampling_rate": SAMPLE_RATE,
        "_frame_rate": 12.5,
        "num_filters": 4,
        "kernel_size": 7,
        "last_kernel_size": 3,
        "residual_kernel_size": 3,
        "num_residual_layers": 1,
        "dilation_growth_rate": 2,
        "compress": 2,
        "use_causal_conv": True,
        "use_conv_shortcut": False,
        "pad_mode": "constant",
        "upsampling_ratios": [8, 6, 5, 4],
        "upsample_groups": 32,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 8,
        "hidden_act": "gelu",
        "norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": 8000,
        "layer_scale_initial_scale": 0.01,
        "sliding_window": 12,  # upstream never applies it: short, so that a window would show
        "codebook_size": CODES,
        "codebook_dim": 16,
        "vector_quantization_hidden_dimension": 16,
        "num_quantizers": 20,  # more than the GROUPS that are kept
        "num_semantic_quantizers": 1,
    },
    "decoder_config": {
        "codebook_size": CODES,
        "codebook_dim": 32,
        "num_quantizers": GROUPS,
        "latent_dim": 40,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 16,
        "hidden_act": "silu",
        "attention_bias": False,
        "sliding_window": 6,
        "rope_theta": 10000,
        "rms_norm_eps": 1e-5,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
        "decoder_dim": 48,
    },
}

PREPROCESSOR_CONFIG = {
    "feature_extractor_type": "EncodecFeatureExtractor",
    "feature_size": 1,
    "sampling_rate": SAMPLE_RATE,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
    "chunk_length_s": None,
    "overlap": None,
}

# First match decides: a standard deviation, or bounds. All else is 1 / sqrt(fan in) (matrices) or 0.05 (vectors).
# Codec gains are low so that the waveform stays well inside [-1, 1]: a clipped codec hides errors.
_STD = (
    (r"text_embedding", 1.0),
    (r"codec_embedding", 0.5),
    (r"embed_sum", 0.4),
    (r"embedding_sum", 0.5),
)
_BOUNDS = (
    (r"(norm|layernorm)\.weight", (0.8, 1.2)),
    (r"layer_scale\.scale|gamma", (0.1, 0.4)),
    (r"\.(alpha|beta)$", (-0.4, 0.4)),
    (r"cluster_usage", (0.5, 2.0)),
    (r"initialized", (1.0, 1.0)),
)
_GAIN = (
    (r"encoder\.encoder\.layers\.0\.", 3.0),
    (r"codec_head|lm_head", 3.0),
    (r"decoder\.decoder\.\d+\.block\.\d\.conv2", 0.5),
    (r"decoder\.decoder\.6\.", 0.15),
)


def _tensor(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    for pattern, std in _STD:
        if re.search(pattern, name):
            return weights.spread(name, shape, std, seed)
    for pattern, (low, high) in _BOUNDS:
        if re.search(pattern, name):
            return weights.uniform(name, shape, low, high, seed)
    if len(shape) == 1:
        return weights.spread(name, shape, 0.05, seed)
    gain = next((gain for pattern, gain in _GAIN if re.search(pattern, name)), 1.0)
    return weights.spread(name, shape, gain / float(np.prod(shape[1:])) ** 0.5, seed)


def _tensors(shapes: Shapes, seed: int) -> dict[str, np.ndarray]:
    return {name: _tensor(name, shape, seed) for name, shape in shapes.items()}


def talker_tensors(tiny: Tiny, config: dict[str, Any]) -> dict[str, np.ndarray]:
    """Tensors of `model.safetensors`."""
    tensors = _tensors(talker_shapes(config), tiny.seed)
    tensors["talker.codec_head.weight"][EOS] *= tiny.eos_gain
    return tensors


def codec_tensors(tiny: Tiny) -> dict[str, np.ndarray]:
    """Tensors of `speech_tokenizer/model.safetensors`."""
    return _tensors(codec_shapes(CODEC_CONFIG), tiny.seed)


def write(folder: Path | str, tiny: Tiny, shards: int = 1) -> str:
    """Write the checkpoint of this recipe into `folder`; return the fingerprint of its tensors."""
    folder = Path(folder)
    codec = folder / "speech_tokenizer"
    codec.mkdir(parents=True, exist_ok=True)
    settings = config(tiny, qwen_tokenizer.write(folder))
    (folder / "config.json").write_text(json.dumps(settings, indent=1))
    (folder / "generation_config.json").write_text(json.dumps(GENERATION_CONFIG, indent=1))
    (codec / "config.json").write_text(json.dumps(CODEC_CONFIG, indent=1))
    (codec / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR_CONFIG, indent=1))
    talker, speech = talker_tensors(tiny, settings), codec_tensors(tiny)
    weights.save(folder, talker, shards)
    weights.save(codec, speech)
    return weights.digest(talker | speech)


def recipe(tiny: Tiny) -> dict[str, Any]:
    """The recipe as JSON; `Tiny(**recipe)` reads it back."""
    return asdict(tiny)


def reference_audio(n_samples: int, seed: int = 0) -> np.ndarray:
    """A synthetic 24 kHz reference, float32: a gliding tone with an overtone under a slow tremolo, and some noise."""
    t = np.arange(n_samples, dtype=np.float64) / SAMPLE_RATE
    phase = 2 * np.pi * (180 * t + 120 * t**2)
    tone = np.sin(phase) + 0.4 * np.sin(3.1 * phase + 0.5)
    noise = np.random.RandomState(seed).random_sample(n_samples) - 0.5
    return (0.25 * tone * (0.6 + 0.4 * np.sin(2 * np.pi * 3.3 * t)) + 0.05 * noise).astype(np.float32)


def random_codes(n_frames: int, seed: int = 0) -> np.ndarray:
    """Codes for the codec, int64 [n_frames, GROUPS]."""
    return np.random.RandomState(seed).randint(0, CODES, size=(n_frames, GROUPS)).astype(np.int64)

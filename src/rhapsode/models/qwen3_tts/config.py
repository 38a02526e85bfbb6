"""A checkpoint's `config.json` and `generation_config.json`, typed. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rhapsode.checkpoints.folder import parse, read_json, section
from rhapsode.errors import CheckpointError

KINDS = {"base": "Base", "custom_voice": "CustomVoice", "voice_design": "VoiceDesign"}

SUPPRESSED = 1024
"""How many ids at the end of the vocabulary are languages, voices and control tokens. Only the end may be sampled."""


@dataclass(frozen=True)
class LayersConfig:
    """Sizes of the layers of the talker or of the code predictor."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    vocab_size: int
    rope_theta: float
    rms_norm_eps: float = 1e-6
    head_dim: int = 0
    attention_bias: bool = False
    hidden_act: str = "silu"
    use_sliding_window: bool = False

    def __post_init__(self) -> None:
        if not self.head_dim:
            object.__setattr__(self, "head_dim", self.hidden_size // self.num_attention_heads)
        if self.use_sliding_window or self.hidden_act != "silu":
            raise CheckpointError(
                "Qwen3-TTS layers have no sliding window and use SiLU; this config.json says otherwise."
            )


@dataclass(frozen=True)
class TokensConfig:
    """Special ids of a prompt's codec side."""

    codec_pad_id: int
    codec_bos_id: int
    codec_eos_token_id: int
    codec_think_id: int
    codec_nothink_id: int
    codec_think_bos_id: int
    codec_think_eos_id: int
    codec_language_id: Mapping[str, int]
    num_code_groups: int
    text_hidden_size: int
    text_vocab_size: int
    spk_id: Mapping[str, Any]
    spk_is_dialect: Mapping[str, Any]


@dataclass(frozen=True)
class TextConfig:
    """Special ids of a prompt's text side, and the kind of the model."""

    tts_model_type: str
    im_start_token_id: int
    im_end_token_id: int
    tts_pad_token_id: int
    tts_bos_token_id: int
    tts_eos_token_id: int
    tts_model_size: str = "1b7"

    def __post_init__(self) -> None:
        if self.tts_model_type not in KINDS:
            raise CheckpointError(f"'tts_model_type' is '{self.tts_model_type}'; known: {', '.join(KINDS)}.")


@dataclass(frozen=True)
class GenerationConfig:
    """Sampling parameters of a checkpoint; the defaults are upstream's."""

    do_sample: bool = True
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.05
    subtalker_dosample: bool = True
    subtalker_temperature: float = 0.9
    subtalker_top_k: int = 50
    subtalker_top_p: float = 1.0
    max_new_tokens: int = 2048
    longest_text: int = 0
    """The longest text in characters that the checkpoint takes at once, 0 for any; a longer one is spoken in parts.
    Upstream has no such key."""
    normalise: bool = False
    """Whether the checkpoint needs numbers, dates and the like as words. Upstream has no such key."""
    phonemes: bool = False
    """Whether the checkpoint needs English words as phonemes of the packaged lexicon. Upstream has no such key."""
    clones: bool = False
    """Whether a CustomVoice checkpoint has the two encoders of a Base one and clones. Upstream has no such key."""
    voice_facts: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What is known of presets, by their names: `gender`, `accent`. Upstream has no such key."""
    x_vector_only_mode: bool = False
    """The default of the request's option: whether to clone from the speaker embedding alone. True for checkpoints that
    never learned to continue a reference's codes. Upstream has no such key."""

    @property
    def max_frames(self) -> int:
        """The most frames of one prompt. Upstream discards the last token it samples."""
        return self.max_new_tokens - 1


@dataclass(frozen=True)
class QwenConfig:
    """All of a checkpoint's configuration that prompts and talker use."""

    text: TextConfig
    tokens: TokensConfig
    talker: LayersConfig
    predictor: LayersConfig
    generation: GenerationConfig
    speaker_width: int

    @property
    def kind(self) -> str:
        return self.text.tts_model_type

    @property
    def clones(self) -> bool:
        """Whether the checkpoint has a speaker encoder and a codec encoder."""
        return self.kind == "base" or (self.kind == "custom_voice" and self.generation.clones)

    @property
    def takes_instructions(self) -> bool:
        """Whether prompts have instructions: upstream leaves them out for a Base and for a small CustomVoice model."""
        return self.kind == "voice_design" or (self.kind == "custom_voice" and self.text.tts_model_size != "0b6")

    @property
    def groups(self) -> int:
        return self.tokens.num_code_groups


def read(config: Mapping[str, Any], folder: Path | None) -> QwenConfig:
    """Returns the configuration from the content of `config.json` and the folder it is in."""
    talker = section(config, "talker_config", "config.json")
    predictor = section(talker, "code_predictor_config", "talker_config in config.json")
    generation = folder / "generation_config.json" if folder else None
    given = read_json(generation) if generation and generation.is_file() else {}
    layers = parse(LayersConfig, talker, "talker_config in config.json")
    width = dict(config.get("speaker_encoder_config") or {}).get("enc_dim", layers.hidden_size)
    if width != layers.hidden_size:
        raise CheckpointError(f"'enc_dim' is {width}, but the talker is {layers.hidden_size} wide: they must agree.")
    return QwenConfig(
        text=parse(TextConfig, config, "config.json"),
        tokens=parse(TokensConfig, talker, "talker_config in config.json"),
        talker=layers,
        predictor=parse(LayersConfig, predictor, "code_predictor_config in config.json"),
        generation=parse(GenerationConfig, given, "generation_config.json"),
        speaker_width=width,
    )

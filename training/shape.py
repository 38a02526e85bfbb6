"""What the trained voice looks like: the configs it is served with, from those of the packaged voice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from codec import SHAPE, read_config
from phonemes import MOST_LETTERS
from tokenizer import SPECIAL, TEXT_VOCABULARY
from voices import with_presets

SPEAKER_ENCODER = {
    "mel_dim": 128,
    "enc_channels": [128, 128, 128, 128, 384],
    "enc_kernel_sizes": [5, 3, 3, 3, 1],
    "enc_dilations": [1, 2, 3, 4, 1],
    "enc_attention_channels": 64,
    "enc_res2net_scale": 4,
    "enc_se_channels": 64,
    "sample_rate": 24_000,
}
_MARKS = ("im_start_token_id", "im_end_token_id", "tts_pad_token_id", "tts_bos_token_id", "tts_eos_token_id")


def talker_config() -> dict[str, Any]:
    """Returns `config.json` of the voice."""
    config = with_presets(read_config(SHAPE))
    talker = config["talker_config"]
    talker["text_vocab_size"] = TEXT_VOCABULARY
    first = TEXT_VOCABULARY - len(SPECIAL) + 1  # after the end of text
    config |= {mark: first + i for i, mark in enumerate(_MARKS)}
    config["speaker_encoder_config"] = {**SPEAKER_ENCODER, "enc_dim": talker["hidden_size"]}
    return config


def write(folder: Path, clones: bool = False) -> None:
    """Writes the configs; `clones`: the folder has encoders for references."""
    folder.mkdir(parents=True, exist_ok=True)
    generation = json.loads((SHAPE / "generation_config.json").read_text())
    generation |= {"longest_text": MOST_LETTERS, "clones": clones}
    for name, content in (("config.json", talker_config()), ("generation_config.json", generation)):
        (folder / name).write_text(json.dumps(content, indent=1) + "\n")

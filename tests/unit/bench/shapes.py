"""A tiny shape: the files of a Qwen3-TTS checkpoint without weights and without a vocabulary."""

import json
from pathlib import Path

from tiny.qwen3_tts import CODEC_CONFIG, GENERATION_CONFIG, Tiny, config

IDS = {"<|im_start|>": 300, "<|im_end|>": 301, "<tts_pad>": 302, "<tts_text_bos>": 303, "<tts_text_eod>": 304}


def write(folder: Path) -> dict:
    """Writes the shape into `folder` and returns its config."""
    (folder / "speech_tokenizer").mkdir(parents=True)
    settings = config(Tiny(), IDS)
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "generation_config.json").write_text(json.dumps(GENERATION_CONFIG))
    (folder / "speech_tokenizer" / "config.json").write_text(json.dumps(CODEC_CONFIG))
    return settings

"""Families that announce cloning need their encoders: a checkpoint that lacks one does not start, and says why."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from rhapsode import TTS
from rhapsode.errors import CheckpointError
from tiny import fish_s2_pro, higgs, moss_tts_nano, qwen3_tts, voxcpm2

Write = Callable[[Path], Any]
CASES: dict[str, tuple[Write, str, str]] = {
    "fish-s2-pro": (fish_s2_pro.write, "codec.safetensors", r"encoder\."),
    "higgs-v2": (lambda folder: higgs.write(folder, higgs.Tiny()), "codec/model.safetensors", "acoustic_encoder"),
    "higgs-v3": (
        lambda folder: higgs.write(folder, higgs.Tiny(generation=3)),
        "model.safetensors",
        r".*acoustic_encoder",
    ),
    "moss-tts-nano": (moss_tts_nano.write, "MOSS-Audio-Tokenizer-Nano/model.safetensors", r"encoder\."),
    "qwen3-tts codec": (
        lambda folder: qwen3_tts.write(folder, qwen3_tts.Tiny(kind="base")),
        "speech_tokenizer/model.safetensors",
        r"encoder\.encoder\.",
    ),
    "qwen3-tts speaker": (
        lambda folder: qwen3_tts.write(folder, qwen3_tts.Tiny(kind="base")),
        "model.safetensors",
        r"speaker_encoder\.",
    ),
    "voxcpm2": (
        lambda folder: voxcpm2.write(folder, voxcpm2.Tiny(layers=(1, 1, 1))),
        "audiovae.safetensors",
        r"encoder\.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_without_its_encoder_does_not_start(case: str, tmp_path: Path) -> None:
    write, file, encoder = CASES[case]
    write(tmp_path)
    tensors = load_file(tmp_path / file)
    kept = {name: tensor for name, tensor in tensors.items() if not re.match(encoder, name)}
    assert len(kept) < len(tensors)
    save_file(kept, tmp_path / file)
    limits = {"max_concurrency": 1, "max_positions": 512}
    with pytest.raises(CheckpointError, match="encoder"), TTS(str(tmp_path), limits=limits, graphs=False):
        pass

"""All steps of a run at a tiny size, one after the other: what they end in has presets, clones, and speaks."""

import gzip
import json
import shutil
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import codec
import pack
import schedule
import shape
import train_codec
import voices
from rhapsode import TTS, Audio, Voice
from rhapsode.models.registry import find
from teacher import HOP, _framed, write_shard

CODEC = {
    "latent_dim": 32, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "decoder_dim": 32,
}  # fmt: skip
TALKER = {
    "num_hidden_layers": 2, "hidden_size": 128, "intermediate_size": 192, "num_attention_heads": 2,
    "num_key_value_heads": 1,
}  # fmt: skip
PREDICTOR = {
    "num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 32,
}  # fmt: skip


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes the shape of the voice tiny, and minutes those of the processor: a busy machine makes as many steps."""
    folder = shutil.copytree(codec.SHAPE, tmp_path / "shape")
    for name, change in (("speech_tokenizer/config.json", _small_codec), ("config.json", _small_talker)):
        config = json.loads((folder / name).read_text())
        change(config)
        (folder / name).write_text(json.dumps(config))
    for module in (codec, shape, pack):
        monkeypatch.setattr(module, "SHAPE", folder)
    monkeypatch.setattr(train_codec, "CONFIG", folder / "speech_tokenizer")
    monkeypatch.setitem(shape.SPEAKER_ENCODER, "enc_channels", [32, 32, 32, 32, 96])
    monkeypatch.setattr(schedule, "time", SimpleNamespace(monotonic=time.process_time))
    return tmp_path


def _small_codec(config: dict) -> None:
    config["encoder_config"] |= {"num_filters": 4, "hidden_size": 48}
    config["decoder_config"] |= CODEC


def _small_talker(config: dict) -> None:
    config["talker_config"] |= TALKER
    config["talker_config"]["code_predictor_config"] |= PREDICTOR


def _speech(folder: Path) -> None:
    """Writes a text, voices of noise, and a shard of tones."""
    with gzip.open(folder / "spoken.tsv.gz", "wt") as out:
        out.writelines(f"Say number {i} again.\tsˈA nˈʌmbəɹ əɡˈɛn.\n" for i in range(24))
    (folder / "kokoro" / "voices").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in voices.PRESETS.values():
        rng.standard_normal((510, 256)).astype(np.float32).tofile(folder / "kokoro" / "voices" / f"{name}.bin")
    made = []
    for i in range(24):
        tone = 0.3 * np.sin(np.arange((30 + i) * HOP) * 0.03 * (1 + i // 2 % 7)).astype(np.float32)
        made.append((i, _framed(tone, rng.integers(1, 177, len(tone) // 600)), i // 2 % 7 if i // 2 % 7 < 6 else -i))
    (folder / "shards").mkdir()
    write_shard(folder / "shards" / "00-00000.npz", made)


@pytest.mark.slow
def test_the_whole_chain_ends_in_a_voice_that_speaks(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _speech(tiny)
    run = _runner(monkeypatch)
    spoken, shards, model = tiny / "spoken.tsv.gz", tiny / "shards", tiny / "model"
    little = ("--hours", 0.05)
    run("tokenizer", spoken, model)
    crops = ("--batch", 1, "--frames", 4, "--first-hours", 0.001, *little)
    run("train_codec", shards, model / "speech_tokenizer", "--minutes", 0.05, "--begin-codes", 1, *crops)
    run(
        "train_codec",
        shards,
        model / "speech_tokenizer",
        "--minutes",
        0.01,
        "--learn",
        "decoder",
        "--adversarial-after",
        0,
        *crops,
    )
    run("speaker", shards, tiny / "kokoro", model, "--minutes", 0.01, "--batch", 3, *little)
    run(
        "encode",
        spoken,
        shards,
        model,
        tiny / "lines",
        "--held-out",
        3,
        "--wait",
        1,
        "--codes",
        tiny / "codes",
        *little,
    )
    small = ("--positions", 256, "--predicted", 32, "--room", 100_000, "--first", 10)
    run("train_talker", tiny / "lines", model, "--minutes", 0.03, *small)
    run("train_talker", tiny / "lines", model, "--minutes", 0.01, *small)
    run("pack", model, tiny / "voice")
    info = find(str(tiny / "voice")).info()
    assert info.voices == tuple(voices.PRESETS)
    assert info.can.clone
    assert info.normalise
    assert info.phonemes
    with TTS(str(tiny / "voice"), device="cpu") as tts:
        said = tts.speak("Hello there.", voice="george", max_frames=20)
        assert said.samples.size
        tone = Audio(0.3 * np.sin(np.arange(48_000) * 0.05)[None].astype(np.float32), 24_000)
        alone = tts.speak("Hello there.", voice=Voice.cloned(tone), max_frames=20, seed=1)
        assert alone.samples.size
        with_words = tts.speak("Hello there.", voice=Voice.cloned(tone, "A tone."), max_frames=20, seed=1)
        assert np.allclose(with_words.samples, alone.samples, rtol=0, atol=1e-5)  # chunks may be cut elsewhere


def _runner(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def run(script: str, *arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        import_module(script).main()

    return run

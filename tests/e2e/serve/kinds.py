"""Every kind of checkpoint, as tiny ones of the published layouts, and a server of each."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from e2e.serve.running import Running, in_thread
from rhapsode.models.cosyvoice3.reference import SPEAKER, SPEECH_TOKENIZER
from tiny import (
    chatterbox,
    cosyvoice3,
    dummy,
    fish_s2_pro,
    higgs,
    moss_tts_nano,
    onnx_model,
    qwen3_tts,
    voxcpm2,
    voxtral_tts,
    weights,
)

NOWHERE = "http://127.0.0.1:9/"
"""Where nothing listens."""


def qwen(**recipe: Any) -> Callable[[Path], Any]:
    return lambda folder: qwen3_tts.write(folder, qwen3_tts.Tiny(**recipe))


def custom_voice_that_clones(folder: Path) -> None:
    """As the packaged voice may be: presets, and the encoders of a Base checkpoint."""
    qwen3_tts.write(folder, qwen3_tts.Tiny(kind="base"))
    config = json.loads((folder / "config.json").read_text())
    config |= {"tts_model_type": "custom_voice", "tts_model_size": "0b6"}
    config["talker_config"] |= {"spk_id": {"ann": 1000, "bob": 1001}, "spk_is_dialect": {"ann": False, "bob": False}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"clones": True}))


def cosyvoice(*, encoders: tuple[str, ...] = (SPEAKER, SPEECH_TOKENIZER), speakers: bool = True) -> Callable[..., None]:
    """With stand-ins of the networks that encode references, as published, or without some of them."""

    def write(folder: Path) -> None:
        cosyvoice3.write(folder, cosyvoice3.TinyCosyVoice(end_gain=3.0))
        if SPEAKER in encoders:
            matrix = weights.spread("speaker.matrix", (80, cosyvoice3.EMBEDDING), 1.0, 0)
            onnx_model.speaker(folder / SPEAKER, matrix)
        if SPEECH_TOKENIZER in encoders:
            onnx_model.speech_tokenizer(folder / SPEECH_TOKENIZER, cosyvoice3.CODES)
        if not speakers:
            (folder / "spk2info.pt").unlink()

    return write


def chatterbox_of(tiny: chatterbox.TinyT3) -> Callable[[Path], Any]:
    return lambda folder: chatterbox.write(folder, tiny)


def hibari_with_another_voice(home: Path) -> None:
    """The packaged voice once more, where a downloaded one would be."""
    from hibari.voices import VOICES, voice_path

    shutil.copy(voice_path("heart"), home / VOICES["emma"]["file"])


KINDS: dict[str, Callable[[Path], Any] | None] = {
    "rhapsode-nano": None,
    "dummy": None,
    "dummy that clones": dummy.write,
    "qwen3-tts Base": qwen(kind="base"),
    "qwen3-tts CustomVoice 0.6B": qwen(size="0b6"),
    "qwen3-tts CustomVoice 1.7B": qwen(),
    "qwen3-tts CustomVoice that clones": custom_voice_that_clones,
    "qwen3-tts VoiceDesign": qwen(kind="voice_design"),
    "voxcpm2": lambda folder: voxcpm2.write(folder, voxcpm2.Tiny(stop_shift=10.0, layers=(1, 1, 1))),
    "voxtral-tts": lambda folder: voxtral_tts.write(folder, voxtral_tts.Tiny(steps=1)),
    "voxtral-tts with an encoder": lambda folder: voxtral_tts.write(folder, voxtral_tts.Tiny(steps=1, encoder=True)),
    "fish-s2-pro": fish_s2_pro.write,
    "higgs-v2": lambda folder: higgs.write(folder, higgs.Tiny()),
    "higgs-v3": lambda folder: higgs.write(folder, higgs.Tiny(generation=3)),
    "moss-tts-nano": moss_tts_nano.write,
    "cosyvoice3": cosyvoice(),
    "cosyvoice3 without speakers": cosyvoice(speakers=False),
    "cosyvoice3 without encoders": cosyvoice(encoders=()),
    "cosyvoice3 without encoders and speakers": cosyvoice(encoders=(), speakers=False),
    "cosyvoice3 without a speech tokenizer": cosyvoice(encoders=(SPEAKER,)),
    "cosyvoice3 without a speaker encoder": cosyvoice(encoders=(SPEECH_TOKENIZER,)),
    **{f"chatterbox {name}": chatterbox_of(tiny) for name, tiny in chatterbox.ENDING.items()},
    "hibari": None,
    "hibari offline": None,
    "hibari with another voice": hibari_with_another_voice,
}
SLOW = {
    "qwen3-tts CustomVoice that clones",
    "cosyvoice3 without speakers",
    "cosyvoice3 without encoders",
    "cosyvoice3 without a speech tokenizer",
    "cosyvoice3 without a speaker encoder",
    "chatterbox nano",
    "hibari offline",
    "hibari with another voice",
}
"""Each is much like one that every run of the tests has."""


@contextmanager
def served(kind: str, folder: Path) -> Iterator[Running]:
    """A server of this kind of checkpoint."""
    write, model = KINDS[kind], folder / "checkpoint"
    model.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        if kind.startswith("hibari"):
            _isolate_hibari(patch, model, offline="offline" in kind)
        if write is not None:
            write(model)
        limits = {"max_concurrency": 2, "max_positions": 4096, "real_time": False}
        name = kind.partition(" ")[0] if write is None or kind.startswith("hibari") else str(model)
        with in_thread(name, folder, limits=limits, graphs=False, threads=1) as server:
            yield server


def _isolate_hibari(patch: pytest.MonkeyPatch, home: Path, offline: bool) -> None:
    """Lets the package find its other voices in `home` alone: what a machine has or can reach changes nothing."""
    if find_spec("hibari") is None:
        pytest.skip("hibari-tts is not installed")
    patch.setattr("hibari.voices.BASE_URL", NOWHERE)
    patch.setenv("HIBARI_HOME", str(home))
    patch.setenv("HF_HUB_OFFLINE", "1" if offline else "0")

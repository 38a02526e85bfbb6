"""`rhapsode verify` passes checkpoints that are whole, and names what is wrong with those that are not."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from rhapsode.config import resolve
from rhapsode.models.registry import find
from rhapsode.types import Clip, Reference
from rhapsode.verify.checks import checks
from rhapsode.verify.files import check_files, check_tokenizer
from rhapsode.verify.finding import CheckResult
from rhapsode.verify.report import verdict
from tiny import cosyvoice3, fish_s2_pro, moss_tts_nano, qwen3_tts, voxcpm2, voxtral_tts
from unit.command import rhapsode

WEIGHTS = Path("model.safetensors")
CODEC = Path("speech_tokenizer") / "model.safetensors"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    qwen3_tts.write(folder, qwen3_tts.Tiny(eos_gain=1.4))
    return folder


def results(folder: Path, reference: Reference | None = None, **settings) -> list[CheckResult]:
    flags = {"model": str(folder), "device": "cpu", "threads": 1, "graphs": False, "limits": {"max_concurrency": 1}}
    return list(checks(find(str(folder)), resolve(env={}, flags=flags), reference, **settings))


def change(file: Path, edit: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(file)
    edit(tensors)
    save_file(tensors, file)


def failures(found: list[CheckResult]) -> str:
    return "\n".join(f"{one.subject}: {one.detail} {' '.join(one.more)}" for one in found if one.verdict == "failed")


def test_the_command_passes_a_tiny_checkpoint_with_a_report_to_paste(checkpoint: Path, tmp_path: Path) -> None:
    done = rhapsode("verify", str(checkpoint), "--device", "cpu", "--recogniser", "none", cwd=tmp_path, timeout_s=110)
    report = done.stdout.decode()
    assert done.returncode == 0, report + done.stderr.decode()
    assert "model: qwen3-tts CustomVoice: 3 languages" in report
    assert "cpu, float32" in report
    for subject in ("files", "tokenizer", "tensors", "default voice", "preset dylan", "instructions", "text in pieces"):
        assert f"  {subject}: " in report, report
    assert "1 keys" not in report
    assert "verdict: passed" in report


def test_a_voice_of_every_kind_is_cloned(tmp_path: Path) -> None:
    qwen3_tts.write(tmp_path / "base", qwen3_tts.Tiny(kind="base", eos_gain=1.4))
    reference = Reference(Clip(qwen3_tts.reference_audio(12_345)[None], 24_000), "the ref")
    found = results(tmp_path / "base", reference)
    spoken = {"clone", "clone with transcript", "embedding", "text in pieces"}
    assert spoken <= {one.subject for one in found if one.verdict in ("ok", "warning")}, found
    assert not failures(found)


@pytest.mark.slow
def test_a_checkpoint_without_its_encoders_speaks_and_is_told_which_files_to_add(tmp_path: Path) -> None:
    folder = cosyvoice3.write(tmp_path / "cosy", cosyvoice3.TinyCosyVoice(end_gain=3.0))
    (folder / "spk2info.pt").unlink()
    found = results(folder, Reference(Clip(cosyvoice3.reference_audio(12_000)[None], 24_000), "the ref"))
    warned = {one.subject: one.detail for one in found if one.verdict == "warning"}
    assert "speech_tokenizer_v3.onnx" in warned["clone"]
    spoken = {"instructions", "embedding", "text in pieces"}
    assert spoken <= {one.subject for one in found if one.verdict in ("ok", "warning")}, found


@pytest.mark.parametrize("file", ["vocab.json", "merges.txt", "speech_tokenizer/config.json", "model.safetensors"])
def test_a_missing_or_empty_file_is_named(checkpoint: Path, file: str) -> None:
    (checkpoint / file).write_bytes(b"")
    (found,) = check_files(find(str(checkpoint)))
    assert found.verdict == "failed"
    assert file in found.detail


def test_every_tensor_that_is_missing_or_misshapen_or_unknown_is_named(checkpoint: Path) -> None:
    names: list[str] = []

    def damage(tensors: dict[str, torch.Tensor]) -> None:
        names.extend(sorted(name for name in tensors if name.endswith("norm.weight"))[:2])
        del tensors[names[0]]
        tensors[names[1]] = torch.zeros(3)
        tensors["talker.nobody.weight"] = torch.zeros(1)

    change(checkpoint / WEIGHTS, damage)
    told = failures(results(checkpoint))
    for name in (*names, "talker.nobody.weight"):
        assert name in told, told


def test_a_vocabulary_that_lacks_a_letter_is_found(checkpoint: Path) -> None:
    vocab = json.loads((checkpoint / "vocab.json").read_text())
    (checkpoint / "vocab.json").write_text(json.dumps({token: i for token, i in vocab.items() if "q" not in token}))
    (found,) = check_tokenizer(find(str(checkpoint)))
    assert found.verdict == "failed"


@pytest.mark.slow
def test_weights_that_are_not_numbers_are_heard(checkpoint: Path) -> None:
    def poison(tensors: dict[str, torch.Tensor]) -> None:
        name = next(name for name in sorted(tensors) if name.startswith("decoder.") and name.endswith(".bias"))
        tensors[name] = torch.full_like(tensors[name], float("nan"))

    change(checkpoint / CODEC, poison)
    found = results(checkpoint)
    assert failures(found)
    assert verdict(found).startswith("verdict: failed")


def test_silence_is_heard(checkpoint: Path) -> None:
    def mute(tensors: dict[str, torch.Tensor]) -> None:
        for name in [name for name in tensors if name.startswith("decoder.")][-8:]:
            tensors[name] = torch.zeros_like(tensors[name])
        for name in tensors:
            if name.startswith("decoder.decoder."):
                tensors[name] = torch.zeros_like(tensors[name])

    change(checkpoint / CODEC, mute)
    assert "silent" in failures(results(checkpoint))


@pytest.mark.parametrize(
    ("family", "recipe"),
    [
        (voxcpm2, voxcpm2.Tiny(layers=(1, 1, 1))),
        (voxtral_tts, voxtral_tts.Tiny(steps=1)),
        (fish_s2_pro, fish_s2_pro.Tiny()),
        (moss_tts_nano, moss_tts_nano.Tiny()),
    ],
    ids=["voxcpm2", "voxtral-tts", "fish-s2-pro", "moss-tts-nano"],
)
def test_files_tensors_and_tokenizer_of_every_family_are_checked(tmp_path: Path, family, recipe) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    family.write(folder, recipe)
    found = results(folder, speaks=False)
    assert not failures(found)
    assert {"files", "tokenizer", "tensors"} <= {one.subject for one in found if one.verdict == "ok"}


def test_an_unknown_key_of_the_configuration_is_noted(checkpoint: Path) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps({**config, "sparkle": np.pi}))
    notes = [one.detail for one in results(checkpoint, speaks=False) if one.subject == "config"]
    assert any("sparkle" in note for note in notes), notes

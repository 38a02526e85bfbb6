"""Faults planted in a tiny checkpoint are named by the bug report, and what is whole is not blamed.

The checkpoint is one of those whose speech upstream's package made for `tests/golden`.
"""

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from rhapsode.published.beside import Beside, our_traces
from rhapsode.published.bundle import pack
from rhapsode.published.checkpoint_faults import faults
from rhapsode.published.measure import CheckpointMeasurement
from rhapsode.published.plan import PublishedPlan, read_splits
from rhapsode.verify.finding import CheckResult
from tiny import qwen3_tts

GOLDEN = Path(__file__).parents[2] / "golden" / "qwen3_tts"
INDEX = json.loads((GOLDEN / "index.json").read_text("utf-8"))
CASE = INDEX["cases"]["cv_auto_block"]
CODEC = Path("speech_tokenizer") / "model.safetensors"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden") / "original"
    known = INDEX["checkpoints"][CASE["checkpoint"]]
    assert qwen3_tts.write(folder, qwen3_tts.Tiny(**known["recipe"])) == known["fingerprint"]
    return folder


@pytest.fixture
def damaged(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "damaged")
    return tmp_path / "damaged"


def measurement(folder: Path, original: Path | None, output: Path) -> CheckpointMeasurement:
    splits, languages, where = read_splits(None, "", None, "en", 1)
    other = None if original is None else Beside(None, str(original))
    plan = PublishedPlan(splits, languages, where, device="cpu", beside=other, output=output)
    return CheckpointMeasurement.begin(str(folder), plan)


def findings(folder: Path, original: Path) -> str:
    return "\n".join(pack(measurement(folder, original, folder.parent), folder.parent / "bug.zip"))


def change_codec(folder: Path, edit) -> None:
    tensors = load_file(folder / CODEC)
    save_file(edit(tensors), folder / CODEC)


def test_a_wrong_scale_of_the_codec_is_named(damaged: Path, original: Path) -> None:
    def scaled(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        last = max(int(name.split(".")[2]) for name in tensors if name.startswith("decoder.decoder."))
        return {n: t / 2 if n.startswith(f"decoder.decoder.{last}.") else t for n, t in tensors.items()}

    change_codec(damaged, scaled)
    told = findings(damaged, original)
    assert "codec: the samples are 0.5 times upstream's: a wrong scale" in told
    assert "talker" not in told


def test_a_shifted_token_id_is_named(damaged: Path, original: Path) -> None:
    config = json.loads((damaged / "config.json").read_text())
    config["tts_bos_token_id"] += 1
    (damaged / "config.json").write_text(json.dumps(config))
    told = findings(damaged, original)
    assert "token id: tts_bos_token_id of config.json" in told
    assert "<tts_text_bos>" in told
    assert "talker: " in told


def test_a_codec_that_was_rounded_to_bfloat16_is_named(damaged: Path, original: Path) -> None:
    change_codec(damaged, lambda tensors: {n: t.to(torch.bfloat16).to(t.dtype) for n, t in tensors.items()})
    told = findings(damaged, original)
    assert f"float32 tensors of {CODEC.as_posix()} hold only bfloat16 numbers" in told
    assert "codec: about as exact as bfloat16" in told
    assert "talker" not in told


def test_a_whole_checkpoint_speaks_upstreams_codes_and_is_not_blamed(original: Path, tmp_path: Path) -> None:
    here = measurement(original, original, tmp_path)
    assert list(faults(original)) == []
    here.verified.append(CheckResult("clone", "warning", "it cannot clone"))
    assert pack(here, tmp_path / "bug.zip") == ["verify, warning: clone: it cannot clone"]
    item = {"id": "one", "mode": "presets", "text": CASE["text"], "seed": 1}
    assert here.voices.info.voices[0] == CASE["ask"]["speaker"].lower()
    _, trace = our_traces(str(original), here.model, here.voices, [item], "cpu")["one"]
    assert trace.frames is not None
    assert np.array_equal(trace.frames, np.load(GOLDEN / "cv_auto_block.npz")["codes"])


def test_the_bundle_has_shapes_and_no_weights_and_no_texts(original: Path, tmp_path: Path) -> None:
    here = measurement(original, None, tmp_path)
    secret = {"id": "p", "text": "My secret words.", "heard": "my secret words", "detail": "", "scores": {"wer": 0.0}}
    here.progress.results["sample/float32/presets/en/p"] = secret
    pack(here, tmp_path / "bug.zip")
    with zipfile.ZipFile(tmp_path / "bug.zip") as bundle:
        names = bundle.namelist()
        assert {"findings.txt", "report.json", "tensors.json", "configs/config.json"} <= set(names)
        assert len([name for name in names if name.startswith("clips/")]) == 3
        assert not any(name.endswith((".safetensors", ".bin", ".pt")) for name in names)
        shapes = json.loads(bundle.read("tensors.json"))
        assert shapes["model.safetensors"]["talker.codec_head.weight"].startswith("F32 [")
        assert b"secret" not in bundle.read("report.json")
    here.model = replace(here.model, checkpoint=None)  # nothing of it is needed again
    pack(here, tmp_path / "bug.zip", texts=True)
    with zipfile.ZipFile(tmp_path / "bug.zip") as bundle:
        assert b"My secret words." in bundle.read("report.json")

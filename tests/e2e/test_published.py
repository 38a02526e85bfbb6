"""`rhapsode bench published` as a user types it: end to end, cut off and gone on, refused, and beside upstream."""

import json
import os
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from rhapsode.cli.main import app
from rhapsode.errors import InvalidRequest, MissingDependency
from rhapsode.models.kokoro import folder as kokoro
from rhapsode.models.kokoro import spec as kokoro_spec
from rhapsode.published import measure
from rhapsode.published.beside import UpstreamFailed
from rhapsode.published.measure import NotVerified
from rhapsode.published.row import SCHEMA, read
from rhapsode.published.steps import MeasuringPace
from rhapsode.tts import TTS
from tiny import cosyvoice3, fish_s2_pro, higgs, moss_tts_nano, qwen3_tts, voxcpm2, voxtral_tts
from unit.published import listener

HEAR = ("--recogniser", "unit.published.listener:hear")
SMALL = (*HEAR, "--most", "2", "--listeners", "1", "--precision", "float32", "--device", "cpu", "-o", "out")
UPSTREAM = Path(os.environ.get("TEST_UPSTREAM", Path(__file__).parents[2] / ".venv-upstream"))
"""A folder with an environment for each of upstream's packages: `make upstream`."""


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_SHA", "a" * 40)  # where there is no repository
    monkeypatch.setattr(sys, "argv", ["rhapsode", "bench", "published"])  # not that of pytest


def published(*arguments):
    """What the command prints; it must succeed."""
    done = CliRunner().invoke(app, ["bench", "published", *arguments])
    if done.exception is not None:
        raise done.exception
    return done.output


def row(name):
    found = read(Path("out") / f"{name}.json")
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(found)
    return found


def test_a_family_is_measured_end_to_end():
    shown = published("dummy", *SMALL)
    found = row("dummy")
    assert {(one["mode"], one["samples"]) for one in found["quality"]} == {("presets", 2), ("dialogue", 2)}
    assert all(one["comparable"]["rate"] > 0.5 for one in found["quality"])
    assert [(one["listeners"], one["underruns"]) for one in found["speed"]] == [(1, 0)]
    assert found["recogniser"] == "unit.published.listener:hear"
    assert "| dummy | presets | float32 | en | 2 |" in shown
    assert Path("out/table.md").read_text("utf-8") in shown
    assert not list(Path("out").glob("*.jsonl"))


def test_a_run_that_was_cut_off_goes_on_where_it_was(monkeypatch):
    def cut_off(*_):
        raise KeyboardInterrupt

    measure_speed = measure.measure_speed
    monkeypatch.setattr(measure, "measure_speed", cut_off)
    with pytest.raises(BaseException):  # noqa: B017, PT011
        published("dummy", *SMALL)
    kept = Path("out/dummy.progress.jsonl").read_text("utf-8")
    assert kept.count('"sample/float32/') == 4
    monkeypatch.setattr(measure, "measure_speed", measure_speed)
    listener.heard.clear()
    shown = published("dummy", *SMALL)
    assert "4 of 5 steps are done" in shown
    assert not listener.heard
    assert len(row("dummy")["speed"]) == 1


def test_a_budget_leaves_steps_out_and_a_larger_one_makes_them(monkeypatch):
    monkeypatch.setattr(measure.CheckpointMeasurement, "_pace", lambda _: MeasuringPace(rtf=1.0, heard_s=1.0))
    few = (*SMALL, "--most", "6", "--mode", "presets")
    assert "do not fit into the budget" in published("dummy", *few, "--budget", "1s")
    assert row("dummy")["left_out"] > 0
    published("dummy", *few)
    assert row("dummy")["left_out"] == 0
    assert row("dummy")["quality"][0]["samples"] == 6


def test_a_checkpoint_that_fails_verify_is_not_measured_and_is_reported(tmp_path):
    qwen3_tts.write(tmp_path / "tiny", qwen3_tts.Tiny())
    (tmp_path / "tiny" / "model.safetensors").write_bytes(b"")
    with pytest.raises(NotVerified, match="--report"):
        published("tiny", *SMALL, "--report", "bug.zip")
    assert Path("bug.zip").is_file()
    assert not Path("out/tiny.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--mode", "song"), "--mode takes auto or some of presets, dialogue"),
        (("--precision", "fp8"), "--precision takes auto or some of float32, int8"),
        (("--budget", "soon"), "30m"),
        (("--beside", "nobody", "python"), "`upstream` and a Python"),
        (("--seed-tts", "nowhere"), "there is no nowhere/en/meta.lst"),
        (("--recogniser", "no.such:thing"), "module:name"),
        (("--recogniser", "base.en", "--language", "zh"), "knows English alone"),
        (("--beside", "upstream", "python"), "no adapter for dummy"),
    ],
)
def test_bad_wishes_are_one_sentence(arguments, words):
    with pytest.raises(InvalidRequest, match=words):
        published("dummy", *SMALL, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rhapsode-nano", "hibari", "kokoro"])
def test_voices_that_are_here_are_measured(name):
    if name == "kokoro" and kokoro.installed() is None:
        pytest.skip(f"not installed: {kokoro_spec.SPEC.install}")
    published(name, *SMALL[2:], "--recogniser", "ctc:", "--listeners", "1,8")
    found = row(name)
    assert found["verify"]["verdict"].startswith("verdict: passed")
    assert all(one["comparable"]["rate"] < 0.6 for one in found["quality"])
    assert [one["listeners"] for one in found["speed"]] == [1, 8]


@pytest.mark.slow
def test_seed_tts_eval_gives_texts_voices_and_lengths(tmp_path):
    folder = tmp_path / "seed" / "en"
    folder.mkdir(parents=True)
    with TTS(limits={"max_concurrency": 1}) as voice:
        voice.speak("This is a sample of my voice.", "emma", seed=1).save(folder / "reference.wav")
        voice.speak("It rained all morning.", "emma", seed=2).save(folder / "person.wav")
    line = "one|This is a sample of my voice.|reference.wav|It rained all morning.|person.wav"
    (folder / "meta.lst").write_text(f"{line}\n")
    published(
        *("rhapsode-nano", *SMALL[2:], "--recogniser", "ctc:", "--mode", "clone"),
        *("--seed-tts", str(tmp_path / "seed"), "--split", "en"),
    )
    (found,) = row("rhapsode-nano")["quality"]
    assert (found["mode"], found["split"], found["samples"]) == ("clone", "en", 1)
    assert found["length"] == pytest.approx(1, abs=0.35)
    assert row("rhapsode-nano")["prompts"] == "Seed-TTS-eval"


TINY = {
    "qwen3-tts": (qwen3_tts.write, qwen3_tts.Tiny(eos_gain=1.4)),
    "voxcpm2": (voxcpm2.write, voxcpm2.Tiny(stop_shift=0.5)),
    "voxtral-tts": (voxtral_tts.write, voxtral_tts.Tiny(end_gain=1.5, encoder=True, steps=1, seed=20)),
    "fish-s2-pro": (fish_s2_pro.write, fish_s2_pro.Tiny(end_gain=1.3, seed=1)),
    "higgs-v2": (higgs.write, higgs.Tiny(end_gain=0.5)),
    "higgs-v3": (higgs.write, higgs.Tiny(generation=3, end_gain=1.3, seed=2)),
    "moss-tts-nano": (moss_tts_nano.write, moss_tts_nano.Tiny()),
    "cosyvoice3": (cosyvoice3.write, cosyvoice3.TinyCosyVoice(end_gain=3.0)),
}


def write(family, folder):
    folder.mkdir(exist_ok=True)
    made, recipe = TINY[family]
    made(folder, recipe)
    return str(folder)


@pytest.mark.slow
@pytest.mark.parametrize("family", TINY)
def test_a_tiny_checkpoint_of_every_family_is_measured(family, tmp_path):
    name = write(family, tmp_path / "tiny")
    published(name, *SMALL, "--anyway", "--report", "bug.zip")  # random weights may say nothing in one of the modes
    found = read(Path("out/tiny.json"))
    assert found["checkpoint"]["family"] == family
    assert {one["samples"] for one in found["quality"]} == {2}
    assert found["speed"][0]["frames"] > 1
    assert found["speed"][0]["audio_s_per_s"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "package"), [("qwen3-tts", "qwen-tts"), ("voxcpm2", "voxcpm"), ("hibari", "hibari-tts")]
)
def test_our_speech_is_upstreams(family, package, tmp_path):
    python = UPSTREAM / package / "bin" / "python"
    if family == "hibari":  # our own Python has it
        python = Path(sys.executable)
    if not python.is_file():
        pytest.skip(f"no environment with {package} in {UPSTREAM}: make upstream")
    name = family if family == "hibari" else write(family, tmp_path / "tiny")
    published(name, *SMALL, "--mode", "presets", "--beside", "upstream", str(python))
    found = row("hibari" if family == "hibari" else "tiny")["beside"]
    assert found["upstream"].startswith(package)
    assert found["texts"] >= 3
    for sample in found["samples"]:
        assert sample["findings"] == []
        assert sample["equal_frames"] == sample["frames"]
        assert sample["gain"] == pytest.approx(1, abs=1e-3)
        assert sample["mel_db"] < 0.01


@pytest.mark.slow
def test_an_upstream_that_is_not_there_is_one_sentence(tmp_path):
    name = write("qwen3-tts", tmp_path / "tiny")
    with pytest.raises(MissingDependency, match="cannot be run"):
        published(name, *SMALL, "--mode", "presets", "--beside", "upstream", str(tmp_path / "python"))
    with pytest.raises(UpstreamFailed, match="does not start"):
        published(name, *SMALL, "--mode", "presets", "--beside", "upstream", "/bin/false")

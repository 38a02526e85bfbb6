"""Rows are complete and unedited, and the page says what they say."""

import copy
import json

import pytest
from jsonschema import Draft202012Validator, ValidationError
from tools.published_page import PAGE, page, read_rows

from rhapsode.errors import InvalidRequest
from rhapsode.models.registry import families
from rhapsode.published.row import SCHEMA, read, seal, write
from rhapsode.published.table import markdown

QUALITY = {
    "precision": "float32",
    "mode": "presets",
    "split": "en",
    "language": "en",
    "samples": 3,
    "scored": 3,
    "errors": {"runaway": 1},
    "wer": 0.01,
    "cer": 0.005,
    "comparable": {"normaliser": "whisper-en (rules)", "metric": "wer", "rate": 0.02},
    "normaliser": "rhapsode-en-2",
    "similarity": 0.9,
    "mos": 4.1,
    "dnsmos": None,
    "length": None,
    "silence": 0.1,
    "clipped": 0,
    "runaways": 1,
    "first_audio_p50_ms": 30.5,
    "rtf_p50": 0.1,
    "audio_s": 12.0,
    "worst": ["p1"],
}
SPEED = {
    "precision": "float32",
    "listeners": 1,
    "requests": 2,
    "frames": 52,
    "first_audio_p50_ms": 30.0,
    "first_audio_p99_ms": 31.0,
    "rtf": 0.1,
    "audio_s_per_s": 10.0,
    "underruns": 0,
    "load_before": 0.5,
    "memory_bytes": {"weights": 10**9, "peak": 2 * 10**9},
}
BESIDE = {
    "upstream": "package 1.0",
    "texts": 1,
    "ours_rtf": 0.1,
    "theirs_rtf": 2.0,
    "samples": [
        {
            "id": "presets-0",
            "frames": 24,
            "equal_frames": 24,
            "ours_s": 1.9,
            "theirs_s": 1.9,
            "mel_db": 0.0,
            "gain": 1.0,
            "snr_db": 110.0,
            "ours_wer": None,
            "theirs_wer": None,
            "findings": [],
        }
    ],
}
ROW = seal(
    {
        "schema": 1,
        "checkpoint": {
            "name": "some-tts",
            "family": "voxcpm2",
            "variant": "",
            "revision": "0" * 40,
            "sha256": "a" * 64,
        },
        "created": "2026-11-19T10:00:00+00:00",
        "command": ["bench", "published", "some-tts"],
        "code": {"version": "0.1.0", "revision": "b" * 40},
        "machine": {
            "platform": "Linux",
            "cpu": "one",
            "cores": 2,
            "memory_bytes": 1,
            "gpus": [],
            "driver": None,
            "device": "cpu",
        },
        "versions": {"python": "3.11.7", "rhapsode": "0.1.0", "torch": "2.13.0"},
        "seed": 1,
        "prompts": "prompts.txt",
        "recogniser": "faster-whisper:base",
        "judges": ["resemblyzer"],
        "verify": {"verdict": "verdict: passed", "checks": 4, "told": []},
        "quality": [QUALITY],
        "speed": [SPEED],
        "beside": BESIDE,
        "left_out": 0,
    }
)


def validate(row):
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(row)


def test_a_row_is_read_as_it_was_written(tmp_path):
    validate(ROW)
    write(ROW, tmp_path / "row.json")
    assert read(tmp_path / "row.json") == ROW


def test_an_edited_row_is_refused(tmp_path):
    edited = copy.deepcopy(ROW)
    edited["quality"][0]["comparable"]["rate"] = 0.001
    write(edited, tmp_path / "row.json")
    with pytest.raises(InvalidRequest, match="was edited"):
        read_rows(tmp_path)


@pytest.mark.parametrize("missing", sorted(set(ROW) - {"digest", "schema"}))
def test_an_incomplete_row_is_refused(missing, tmp_path):
    write(seal({name: value for name, value in ROW.items() if name != missing}), tmp_path / "row.json")
    with pytest.raises(ValidationError):
        read_rows(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"quality": []},
        {"speed": []},
        {"recogniser": "none"},
        {"code": {"version": "0.1.0", "revision": None}},
        {"verify": {"verdict": "verdict: failed (1 failed, 0 warnings)", "checks": 1, "told": []}},
        {"quality": [{name: value for name, value in QUALITY.items() if name != "comparable"}]},
    ],
)
def test_a_row_that_says_too_little_is_refused(change, tmp_path):
    write(seal({**ROW, **change}), tmp_path / "row.json")
    with pytest.raises(ValidationError):
        read_rows(tmp_path)


def test_the_tables_show_a_row():
    shown = markdown([ROW])
    assert "| some-tts | presets | float32 | en | 3 | 1 | 2.00 |" in shown
    assert "| some-tts | package 1.0 | presets-0 | 24 of 24 |" in shown
    assert "Whisper" in page([]) or "whisper" in shown


def test_the_page_is_what_the_rows_say():
    assert PAGE.read_text("utf-8") == page(read_rows()), "run `python -m tools.published_page`"


def test_every_family_has_a_row_or_is_not_measured_yet():
    shown = page([ROW])
    assert shown.count("not measured yet") == len(
        [s for s in families()[0].values() if not s.hidden]
    )  # voxcpm2 has one
    assert "| voxcpm2 | some-tts | presets | float32 | 3 | 2.00 |" in shown
    assert "1 of 1 texts equal, package 1.0" in shown

"""Prompts, logits, codes and waveforms equal upstream's."""

import json

import numpy as np
import pytest
import torch

from rhapsode.models.moss_tts_nano.chunks import chunks_of, split
from rhapsode.nn.kernels.sampling import Rules, Settings
from rhapsode.nn.sampling import probabilities
from rhapsode.types import Sampling
from unit.moss_tts_nano.asked import (
    CASES,
    FRAMES,
    GOLDEN,
    INDEX,
    SPOKEN,
    Family,
    Stage,
    decode,
    golden,
    request,
    rows_of,
)

SPLITS = json.loads((GOLDEN / "splits.json").read_text("utf-8"))


@pytest.mark.parametrize("name", SPOKEN)
def test_prompts_are_equal(family: Family, name: str) -> None:
    expected = golden(name)
    prompts = family.prompts(request(name))
    assert len(prompts) == len(CASES[name]["chunks"])
    for i, prompt in enumerate(prompts):
        np.testing.assert_array_equal(rows_of(prompt), expected[f"prompt_{i}"])


@pytest.mark.parametrize("name", SPOKEN)
def test_logits_under_forced_codes_are_close(family: Family, name: str) -> None:
    expected, books = golden(name), CASES[name].get("options", {}).get("nq", INDEX["codebooks"])
    stage = Stage(family.talker)
    stage.join([1], family.prompts(request(name))[:1], request(name).sampling)
    for codes in expected["forced_codes"]:
        stage.forced = torch.from_numpy(codes)[None].long()
        stage.step(1)
    close(torch.cat(stage.hidden), expected["global_hidden"])
    close(torch.cat(stage.ending), expected["slot_logits"])
    close(torch.cat(stage.logits)[:, :books], expected["audio_logits"])


def close(found: torch.Tensor, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    assert float(np.abs(found.numpy() - expected).max()) <= 1e-4 * float(expected.std())


@pytest.mark.parametrize("name", SPOKEN)
def test_greedy_codes_are_equal_and_end_where_upstream_ends(family: Family, name: str) -> None:
    expected, case = golden(name), CASES[name]
    stage = Stage(family.talker)
    for i, prompt in enumerate(family.prompts(request(name))):
        stage.join([2], [prompt], request(name).sampling)
        codes = expected[f"greedy_codes_{i}"]
        frames, limit = [], case.get("options", {}).get("max_frames", FRAMES)
        stopped = False
        while len(frames) < limit and not stopped:
            step = stage.step(2)
            stopped = bool(step.stopped)
            assert bool(step.emitted) != stopped
            frames += [] if stopped else [step.frames[0].numpy()]
        found = np.stack(frames)
        np.testing.assert_array_equal(found[:, : codes.shape[1]], codes)
        assert (found[:, codes.shape[1] :] == family.talker.net.config.codes).all()  # codebooks that are not in use
        assert stopped == case["stopped"][i]


@pytest.mark.parametrize("name", SPOKEN)
def test_sampling_probabilities_are_equal(name: str) -> None:
    expected, given = golden(name), INDEX["filter"]
    settings = Settings(
        torch.tensor([given["audio_temperature"]]),
        torch.tensor([given["audio_top_k"]]),
        torch.tensor([given["audio_top_p"]]),
    )
    for at, wanted in zip(expected["probs_frames"], expected["probs_audio"], strict=True):
        scores = torch.from_numpy(expected["audio_logits"][at, 0])[None]
        history = torch.zeros(1, scores.shape[1], dtype=torch.bool)
        history[0, torch.from_numpy(expected["forced_codes"][:at, 0]).long()] = True
        nothing, zero = torch.zeros(scores.shape[1], dtype=torch.bool), torch.zeros(1, dtype=torch.int64)
        penalty = torch.tensor([given["audio_repetition_penalty"]])
        scores = Rules(history, zero, penalty, nothing, nothing, zero, 0).apply(scores)
        np.testing.assert_allclose(probabilities(scores, settings)[0].numpy(), wanted, atol=1e-6)


def test_defaults_are_those_of_upstreams_servers(family: Family) -> None:
    assert family.talker.defaults == Sampling(0.8, 25, 0.95, 1.2)


@pytest.mark.parametrize("name", [name for name in SPOKEN if "reference" in CASES[name]] + ["codec"])
def test_reference_codes_are_equal(family: Family, name: str) -> None:
    from rhapsode.audio.clip import Audio

    expected = golden(name)["reference_codes"]
    books = CASES[name].get("options", {}).get("nq", INDEX["codebooks"])
    found = family.encode._encoded(Audio.open(GOLDEN / CASES[name]["reference"]["audio"]), books)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", SPOKEN)
def test_waveforms_are_close(family: Family, name: str) -> None:
    expected = golden(name)
    for i, prompt in enumerate(family.prompts(request(name))):
        codes = expected[f"greedy_codes_{i}"]
        padded = np.full((len(codes), INDEX["codebooks"]), family.talker.net.config.codes)
        padded[:, : codes.shape[1]] = codes
        found = decode(family.codec, padded, prompt)
        assert np.abs(found - expected[f"waveform_{i}"]).max() <= 1e-4 * np.abs(expected[f"waveform_{i}"]).max()


def test_a_codec_pass_longer_than_every_window_is_close(family: Family) -> None:
    expected = golden("codec")
    found = decode(family.codec, expected["codes"])
    assert np.abs(found - expected["waveform"]).max() <= 1e-4 * np.abs(expected["waveform"]).max()


@pytest.mark.parametrize("case", SPLITS["splits"], ids=lambda case: case["text"][:12])
def test_texts_are_split_as_upstream_splits_them(family: Family, case: dict) -> None:
    if case["max_tokens"]:
        assert split(case["text"], case["max_tokens"], family.prepare._count) == case["chunks"]
    used = chunks_of(case["text"], case["max_tokens"], family.prepare._count)
    assert used == (case["chunks"] if len(case["chunks"]) > 1 else [case["text"]])

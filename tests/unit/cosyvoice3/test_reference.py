"""The reference front end: upstream's spectrograms, and the two networks that onnxruntime runs."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rhapsode.audio.sinc import resample_sinc
from rhapsode.errors import CheckpointError, InvalidRequest, MissingDependency
from rhapsode.models.cosyvoice3 import frontend
from rhapsode.models.cosyvoice3.reference import SPEAKER, SPEECH_TOKENIZER
from rhapsode.models.registry import find
from rhapsode.nn.kaldi import kaldi_fbank
from rhapsode.nn.whisper_mel import whisper_mel
from rhapsode.types import Clip, Reference, SpeechRequest, Voice
from tiny import onnx_model, weights
from tiny.cosyvoice3 import CODES, EMBEDDING, reference_audio
from unit.cosyvoice3.asked import Family, golden, rows_of

CLIP = Clip(np.stack([reference_audio(50_000, 44_100)] * 2), 44_100)
MATRIX = weights.spread("speaker.matrix", (80, EMBEDDING), 1.0, 0)


@pytest.fixture(scope="module")
def folder(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with stand-ins of the two networks."""
    made = tmp_path_factory.mktemp("cosy-onnx") / "checkpoint"
    shutil.copytree(tiny, made)
    onnx_model.speaker(made / SPEAKER, MATRIX)
    onnx_model.speech_tokenizer(made / SPEECH_TOKENIZER, CODES)
    return made


@pytest.fixture(scope="module")
def stages(folder: Path) -> Family:
    return Family.open(folder)


def test_spectrograms_are_upstreams(family: Family) -> None:
    arrays = golden("frontend")
    high, low = (torch.from_numpy(arrays[f"audio_{rate}k"].astype(np.float32)) for rate in (24, 16))
    mel = frontend.prompt_mel(high, family.talker._config.mel)
    np.testing.assert_allclose(mel, arrays["prompt_mel"], atol=1e-5)
    np.testing.assert_allclose(whisper_mel(low), arrays["tokenizer_logmel"], atol=1e-5)
    np.testing.assert_allclose(kaldi_fbank(low), arrays["campplus_fbank"], atol=3e-5)


def test_a_recording_alone_is_cloned_where_the_checkpoint_has_the_networks(stages: Family) -> None:
    pytest.importorskip("onnxruntime")
    audio = torch.from_numpy(resample_sinc(CLIP.samples[:1], CLIP.sample_rate, 16_000)[0])
    mel = whisper_mel(audio).numpy()[:, ::4].mean(0)
    tokens = np.abs(mel * 100).astype(np.int64) % CODES
    prompt = stages.prompt(SpeechRequest("Hello there.", Voice.cloned(CLIP, "the ref")))
    start, count = stages.talker.net.speech_start, CLIP.samples.shape[1] * 24_000 // 44_100 // 960
    assert abs(len(tokens) - count) <= 1
    assert [row - start for row in rows_of(prompt)[-count:]] == tokens[:count].tolist()
    expected = kaldi_fbank(audio).numpy().mean(0) @ MATRIX
    assert prompt.voice is not None
    np.testing.assert_allclose(prompt.voice.embedding, expected, atol=1e-4)
    np.testing.assert_allclose(stages.encode.embed(CLIP), expected, atol=1e-4)


def test_given_results_are_taken_in_place_of_computed_ones(stages: Family) -> None:
    given = tuple(range(EMBEDDING))
    voice = Voice(references=(Reference(CLIP, "the ref"),), embedding=given)
    prompt = stages.prompt(SpeechRequest("Hello.", voice, options={"reference_tokens": [3, 4, 5]}))
    assert prompt.voice is not None
    assert prompt.voice.tokens.tolist() == [3, 4, 5]
    assert tuple(prompt.voice.embedding) == given


def test_without_onnxruntime_the_error_says_what_to_install(folder: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    encode = Family.open(folder).encode
    with pytest.raises(MissingDependency, match=r"pip install .*\[cosyvoice3\]"):
        encode.embed(CLIP)


def test_a_checkpoint_clones_where_both_networks_can_run(folder: Path, tiny: Path, monkeypatch) -> None:
    pytest.importorskip("onnxruntime")
    able, unable = find(str(folder)).info(), find(str(tiny)).info()
    assert (able.can.clone, able.reference_needs, able.variant) == (True, (), "")
    assert (unable.can.clone, unable.reference_needs) == (False, ("reference_tokens", "speaker_embedding"))
    assert f"has no {SPEECH_TOKENIZER} and no {SPEAKER}" in unable.instead["clone"]
    assert "cloning" in able.summary
    assert "cloning" not in unable.summary
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    without = find(str(folder)).info()
    assert (without.can.clone, without.reference_needs) == (False, unable.reference_needs)
    assert "pip install" in without.instead["clone"]


def test_a_broken_network_is_an_error_of_the_checkpoint(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    broken = shutil.copytree(folder, tmp_path / "broken")
    (broken / SPEAKER).write_bytes(b"no model")
    with pytest.raises(CheckpointError, match=SPEAKER):
        Family.open(broken).encode.embed(CLIP)
    onnx_model.speaker(broken / SPEAKER, MATRIX[:, :5])
    with pytest.raises(CheckpointError, match="makes 5 numbers"):
        Family.open(broken).encode.embed(CLIP)


def test_a_checkpoint_without_them_says_so(tiny: Path) -> None:
    with pytest.raises(InvalidRequest, match=SPEAKER):
        Family.open(tiny).encode.embed(CLIP)

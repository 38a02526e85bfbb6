"""The reference encoders: every step equals upstream's, from the recording to tokens, vectors and mel frames."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from rhapsode.audio.loudness import integrated_loudness
from rhapsode.audio.resample import mono
from rhapsode.audio.sinc import resample_sinc
from rhapsode.checkpoints.weights import TensorsInMemory
from rhapsode.errors import BadAudio, CheckpointError
from rhapsode.models.chatterbox.reference import encoders
from rhapsode.models.chatterbox.reference.encoders import ReferenceEncoders
from rhapsode.models.chatterbox.reference.loudness import gain_to, measured_loudness
from rhapsode.models.chatterbox.reference.parts import reference_encoders
from rhapsode.models.chatterbox.reference.voice_encoder import speech_span, voice_mel, windows
from rhapsode.nn.kaldi import kaldi_fbank
from rhapsode.nn.whisper_mel import whisper_mel
from rhapsode.types import Clip
from rhapsode.voices.cache import ReferenceCache
from tiny import chatterbox_s3gen as tiny_s3gen
from unit.chatterbox.s3gen import GOLDEN, TINY, context, golden, tensors

RULES = {"original": encoders.ORIGINAL, "turbo": encoders.TURBO}


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.inference_mode():
        yield


@cache
def made_for(variant: str) -> ReferenceEncoders:
    voices = {name: torch.from_numpy(one) for name, one in tiny_s3gen.voice_tensors(TINY[variant]).items()}
    given = (lambda: tensors(variant), lambda: TensorsInMemory(GOLDEN / "voices", voices), RULES[variant])
    return reference_encoders(replace(context(), references=ReferenceCache(1 << 24)), *given)


@cache
def clip_of(variant: str) -> Clip:
    found = golden(f"reference-{variant}")
    return Clip(found["wav"][None].astype(np.float32) / 32768, int(found["rate"]))


@cache
def resampled(variant: str) -> tuple[np.ndarray, torch.Tensor, torch.Tensor]:
    """The recording at 24 kHz, and two copies of it at 16 kHz: for the language model, and for the flow."""
    high = made_for(variant).high(clip_of(variant))
    low = mono(Clip(high[None], 24_000), 16_000)
    return high, torch.from_numpy(low), torch.from_numpy(resample_sinc(high[None], 24_000, 16_000)[0])


def close(one, other: np.ndarray, atol: float) -> None:
    np.testing.assert_allclose(np.asarray(one), other, rtol=0, atol=atol)


@pytest.mark.parametrize("variant", TINY)
def test_a_recording_is_resampled_as_upstream_does(variant):
    found, (high, low, sinc) = golden(f"reference-{variant}"), resampled(variant)
    assert (len(high), len(low)) == (found["wav24_len"], found["wav16_len"])
    close(high[:2000:2], found["wav24_first"], 1e-7)
    close(low[:2000:2], found["wav16_first"], 1e-7)
    close(sinc[:2000:2], found["sinc16_first"], 2e-7)


@pytest.mark.parametrize("variant", TINY)
def test_spectrograms_are_upstreams(variant):
    found, (_, low, sinc) = golden(f"reference-{variant}"), resampled(variant)
    span = speech_span(low)
    assert [span.start, span.stop] == found["trim_index"].tolist()
    close(voice_mel(low[span]).T[:60:4], found["ve_mel"], 3e-6)
    close(whisper_mel(low)[:, :60:6], found["s3_logmel"], 3e-5)
    errors = np.abs(kaldi_fbank(sinc)[:60:4].numpy() - found["fbank"])
    assert errors.max() < 5e-3  # where a band is almost silent
    assert errors.mean() < 5e-5


@pytest.mark.parametrize("variant", TINY)
def test_a_voice_is_upstreams(variant):
    found, voice = golden(f"reference-{variant}"), made_for(variant).voice(clip_of(variant), cut=False)
    assert np.array_equal(voice.cond_tokens, found["cond_tokens"][0])
    assert np.array_equal(voice.prompt_token, found["prompt_token"][0])
    close(voice.speaker_emb, found["speaker_emb"][0], 2e-7)
    close(voice.embedding, found["embedding"][0], 2e-6)
    close(voice.prompt_feat, found["prompt_feat"][0], 3.3e-4)


@pytest.mark.parametrize("variant", TINY)
def test_the_prompt_has_two_mel_frames_for_each_token(variant):
    found, voice = golden(f"reference-{variant}"), made_for(variant).voice(clip_of(variant))
    assert len(voice.prompt_feat) == 2 * len(voice.prompt_token)
    assert found["prompt_feat"].shape[1] - len(voice.prompt_feat) == (1 if variant == "turbo" else 0)


def test_a_long_recording_is_cut_for_tokens_and_mel_frames():
    noise = np.random.default_rng(0).normal(size=(2, 16 * 24_000)).astype(np.float32) * 0.1
    for variant, most in (("original", 150), ("turbo", 375)):
        voice = made_for(variant).voice(Clip(noise, 24_000))
        assert (len(voice.cond_tokens), len(voice.prompt_token), len(voice.prompt_feat)) == (most, 250, 500)


def test_turbo_hears_recordings_equally_loud():
    clip = clip_of("turbo")
    high = made_for("turbo").high(clip)
    assert measured_loudness(high.astype(np.float64), 24_000) == pytest.approx(-27, abs=1e-4)
    assert integrated_loudness(high[None], 24_000) == pytest.approx(-27, abs=0.5)  # by the standard's own filters
    quiet = made_for("turbo").high(Clip(clip.samples / 8, clip.sample_rate))
    close(quiet, high, 1e-6)
    assert gain_to(np.zeros(24_000, np.float32), 24_000, -27.0) == 1.0
    assert gain_to(high[:100], 24_000, -27.0) == 1.0


@pytest.mark.parametrize(("variant", "seconds", "least"), [("original", 0.4, "0.5 s"), ("turbo", 4.9, "5 s")])
def test_a_recording_that_is_too_short_is_an_error(variant, seconds, least):
    with pytest.raises(BadAudio, match=f"needs at least {least}"):
        made_for(variant).voice(Clip(np.zeros((1, round(seconds * 24_000)), np.float32), 24_000))


@pytest.mark.parametrize("samples", [np.zeros, np.ones], ids=["silence", "direct current"])
def test_a_recording_without_speech_has_a_voice_all_the_same(samples):
    voice = made_for("original").voice(Clip(samples((1, 12_000)).astype(np.float32), 24_000))
    for each in vars(voice).values():
        assert np.isfinite(each).all()


@pytest.mark.parametrize(("frames", "count"), [(1, 1), (160, 1), (204, 1), (205, 2), (281, 2), (282, 3)])
def test_a_last_window_is_read_if_speech_covers_most_of_it(frames, count):
    made = windows(torch.arange(1.0, frames + 1)[:, None])
    assert len(made) == count
    assert made[-1, 0, 0] == 77 * (count - 1) + 1
    assert int((made[-1] > 0).sum()) == min(160, frames - 77 * (count - 1))


def test_a_voice_is_computed_once():
    stats, clip = made_for("original")._cache.stats, Clip(clip_of("original").samples[:, ::-1].copy(), 11_025)
    before = stats()
    assert made_for("original").voice(clip) is made_for("original").voice(clip)
    assert (stats().misses, stats().hits) == (before.misses + 1, before.hits + 1)


@pytest.mark.parametrize("name", ["tokenizer.encoder.conv1.weight", "speaker_encoder.head.bn1.running_var"])
def test_a_tensor_that_is_missing_is_an_error(name):
    found = {each: tensors("original").read(each) for each in tensors("original") if each != name}
    with pytest.raises(CheckpointError, match=f"lacks the tensor '{name}'"):
        reference_encoders(
            context(), lambda: TensorsInMemory(GOLDEN / "x", found), lambda: tensors("original"), encoders.ORIGINAL
        )

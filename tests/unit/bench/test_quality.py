from itertools import zip_longest
from threading import Barrier

import numpy as np
import pytest

from rhapsode.bench.quality.measure import QualityPlan, measure
from rhapsode.bench.quality.present import present
from rhapsode.bench.quality.prompts import SpokenPrompt
from rhapsode.bench.quality.recogniser import TranscriptionUrl, Whisper, make_recogniser
from rhapsode.bench.quality.sound import Unsound, check, is_clipped
from rhapsode.bench.quality.synthesizer import (
    MODES,
    EngineSynthesizer,
    ServerSynthesizer,
    SynthesisResult,
    parse_modes,
)
from rhapsode.bench.serve.server import speech_server
from rhapsode.errors import GenerationFailed, InvalidRequest, RhapsodeError, Unavailable
from rhapsode.types import Clip
from unit.bench import reports
from unit.bench.fake_server import Script, recogniser_saying, serving_in_thread, tone

TONE = np.sin(np.arange(24_000) * 0.05).astype(np.float32)[None] * 0.5


@pytest.mark.parametrize(
    ("samples", "kind"),
    [(TONE[:, :0], "empty"), (TONE * np.nan, "nan"), (TONE + np.inf, "nan"), (TONE * 1e-4, "silent")],
)
def test_unsound_audio_gets_no_score(samples, kind):
    with pytest.raises(Unsound) as caught:
        check(Clip(samples.astype(np.float32), 24_000), "one second of it")
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("read", "seconds", "kind"),
    [
        ("yes", 2.3, None),
        ("yes", 2.6, "runaway"),
        ("the quick brown fox jumps over the lazy dog", 3.0, None),
        ("the quick brown fox jumps over the lazy dog", 9.0, "runaway"),
        ("the quick brown fox jumps over the lazy dog", 1.0, "cut short"),
    ],
)
def test_speech_takes_about_as_long_as_its_text(read, seconds, kind):
    clip = Clip(np.tile(TONE, 10)[:, : round(seconds * 24_000)], 24_000)
    if kind is None:
        check(clip, read)
        return
    with pytest.raises(Unsound) as caught:
        check(clip, read)
    assert caught.value.kind == kind


def test_sound_audio_may_be_clipped():
    check(Clip(TONE, 24_000), "one second of it")
    assert not is_clipped(TONE)
    assert is_clipped(np.clip(TONE * 10, -1, 1))


class Scripted:
    """Returns the given audio in turn; an error is raised."""

    modes = MODES

    def __init__(self, *answers):
        self._answers = iter(answers)

    def speak(self, prompt, seed, mode):
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return SynthesisResult(Clip(answer, 24_000), total_s=0.25, first_audio_s=0.1)

    def close(self):
        pass

    def config(self):
        return {"family": "scripted"}


class Echo:
    name = "echo"

    def __init__(self, *heard):
        self._heard = iter(heard)

    def transcribe(self, clip, language):
        return next(self._heard)


class Steady:
    name, metric = "steady", "mos"

    def score(self, clip, reference):
        return 4.0


def prompts(*texts, kinds=()):
    found = zip_longest(texts, kinds, fillvalue="")
    return tuple(SpokenPrompt(f"p{i}", text, kind=kind) for i, (text, kind) in enumerate(found))


def test_nan_and_silence_are_errors_and_everything_else_is_scored():
    plan = QualityPlan(prompts("one two three four", "five six", "seven", "eight", "nine ten"), "test", seed=5)
    synthesizer = Scripted(TONE, TONE, TONE * np.nan, TONE * 0, GenerationFailed("it broke."))
    report = reports.check(measure(plan, synthesizer, Echo("one two tree four", "banana boat"), [Steady()], ["a note"]))
    (run,) = report["runs"]
    assert run["samples_scored"] == 2
    assert run["errors"] == {"nan": 1, "silent": 1, "generation_failed": 1}
    assert run["wer"] == pytest.approx(3 / 6)
    assert run["outliers"] == ["p1"]
    assert run["samples"]["wer"] == [0.25, 1.0]
    assert run["samples"]["rtf"] == [0.25, 0.25]
    assert run["samples"]["mos"] == [4.0, 4.0]
    assert [item["seed"] for item in run["items"]] == [5, 6, 7, 8, 9]
    assert report["config"]["normaliser"] == "rhapsode-en-2"
    assert report["config"]["comparable"] == {"normaliser": "whisper-en (rules)", "metric": "wer"}
    assert run["comparable"] == pytest.approx(5 / 2)  # `1234` and `56` are a word each
    assert report["notes"] == ["a note"]


def test_each_kind_and_each_mode_is_reported_by_itself():
    plan = QualityPlan(prompts("one two", "three four", kinds=("a", "b")), "test", modes=("one-shot", "appended"))
    heard = Echo("one two", "three more", "one two", "three four")
    report = reports.check(measure(plan, Scripted(TONE, TONE, TONE, TONE * 0), heard, [Steady()]))
    whole, appended = report["runs"]
    assert [whole["label"], appended["label"]] == ["one-shot", "appended"]
    assert {kind: figures["wer"] for kind, figures in whole["kinds"].items()} == {"a": 0, "b": 0.5}
    assert whole["kinds"]["b"]["means"] == {"mos": 4.0}
    assert appended["kinds"]["b"] == {
        "samples_scored": 0,
        "errors": {"silent": 1},
        "wer": None,
        "cer": None,
        "comparable": None,
        "means": {},
    }
    present(report)


def test_the_worst_ten_are_named_worst_first():
    texts = ["one two three four"] * 12
    heard = ["one two three four", *["one two three"] * 10, "nothing"]
    report = measure(QualityPlan(prompts(*texts), "test"), Scripted(*[TONE] * 12), Echo(*heard), [])
    assert report["runs"][0]["worst"] == ["p11", *(f"p{i}" for i in range(1, 10))]


def test_batched_prompts_are_spoken_concurrently():
    meeting = Barrier(3, timeout=10)

    class Together(Scripted):
        def speak(self, prompt, seed, mode):
            meeting.wait()
            return super().speak(prompt, seed, mode)

    plan = QualityPlan(prompts("a", "b", "c"), "test", modes=("batched",), at_once=3)
    assert measure(plan, Together(TONE, TONE, TONE), None, [])["runs"][0]["samples_scored"] == 3


def test_without_a_recogniser_only_the_sound_is_judged():
    assert make_recogniser("none") is None
    report = measure(QualityPlan(prompts("one"), "test"), Scripted(TONE), None, [Steady()])
    (run,) = reports.check(report)["runs"]
    assert (run["wer"], run["means"], run["items"][0]["heard"]) == (None, {"mos": 4.0}, None)
    present(report)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_the_same_audio(mode):
    synthesizer = EngineSynthesizer("dummy", None, None, None)
    try:
        prompt = prompts("One two three.")[0]
        clip, usual = synthesizer.speak(prompt, 1, mode).clip, synthesizer.speak(prompt, 1, "streamed").clip
    finally:
        synthesizer.close()
    assert np.array_equal(clip.samples, usual.samples)


def test_a_mode_that_is_not_supported_is_refused():
    assert parse_modes("appended, one-shot,appended", Scripted()) == ("appended", "one-shot")
    with pytest.raises(InvalidRequest, match="streamed, batched here, not 'appended'"):
        parse_modes("streamed,appended", ServerSynthesizer(speech_server("http://x", "rhapsode"), None, 5.0))


def test_the_audio_can_be_saved(tmp_path):
    plan = QualityPlan(prompts("one"), "test", save_to=tmp_path)
    measure(plan, Scripted(TONE), Echo("one"), [])
    assert (tmp_path / "p0-streamed.wav").stat().st_size == 44 + 48_000


def test_a_transcription_url_is_asked_with_a_wav_file():
    with recogniser_saying(["Hello there."]) as url:
        recogniser = make_recogniser(url)
        assert isinstance(recogniser, TranscriptionUrl)
        assert recogniser.transcribe(Clip(TONE, 24_000), "en") == "Hello there."


def test_a_recogniser_that_is_not_there_ends_the_run():
    with pytest.raises(Unavailable, match="does not answer"):
        make_recogniser("http://127.0.0.1:9/v1").transcribe(Clip(TONE, 24_000), "en")


def test_a_recogniser_that_refuses_says_why():
    with recogniser_saying([]) as url, pytest.raises(GenerationFailed, match="400"):
        TranscriptionUrl(f"{url}/elsewhere/transcriptions").transcribe(Clip(TONE, 24_000), "en")


def test_a_whisper_that_is_not_there_is_one_error(tmp_path):
    with pytest.raises(RhapsodeError):
        Whisper(str(tmp_path))


def test_a_server_can_speak_the_prompts():
    with serving_in_thread(Script([(0.02, tone(0.25)), (0.02, tone(0.25))])) as (url, _):
        result = ServerSynthesizer(speech_server(url, "rhapsode"), None, 5.0).speak(prompts("Hi.")[0], 1, "streamed")
    assert result.clip.duration_s == pytest.approx(0.5)
    assert 0.02 <= result.first_audio_s <= result.total_s
    assert float(np.abs(result.clip.samples).max()) == pytest.approx(0.3, abs=0.01)


def test_a_server_that_fails_is_an_error_of_that_prompt():
    with serving_in_thread(Script([(0, b"{}")], status=503)) as (url, _):
        report = measure(
            QualityPlan(prompts("Hi."), "test"), ServerSynthesizer(speech_server(url, "rhapsode"), None, 5), Echo(), []
        )
    assert report["runs"][0]["errors"] == {"generation_failed": 1}
    assert reports.check(report)["runs"][0]["wer"] is None

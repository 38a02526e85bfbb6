import numpy as np
import pytest

from rhapsode.bench.quality.measure import QualityPlan, measure
from rhapsode.bench.quality.prompts import SpokenPrompt
from rhapsode.bench.quality.recogniser import TranscriptionUrl, Whisper, make_recogniser
from rhapsode.bench.quality.sound import Unsound, check, is_clipped
from rhapsode.bench.quality.speaker import ServerSpeaker, Spoken
from rhapsode.bench.serve.target import make_target
from rhapsode.errors import GenerationFailed, RhapsodeError, Unavailable
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
        check(Clip(samples.astype(np.float32), 24_000))
    assert caught.value.kind == kind


def test_sound_audio_may_be_clipped():
    check(Clip(TONE, 24_000))
    assert not is_clipped(TONE)
    assert is_clipped(np.clip(TONE * 10, -1, 1))


class Scripted:
    """Speaks what it is told to; an error is raised."""

    def __init__(self, *answers):
        self._answers = iter(answers)

    def speak(self, prompt, seed):
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return Spoken(Clip(answer, 24_000), total_s=0.25, first_audio_s=0.1)

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


def prompts(*texts):
    return tuple(SpokenPrompt(f"p{i}", text) for i, text in enumerate(texts))


def test_nan_and_silence_are_errors_and_everything_else_is_scored():
    plan = QualityPlan(prompts("one two three four", "five six", "seven", "eight", "nine ten"), "test", seed=5)
    speaker = Scripted(TONE, TONE, TONE * np.nan, TONE * 0, GenerationFailed("it broke."))
    report = reports.check(measure(plan, speaker, Echo("one two tree four", "banana boat"), [Steady()], ["a note"]))
    (run,) = report["runs"]
    assert run["samples_scored"] == 2
    assert run["errors"] == {"nan": 1, "silent": 1, "generation_failed": 1}
    assert run["wer"] == pytest.approx(3 / 6)
    assert run["outliers"] == ["p1"]
    assert run["samples"]["wer"] == [0.25, 1.0]
    assert run["samples"]["rtf"] == [0.25, 0.25]
    assert run["samples"]["mos"] == [4.0, 4.0]
    assert [item["seed"] for item in run["items"]] == [5, 6, 7, 8, 9]
    assert report["config"]["normaliser"] == "rhapsode-en-1"
    assert report["notes"] == ["a note"]


def test_what_was_said_can_be_kept(tmp_path):
    plan = QualityPlan(prompts("one"), "test", save_to=tmp_path)
    measure(plan, Scripted(TONE), Echo("one"), [])
    assert (tmp_path / "p0.wav").stat().st_size == 44 + 48_000


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


def test_a_server_can_be_the_speaker():
    with serving_in_thread(Script([(0.02, tone(0.25)), (0.02, tone(0.25))])) as (url, _):
        spoken = ServerSpeaker(make_target(url, "rhapsode"), None, 5.0).speak(prompts("Hi.")[0], 1)
    assert spoken.clip.duration_s == pytest.approx(0.5)
    assert 0.02 <= spoken.first_audio_s <= spoken.total_s
    assert float(np.abs(spoken.clip.samples).max()) == pytest.approx(0.3, abs=0.01)


def test_a_server_that_fails_is_an_error_of_that_prompt():
    with serving_in_thread(Script([(0, b"{}")], status=503)) as (url, _):
        report = measure(
            QualityPlan(prompts("Hi."), "test"), ServerSpeaker(make_target(url, "rhapsode"), None, 5), Echo(), []
        )
    assert report["runs"][0]["errors"] == {"generation_failed": 1}
    assert reports.check(report)["runs"][0]["wer"] is None

"""The Python API helps: names to complete, typed wishes, recordings as voices, several texts at once."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import rhapsode as package
from rhapsode import TTS, Audio, Segment, SpeechRequest, Voice
from rhapsode.config import Deployment
from rhapsode.errors import BadAudio, InvalidRequest, UnknownOption
from rhapsode.models.registry import find
from rhapsode.tts import check
from rhapsode.types import Sampling
from rhapsode.wishes import Wishes, as_voice, make_request


@pytest.fixture(scope="module")
def tts() -> Iterator[TTS]:
    with TTS("dummy", limits={"max_concurrency": 3, "max_queue": 3}) as opened:
        yield opened


def recording(folder: Path) -> Path:
    file = folder / "my.wav"
    Audio(np.sin(np.arange(24_000, dtype=np.float32) / 9)[None] * 0.3, 24_000).save(file)
    return file


def test_completion_knows_the_public_names() -> None:
    assert set(package.__all__) <= set(dir(package))


def test_wishes_are_the_fields_of_a_request() -> None:
    fields = {*SpeechRequest.__dataclass_fields__, *Sampling.__dataclass_fields__}
    assert set(Wishes.__annotations__) == fields - {"text", "voice", "sampling", "segments"}


def test_a_misspelt_wish_gets_the_nearest_one(tts: TTS) -> None:
    with pytest.raises(UnknownOption, match="there is no 'sped' here: did you mean 'speed'"):
        tts.speak("Hi.", sped=2)
    with pytest.raises(UnknownOption, match="did you mean 'endless'"):  # an option of the family
        tts.speak("Hi.", endles=True)
    with pytest.raises(UnknownOption, match="did you mean 'endless'"):
        tts.speak("Hi.", options={"endles": True})


def test_type_checkers_know_wishes(tmp_path: Path) -> None:
    snippet = tmp_path / "snippet.py"
    snippet.write_text(
        "from rhapsode import TTS, Segment\n"
        "tts = TTS()\n"
        "tts.speak('Hi.', speed=2, options={'pause_s': 1}).save('a.wav')\n"
        "tts.speak([Segment('Hi.')], seed=1).duration_s\n"
        "tts.speak(['Hi.', 'Ho.'])[1].save('b.wav')\n"
        "tts.speak('Hi.', sped=2)\n"
        "tts.stream('Hi.', speed='fast')\n"
        "tts.speak(['Hi.']).save('c.wav')\n"
    )
    settings = tmp_path / "mypy.ini"
    parts = "".join(f"[mypy-{name}.*]\nfollow_imports = skip\nignore_missing_imports = true\n" for name in SKIPPED)
    settings.write_text(f"[mypy]\ncache_dir = {tmp_path / 'cache'}\nfollow_imports = silent\n{parts}")
    source = str(Path(package.__path__[0]).parent)
    command = [sys.executable, "-m", "mypy", "--config-file", str(settings), str(snippet)]
    done = subprocess.run(command, env={**os.environ, "MYPYPATH": source}, capture_output=True, text=True, timeout=110)
    found = [line.split(":", 2)[1:] for line in done.stdout.splitlines() if ": error: " in line]
    kinds = {(line, part.split("  ")[-1]) for line, part in found}
    assert kinds == {("6", "[call-overload]"), ("7", "[arg-type]"), ("8", "[attr-defined]")}, done.stdout
    assert 'Unexpected keyword argument "sped"' in done.stdout


SKIPPED = ("torch", "numpy", "av", "pydantic", "safetensors", "tokenizers")


def test_the_name_of_a_recording_is_a_voice_to_clone(tmp_path: Path) -> None:
    file = recording(tmp_path)
    for given in (str(file), file, Voice(name=str(file))):
        (reference,) = as_voice(given).references
        assert reference.audio.duration_s == pytest.approx(1.0)
    assert as_voice("anna") == Voice(name="anna")
    segments = make_request([Segment("Hi.", str(file)), Segment("Ho.", "anna")]).segments
    assert [bool(segment.voice.references) for segment in segments] == [True, False]
    with pytest.raises(BadAudio, match=r"no\.wav"):
        as_voice(str(tmp_path / "no.wav"))


def test_a_recording_reaches_the_model(tts: TTS, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="cannot clone"):
        tts.speak("Hi.", voice=str(recording(tmp_path)))


def test_voices_are_listed(tts: TTS) -> None:
    assert {"low", "high"} <= set(tts.voices)
    assert all(tts.speak("Hi.", voice=voice).duration_s > 0 for voice in tts.voices)


def test_several_texts_are_spoken_at_the_same_time(tts: TTS) -> None:
    texts = ["One.", "Two is longer.", "Three.", "x" * 50, "Five."]
    heard = tts.speak(texts, voice="low", seed=3)
    for text, audio in zip(texts, heard, strict=True):
        assert np.array_equal(audio.samples, tts.speak(text, voice="low", seed=3).samples)


def test_the_texts_of_a_list_share_the_steps_of_the_model() -> None:
    with TTS("dummy", limits={"max_concurrency": 4}) as tts:
        most, submit = 0, tts.engine.submit

        def counted(*given, **named):
            nonlocal most
            speech = submit(*given, **named)
            most = max(most, tts.engine.load().slots_in_use)
            return speech

        tts.engine.submit = counted
        tts.speak(["x" * 400] * 4)
        assert most == 4


def test_an_error_in_one_text_ends_all(tts: TTS) -> None:
    with pytest.raises(InvalidRequest):
        tts.speak(["x" * 4000, "", "y" * 4000])
    assert tts.speak("Still here.").duration_s > 0


def test_markup_that_cannot_be_read_is_refused_before_a_model_is_loaded() -> None:
    request = SpeechRequest("<speak><foo>x</foo></speak>", input_type="ssml")
    with pytest.raises(InvalidRequest, match="<foo> is not supported"):
        check(find("dummy"), Deployment(model="dummy"), request)


@pytest.mark.parametrize("beside", [{"speed": 2.0}, {"voice": "low"}, {"options": {}}])
def test_a_wish_beside_a_whole_request_is_an_error_that_says_how(tts: TTS, beside: dict) -> None:
    name = next(iter(beside))
    with pytest.raises(
        InvalidRequest, match=f"'{name}' is given beside a SpeechRequest.*dataclasses.replace"
    ) as caught:
        tts.speak(SpeechRequest("Hi."), **beside)
    assert caught.value.param == name

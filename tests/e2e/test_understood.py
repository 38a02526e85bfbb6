"""An independent recogniser, small enough for CI, understands the voice that comes with the package."""

import pytest
from pocketsphinx import Decoder

from rhapsode import TTS
from rhapsode.audio.decode import decode
from rhapsode.audio.samples import pcm16
from rhapsode.bench.quality.prompts import read_prompts
from rhapsode.bench.quality.sound import at_16khz, check
from rhapsode.bench.quality.words import corpus, rates
from rhapsode.types import Clip
from unit.command import rhapsode

PROMPTS = [read_prompts()[i].text for i in (0, 2, 4, 7, 11, 16, 27, 32, 33, 37)]
MOST_WRONG = 0.25
"""Of all words. The recogniser is a weak one (9.5% on ninety prompts of hibari, a very clear voice); these ten were
picked because it hears that voice without an error in them, and 95% wrong under noise as loud as the voice."""


@pytest.fixture(scope="module")
def recogniser():
    return Decoder(samprate=16_000, loglevel="FATAL")


def transcribe(recogniser, clip):
    recogniser.start_utt()
    recogniser.process_raw(pcm16(at_16khz(clip)).tobytes(), full_utt=True)
    recogniser.end_utt()
    found = recogniser.hyp()
    return found.hypstr if found else ""


def test_ten_prompts_are_understood(recogniser):
    heard = []
    with TTS(limits={"max_concurrency": 1}) as tts:
        for seed, text in enumerate(PROMPTS):
            audio = tts.speak(text, seed=seed)
            clip = Clip(audio.samples, audio.sample_rate)
            check(clip, text)
            heard.append((text, transcribe(recogniser, clip)))
    assert corpus(heard).wer <= MOST_WRONG, heard


def test_one_command_says_something_understandable(recogniser, tmp_path):
    done = rhapsode("say", "--no-play", "--seed", "1", PROMPTS[0], cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    heard = transcribe(recogniser, decode(tmp_path / "speech.wav"))
    assert rates(PROMPTS[0], heard).wer <= 0.5, heard

"""An independent recogniser understands what the default voice says."""

import re
import subprocess
import sys

from pocketsphinx import Decoder

from rhapsode.audio.decode import decode
from rhapsode.audio.samples import pcm16

TEXT = "The quick brown fox jumps over the lazy dog."


def words(text):
    return re.findall(r"[a-z']+", text.lower())


def transcribe(path):
    recogniser = Decoder(samprate=16_000, loglevel="FATAL")
    recogniser.start_utt()
    recogniser.process_raw(pcm16(decode(path, sample_rate=16_000).samples).tobytes(), full_utt=True)
    recogniser.end_utt()
    return recogniser.hyp().hypstr


def test_what_say_wrote_is_understood(tmp_path):
    command = [sys.executable, "-m", "rhapsode", "say", "--no-play", "--seed", "1", TEXT]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    heard = words(transcribe(tmp_path / "speech.wav"))
    assert sum(word in heard for word in words(TEXT)) >= 7, heard

"""Speaks a long text and writes its subtitles: python examples/subtitles.py [TEXT_FILE] [MODEL]

Writes talk.wav and talk.srt. The times are measured in the audio.
"""

import sys
from pathlib import Path

from rhapsode import TTS
from rhapsode.alignment.shown import shown_words
from rhapsode.alignment.subtitles import cues, subtitles

TEXT = """It was the best of times, it was the worst of times. It was the age of wisdom, it was the age of foolishness.
It was the epoch of belief, it was the epoch of incredulity. On May 8, 1775, a mail coach left London: the fare was £2.
The passengers walked up the hill in the mire by the side of the mail, as the rest of the passengers did."""

text = Path(sys.argv[1]).read_text("utf-8") if len(sys.argv) > 1 else TEXT

with TTS(sys.argv[2] if len(sys.argv) > 2 else None) as tts:
    audio = tts.speak(text, word_timestamps=True)

audio.save("talk.wav")
shown = cues(shown_words(text, audio.words))
Path("talk.srt").write_text(subtitles(shown, "srt"), "utf-8")
print(f"talk.wav: {audio.duration_s:.1f} s, {len(audio.words)} words; talk.srt: {len(shown)} cues")

import tempfile
from functools import cache
from pathlib import Path

from rhapsode.testing.subject import Subject
from rhapsode.types import Clip, Reference, Voice
from tiny.higgs import SAMPLE_RATE, Tiny, reference_audio, write

TEXTS = (
    "Hi there.",
    "[SPEAKER0] One two. [SPEAKER1] Three four.",
    "[SPEAKER1] Good morning. [SPEAKER0] Yes.",
    "[SPEAKER0] Yes, it is.",
)
VOICE = Voice(
    references=tuple(Reference(Clip(reference_audio(2600 + 900 * i), SAMPLE_RATE), f"the ref {i}") for i in range(2))
)


@cache
def checkpoint() -> str:
    """A tiny checkpoint that sometimes decides to end."""
    return str(write(Path(tempfile.mkdtemp(prefix="rhapsode-tiny-")), Tiny(end_gain=0.8, seed=1)))


# Every sentence is a turn, so that text which is appended sentence by sentence can be compared with the whole.
WISHES = {"seed": 1, "voice": VOICE, "options": {"chunk": "sentence"}}
SUBJECTS = (Subject("higgs-v2", TEXTS, "turns", "float64", 1e-5, checkpoint, WISHES, 4096),)

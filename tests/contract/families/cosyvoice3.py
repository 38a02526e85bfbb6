import tempfile
from functools import cache
from pathlib import Path

from rhapsode.testing.subject import Subject
from rhapsode.types import Clip, Reference, Voice
from tiny.cosyvoice3 import SAMPLE_RATE, TinyCosyVoice, reference_audio, reference_tokens, speaker_embedding, write

TEXTS = ("Hello there.", "One two three.", "Good morning to you all.", "Yes, it is.")
CLONED = Voice(
    references=(Reference(Clip(reference_audio(20_000)[None], SAMPLE_RATE), "the ref"),),
    embedding=tuple(speaker_embedding(1).tolist()),
)


@cache
def checkpoint() -> str:
    """A tiny checkpoint that sometimes decides to end."""
    return str(write(Path(tempfile.mkdtemp(prefix="rhapsode-tiny-")), TinyCosyVoice(end_gain=3.0)))


# In turns, so that appended text can be compared with the whole. The first text is too short for it.
WISHES = {"voice": CLONED, "options": {"interleave": True, "reference_tokens": reference_tokens(7).tolist()}}
SUBJECTS = (Subject("cosyvoice3", TEXTS, "turns", "float64", 1e-5, checkpoint, WISHES),)

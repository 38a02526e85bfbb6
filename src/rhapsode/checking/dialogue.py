"""The segments of a dialogue: their limits, the voice of each, and errors that name one."""

from __future__ import annotations

from collections.abc import Sequence

from rhapsode.config import Limits
from rhapsode.errors import InvalidRequest
from rhapsode.types import Segment, Voice

MOST_SPEAKERS = 16
"""The most voices of one dialogue: each may hold a recording in memory."""
MOST_PAUSE_S = 60.0
"""The longest silence between two words, in all."""
SEGMENT_PAUSE_S = 0.3
"""The silence between two segments, unless the request sets one."""


def check_count(segments: int, limits: Limits) -> None:
    """Raises if a dialogue has more segments than the deployment allows."""
    if segments > limits.max_segments:
        raise InvalidRequest(
            f"a dialogue has at most {limits.max_segments} segments, not {segments}.", param="segments"
        )


def check_speakers(speakers: int) -> None:
    if speakers > MOST_SPEAKERS:
        raise InvalidRequest(f"a dialogue has at most {MOST_SPEAKERS} voices.", param="segments")


def in_segment(error: InvalidRequest, index: int) -> InvalidRequest:
    """Returns the error with the number of its segment, counted from 0 as in the request."""
    field = {"input": ".input", "voice": ".voice", "pause_s": ".pause_s"}.get(error.param or "", "")
    return type(error)(f"segments.{index}: {error.message}", param=f"segments.{index}{field}")


def speakers_of(segments: Sequence[Segment]) -> list[int]:
    """Returns the number of each segment's voice. Voices are numbered from 0, in the order they first speak."""
    voices: list[Voice] = []
    speakers = []
    for segment in segments:
        known = next((i for i, voice in enumerate(voices) if _is_same(voice, segment.voice)), len(voices))
        if known == len(voices):
            voices.append(segment.voice)
        speakers.append(known)
    return speakers


def _is_same(one: Voice, other: Voice) -> bool:
    """Returns whether two voices are the same. Those with recordings are compared by identity: recordings are large."""
    if one is other:
        return True
    recordings = (one.references, one.continued, other.references, other.continued)
    named = [(voice.name, voice.embedding, voice.description) for voice in (one, other)]
    return not any(recordings) and named[0] == named[1]

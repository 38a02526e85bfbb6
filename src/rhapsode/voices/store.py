"""Stores uploaded voices in a folder, which survives restarts and may be shared by replicas."""

from __future__ import annotations

import logging
import math
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from rhapsode.errors import BadAudio, InvalidRequest, Unavailable
from rhapsode.types import Clip, Voice
from rhapsode.voices.files import (
    EMBEDDING,
    SAMPLES,
    BrokenVoice,
    StoredVoice,
    delete_voice,
    locked,
    read_record,
    read_voice,
    remove_leftovers,
    write_voice,
)
from rhapsode.voices.name import VOICE_ID, checked_name, name_key

__all__ = ["StoredVoice", "TooManyVoices", "VoiceExists", "VoiceStore"]

MAX_TEXT_CHARS = 10_000
MAX_EMBEDDING_SIZE = 65_536

# Time stamps of folders are coarse: a change right after a scan may not show.
_TICK_NS = 2_000_000_000

_log = logging.getLogger(__name__)


class VoiceExists(InvalidRequest):
    """A voice of that name exists already."""

    status, code = 409, "voice_exists"


class TooManyVoices(InvalidRequest):
    """The store is full."""

    status, code = 409, "too_many_voices"


class VoiceStore:
    """Uploaded voices by id or name. Safe for several threads, and for several processes on one folder."""

    def __init__(self, folder: Path, max_voices: int = 1000) -> None:
        self._folder = folder
        self._max_voices = max_voices
        self._lock = RLock()
        self._seen_at_ns: int | None = None
        self._voices: dict[str, StoredVoice] = {}
        self._skipped: set[str] = set()
        self._remove_leftovers()
        self._refresh()

    def list(self) -> list[StoredVoice]:
        """Returns all voices, the oldest first."""
        with self._lock:
            self._refresh()
            return sorted(self._voices.values(), key=lambda voice: (voice.created_at, voice.id))

    def get(self, id_or_name: str) -> StoredVoice | None:
        """Returns the voice with that id, or with that name in any case."""
        with self._lock:
            self._refresh()
            if id_or_name in self._voices:
                return self._voices[id_or_name]
            key = name_key(id_or_name)
            found = (voice for voice in self._voices.values() if name_key(voice.name) == key)
            return min(found, key=lambda voice: (voice.created_at, voice.id), default=None)

    def load(self, id_or_name: str) -> Voice | None:
        """Returns the voice with its data: a reference and its text, or an embedding."""
        stored = self.get(id_or_name)
        if stored is None:
            return None
        try:
            return read_voice(self._folder, stored)
        except BrokenVoice as error:
            _log.warning("voice %s cannot be loaded: %s", stored.id, error)
            return None

    def add(
        self,
        name: str,
        *,
        clip: Clip | None = None,
        embedding: Sequence[float] | None = None,
        text: str | None = None,
        consent: str | None = None,
        speaker_description: str | None = None,
        replace: bool = False,
    ) -> StoredVoice:
        """Stores a voice made of either a clip or an embedding. `replace`: in place of one of the same name."""
        if (clip is None) == (embedding is None):
            raise InvalidRequest("A voice needs either audio or an embedding, and not both.")
        samples = _checked_samples(clip) if clip is not None else None
        vector = _checked_embedding(embedding) if embedding is not None else None
        voice = StoredVoice(
            id=f"voice_{secrets.token_hex(6)}",
            name=checked_name(name),
            created_at=int(time.time()),
            consent=_checked_text((consent or "").strip(), "consent"),
            text=_checked_transcript(text),
            sample_rate=clip.sample_rate if clip else None,
            duration_s=clip.duration_s if clip else None,
            embedding_size=vector.size if vector is not None else None,
            speaker_description=_checked_text(speaker_description, "speaker_description") or None,
        )
        tensors = {key: t for key, t in ((SAMPLES, samples), (EMBEDDING, vector)) if t is not None}
        with self._writing():
            former = self.get(voice.name)
            if former is not None and not replace:
                raise VoiceExists(f"There is a voice named '{voice.name}' already.", param="name")
            if former is None and len(self._voices) >= self._max_voices:
                raise TooManyVoices(f"There are {self._max_voices} voices already; delete one first.")
            write_voice(self._folder, voice, tensors)
            self._voices[voice.id] = voice
            if former is not None:
                del self._voices[former.id]
                delete_voice(self._folder, former.id)
        return voice

    def delete(self, id_or_name: str) -> bool:
        """Deletes a voice; returns whether it existed."""
        stored = self.get(id_or_name)
        if stored is None:
            return False
        with self._writing():
            self._voices.pop(stored.id, None)
            return delete_voice(self._folder, stored.id)

    def _remove_leftovers(self) -> None:
        """Cleans up after a crash. Writers hold the lock, so files of a running replica are never removed."""
        with suppress(OSError):  # the folder does not exist, or is read-only
            if self._folder.is_dir():
                with locked(self._folder):
                    remove_leftovers(self._folder)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Holds the lock of the folder, and reads its state again before and after."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._lock, locked(self._folder):
                self._seen_at_ns = None
                yield
                self._seen_at_ns = None
        except OSError as error:
            _log.error("the voices folder %s cannot be written: %s", self._folder, error)
            raise Unavailable("The voices folder cannot be written.") from error

    def _refresh(self) -> None:
        """Scans the folder again if it has changed, or may have."""
        try:
            changed_at_ns = self._folder.stat().st_mtime_ns
            if changed_at_ns == self._seen_at_ns:
                return
            settled = time.time_ns() - changed_at_ns > _TICK_NS
            self._scan()
            self._seen_at_ns = changed_at_ns if settled else None
        except FileNotFoundError:
            self._voices.clear()
        except OSError as error:
            _log.warning("the voices folder %s cannot be read: %s", self._folder, error)

    def _scan(self) -> None:
        """Reads new voices; the files of a voice never change."""
        with os.scandir(self._folder) as entries:
            names = {entry.name for entry in entries}
        ids = {name.removesuffix(".json") for name in names if name.endswith(".json") and VOICE_ID.fullmatch(name[:-5])}
        self._voices = {voice_id: voice for voice_id, voice in self._voices.items() if voice_id in ids}
        self._skipped &= names
        for voice_id in sorted(ids - self._voices.keys()):
            try:
                self._voices[voice_id] = read_record(self._folder, voice_id)
            except BrokenVoice as error:
                if (self._folder / f"{voice_id}.json").exists():  # else it was deleted during the scan
                    self._skip(f"{voice_id}.json", f"it is broken ({error})")
        for name in names:
            if not _is_ours(name):
                self._skip(name, "it is not a voice")

    def _skip(self, name: str, why: str) -> None:
        if name not in self._skipped:
            self._skipped.add(name)
            _log.warning("skipped %r in the voices folder: %s", name, why)


def _is_ours(name: str) -> bool:
    stem, _, suffix = name.rpartition(".")
    return name.startswith(".") or (suffix in ("json", "safetensors") and bool(VOICE_ID.fullmatch(stem)))


def _checked_samples(clip: Clip) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        samples = np.ascontiguousarray(clip.samples, dtype=np.float32)
    if samples.ndim != 2 or samples.size == 0 or clip.sample_rate <= 0:
        raise BadAudio("The audio is empty.", param="audio_sample")
    if not np.isfinite(samples).all():
        raise BadAudio("The audio contains samples that are not finite numbers.", param="audio_sample")
    return samples


def _checked_embedding(embedding: Sequence[float]) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):
            vector = np.asarray(embedding, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        vector = np.empty(0, np.float32)
    if vector.ndim != 1 or not 1 <= vector.size <= MAX_EMBEDDING_SIZE:
        raise _bad_embedding(f"An embedding is a list of 1 to {MAX_EMBEDDING_SIZE} numbers.")
    length = math.sqrt(float(np.square(vector, dtype=np.float64).sum()))
    if not math.isfinite(length) or length == 0:
        raise _bad_embedding("An embedding's numbers must be finite and not all zero.")
    return vector


def _bad_embedding(message: str) -> InvalidRequest:
    return InvalidRequest(message, param="speaker_embedding")


def _checked_transcript(text: str | None) -> str | None:
    """Returns the transcript byte for byte, since spaces change the tokens of a prompt. Spaces alone are none."""
    return _checked_text(text, "text") if text and text.strip() else None


def _checked_text(text: str | None, param: str) -> str | None:
    if text and len(text) > MAX_TEXT_CHARS:
        raise InvalidRequest(f"'{param}' is too long: at most {MAX_TEXT_CHARS} characters are allowed.", param=param)
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        raise InvalidRequest(f"'{param}' is not valid Unicode text.", param=param) from None
    return text or None

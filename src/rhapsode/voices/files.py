"""A voice on disk: its tensors in a safetensors file, everything else in a JSON file, which is written last."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from safetensors import safe_open
from safetensors.numpy import load, save

from rhapsode.types import Clip, ModelInfo, Voice
from rhapsode.voices.name import VOICE_ID, checked_name

if sys.platform != "win32":
    import fcntl

SAMPLES, EMBEDDING = "samples", "embedding"
_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")


@dataclass(frozen=True)
class StoredVoice:
    """The metadata of a voice."""

    id: str
    name: str
    created_at: int
    consent: str | None = None
    text: str | None = None
    sample_rate: int | None = None
    duration_s: float | None = None
    embedding_size: int | None = None
    speaker_description: str | None = None

    def suits(self, info: ModelInfo) -> bool:
        """Returns whether a checkpoint can speak with it; a server of another model may have stored it."""
        if self.embedding_size is not None:
            return info.can.embedding and info.embedding_size in (None, self.embedding_size)
        return info.takes_recordings


_STORED = TypeAdapter(StoredVoice)


class BrokenVoice(Exception):
    """The files of a voice are incomplete or invalid."""


def write_voice(folder: Path, voice: StoredVoice, tensors: Mapping[str, NDArray[np.float32]]) -> None:
    """Writes both files; a reader sees both or none."""
    _write_atomically(_tensors_of(folder, voice.id), save(dict(tensors)))
    try:
        _write_atomically(_record_of(folder, voice.id), json.dumps(asdict(voice), indent=1).encode())
    except OSError:
        _tensors_of(folder, voice.id).unlink(missing_ok=True)
        raise


def read_record(folder: Path, voice_id: str) -> StoredVoice:
    """Returns the metadata, if the tensors match it; else `BrokenVoice`."""
    try:
        for file in (_record_of(folder, voice_id), _tensors_of(folder, voice_id)):
            if not stat.S_ISREG(file.stat().st_mode):  # opening a FIFO would block for ever
                raise BrokenVoice("its files are not regular files")
        voice = _STORED.validate_json(_record_of(folder, voice_id).read_bytes(), strict=True)
        with safe_open(_tensors_of(folder, voice_id), framework="numpy") as tensors:
            slices = {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118
            shapes = {name: tuple(part.get_shape()) for name, part in slices.items() if part.get_dtype() == "F32"}
        if voice.id != voice_id or voice.name != checked_name(voice.name) or not _agree(voice, shapes):
            raise BrokenVoice("its two files contradict each other")
    except BrokenVoice:
        raise
    except Exception as error:  # a foreign file may cause any error in the parsers
        raise BrokenVoice(type(error).__name__) from error
    return voice


def read_voice(folder: Path, voice: StoredVoice) -> Voice:
    """Returns the voice with its tensors; raises `BrokenVoice` if its files cannot be used."""
    try:
        # Read, not mapped: a mapped file that another replica deletes from a network share would crash the process.
        tensors = load(_tensors_of(folder, voice.id).read_bytes())
    except Exception as error:
        raise BrokenVoice(type(error).__name__) from error
    if not all(tensor.dtype == np.float32 and np.isfinite(tensor).all() for tensor in tensors.values()):
        raise BrokenVoice("its tensors are not finite float32 numbers")
    if not _agree(voice, {name: tensor.shape for name, tensor in tensors.items()}):
        raise BrokenVoice("its two files contradict each other")
    if voice.sample_rate is not None:
        return Voice.cloned(Clip(tensors[SAMPLES], voice.sample_rate), voice.text)
    return Voice(embedding=tuple(tensors[EMBEDDING].tolist()))


def delete_voice(folder: Path, voice_id: str) -> bool:
    """Deletes a voice, its JSON file first; returns whether it existed."""
    try:
        _record_of(folder, voice_id).unlink()
    except FileNotFoundError:
        return False
    with contextlib.suppress(OSError):
        _tensors_of(folder, voice_id).unlink()
    return True


def remove_leftovers(folder: Path) -> None:
    """Removes what a crash left behind: half-written files, and tensors without a record. The caller holds `locked`."""
    names = {path.name for path in folder.iterdir()}
    for name in names:
        stem, _, suffix = name.rpartition(".")
        orphan = suffix == "safetensors" and VOICE_ID.fullmatch(stem) and f"{stem}.json" not in names
        if _TEMPORARY.fullmatch(name) or orphan:
            with contextlib.suppress(OSError):
                (folder / name).unlink()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of the folder, against other threads and replicas, where the system has file locks."""
    with (folder / ".lock").open("ab") as file:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _agree(voice: StoredVoice, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    if voice.sample_rate is None:
        return voice.embedding_size is not None and shapes == {EMBEDDING: (voice.embedding_size,)}
    shape = shapes.get(SAMPLES, ())
    whole = len(shapes) == 1 and len(shape) == 2 and min(shape) > 0 and voice.sample_rate > 0
    return whole and voice.duration_s == shape[1] / voice.sample_rate


def _record_of(folder: Path, voice_id: str) -> Path:
    return folder / f"{voice_id}.json"


def _tensors_of(folder: Path, voice_id: str) -> Path:
    return folder / f"{voice_id}.safetensors"


def _write_atomically(target: Path, data: bytes) -> None:
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)

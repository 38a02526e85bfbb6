"""The cache of phrases: what is kept, under which key, and how little can go wrong with its files."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rhapsode.config import resolve
from rhapsode.models.registry import find
from rhapsode.serve.phrases.key import model_identity, phrase_key
from rhapsode.serve.phrases.phrase import BrokenPhrase, Phrase
from rhapsode.serve.phrases.store import PhrasesInFolder, PhrasesInMemory
from rhapsode.types import AudioChunk, Clip, Sampling, SpeechRequest, Voice

RATE = 16_000


def chunk(length: int = 160, level: float = 0.5, **how) -> AudioChunk:
    return AudioChunk(np.full((1, length), level, np.float32), RATE, **how)


def phrase(length: int = 160, level: float = 0.5) -> Phrase:
    return Phrase.of([chunk(length, level)], frames=1)


def cloned(level: float) -> Voice:
    return Voice.cloned(Clip(np.full((1, 100), level, np.float32), RATE), "What it says.")


# --- phrases ---


def test_a_phrase_is_played_as_it_was_said() -> None:
    said = [chunk(100), chunk(50, 0.25), chunk(80, 0.0, is_pause=True), chunk(40, pace=1.5)]
    kept = Phrase.from_bytes(Phrase.of(said, frames=7).to_bytes())
    assert [(c.samples.shape[1], c.pace, c.is_pause) for c in kept.chunks()] == [
        (150, 1.0, False),
        (80, 1.0, True),
        (40, 1.5, False),
    ]
    whole = np.concatenate([c.samples for c in said], axis=1)
    assert np.array_equal(np.concatenate([c.samples for c in kept.chunks()], axis=1), whole)
    assert (kept.frames, kept.sample_rate) == (7, RATE)


@pytest.mark.parametrize("damage", [slice(0, 1), slice(10, 11), slice(60, 61), slice(-1, None)])
def test_a_file_with_one_wrong_byte_is_no_phrase(damage: slice) -> None:
    data = bytearray(phrase().to_bytes())
    data[damage] = bytes([data[damage][0] ^ 1])
    with pytest.raises(BrokenPhrase):
        Phrase.from_bytes(bytes(data))


@pytest.mark.parametrize("length", [0, 3, 40, 300])
def test_a_file_that_was_cut_is_no_phrase(length: int) -> None:
    with pytest.raises(BrokenPhrase):
        Phrase.from_bytes(phrase().to_bytes()[:length])


# --- keys ---


@pytest.mark.parametrize(
    "other",
    [
        SpeechRequest("Hello!", seed=1),
        SpeechRequest("Hello.", seed=2),
        SpeechRequest("Hello.", Voice(name="high"), seed=1),
        SpeechRequest("Hello.", cloned(0.1), seed=1),
        SpeechRequest("Hello.", seed=1, instructions="Softly."),
        SpeechRequest("Hello.", seed=1, sampling=Sampling(temperature=0.0)),
        SpeechRequest("Hello.", seed=1, options={"length": 3}),
        SpeechRequest("Hello.", seed=1, lexicon={"Hello": "Hullo"}),
        SpeechRequest("Hello.", seed=1, input_type="ssml"),
    ],
)
def test_everything_that_changes_what_is_said_changes_the_key(other: SpeechRequest) -> None:
    assert phrase_key(other, "model") != phrase_key(SpeechRequest("Hello.", seed=1), "model")


def test_what_comes_after_the_model_changes_no_key() -> None:
    request = SpeechRequest("Hello.", cloned(0.1), seed=1)
    other = replace(request, speed=1.5, loudness=-16.0, channels=2, real_time=True, first_chunk_frames=4)
    assert phrase_key(request, "model") == phrase_key(other, "model")


def test_a_voice_counts_by_its_content() -> None:
    keys = {phrase_key(SpeechRequest("Hello.", cloned(level), seed=1), "model") for level in (0.1, 0.1, 0.2)}
    assert len(keys) == 2


def test_another_checkpoint_or_setting_has_other_keys(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"1")
    model = replace(find("dummy"), checkpoint=tmp_path)
    deployment = resolve(env={}, flags={"model": "dummy"})
    first = model_identity(model, deployment)
    assert model_identity(model, deployment) == first
    assert model_identity(model, resolve(env={}, flags={"model": "dummy", "dtype": "float16"})) != first
    (tmp_path / "weights").write_bytes(b"22")
    assert model_identity(model, deployment) != first


# --- stores ---


def test_the_least_recently_used_phrase_makes_room_in_memory() -> None:
    store = PhrasesInMemory(2 * phrase().size)
    for key in ("a", "b"):
        store.put(key, phrase())
    assert store.get("a")
    store.put("c", phrase())
    assert [key for key in "abc" if store.get(key)] == ["a", "c"]
    assert store.bytes == 2 * phrase().size


def test_the_least_recently_used_phrase_makes_room_in_a_folder(tmp_path: Path) -> None:
    store = PhrasesInFolder(tmp_path, 2 * len(phrase().to_bytes()) + 10)
    for age, key in ((200, "a"), (100, "b")):
        store.put(key, phrase())
        store.flush()
        os.utime(tmp_path / f"{key}.phrase", (1e9 - age, 1e9 - age))
    assert store.get("a")  # now it was used last
    store.put("c", phrase())
    assert store.get("c") is not None  # at once
    store.flush()
    assert [key for key in "abc" if store.get(key)] == ["a", "c"]
    assert store.bytes == sum(file.stat().st_size for file in tmp_path.iterdir())


def test_files_of_phrases_are_open_to_their_owner_alone(tmp_path: Path) -> None:
    store = PhrasesInFolder(tmp_path / "phrases", 10**6)
    store.put("a", phrase())
    store.flush()
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "phrases", tmp_path / "phrases" / "a.phrase")]
    assert modes == [0o700, 0o600]


def test_a_damaged_file_is_a_miss_and_is_gone(tmp_path: Path) -> None:
    store = PhrasesInFolder(tmp_path, 10**6)
    store.put("a", phrase())
    store.flush()
    file = tmp_path / "a.phrase"
    file.write_bytes(file.read_bytes()[:-4])
    assert store.get("a") is None
    assert not file.exists()


def test_what_a_crash_left_is_removed_and_what_was_written_outlives_the_process(tmp_path: Path) -> None:
    store = PhrasesInFolder(tmp_path, 10**6)
    store.put("a", phrase())
    store.flush()
    abandoned, unfinished = tmp_path / ".0123.tmp", tmp_path / ".4567.tmp"
    abandoned.write_bytes(b"half")
    os.utime(abandoned, (1e9, 1e9))
    unfinished.write_bytes(b"half of what another replica writes")
    again = PhrasesInFolder(tmp_path, 10**6)
    assert {file.name for file in tmp_path.iterdir()} == {"a.phrase", unfinished.name}
    assert again.get("a") is not None
    assert again.bytes == (tmp_path / "a.phrase").stat().st_size


def test_a_folder_that_cannot_be_written_keeps_nothing_and_fails_nobody(tmp_path: Path) -> None:
    store = PhrasesInFolder(tmp_path / "cache", 10**6)
    (tmp_path / "cache").rmdir()
    store.put("a", phrase())
    store.flush()
    assert store.get("a") is None

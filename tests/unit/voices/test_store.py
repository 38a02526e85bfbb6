from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from rhapsode.errors import BadAudio, InvalidRequest, Unavailable
from rhapsode.types import Clip, Voice
from rhapsode.voices import files
from rhapsode.voices.store import StoredVoice, TooManyVoices, VoiceExists, VoiceStore

CLIP = Clip(np.linspace(-0.5, 0.5, 1600, dtype=np.float32)[None], 16_000)
VECTOR = [0.25, -1.5, 3.0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "voices"


@pytest.fixture
def store(folder: Path) -> VoiceStore:
    return VoiceStore(folder)


def settle(folder: Path) -> None:
    """As if the last change were long past."""
    os.utime(folder, (1e9, 1e9))


def names(store: VoiceStore) -> list[str]:
    return sorted(voice.name for voice in store.list())


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


# Keeping and finding


def test_a_clip_comes_back_sample_for_sample_after_a_restart(store, folder):
    added = store.add("Anna", clip=CLIP, text="What she says.", consent=" consent_1 ")
    assert added.consent == "consent_1"
    again = VoiceStore(folder)
    assert again.list() == [added]
    voice = again.load(added.id)
    (reference,) = voice.references
    assert reference.text == "What she says."
    assert reference.audio.sample_rate == 16_000
    assert reference.audio.samples.dtype == np.float32
    assert np.array_equal(reference.audio.samples, CLIP.samples)
    assert voice.embedding is None


@pytest.mark.skipif(sys.platform == "win32", reason="no modes")
def test_a_new_folder_is_open_to_its_owner_alone_and_an_existing_one_keeps_its_mode(tmp_path):
    new, given = tmp_path / "new", tmp_path / "given"
    given.mkdir()
    given.chmod(0o2770)  # replicas of several users share it
    for folder in (new, given):
        VoiceStore(folder).add("Anna", clip=CLIP, text="What she says.", consent="consent_1")
    assert [folder.stat().st_mode & 0o7777 for folder in (new, given)] == [0o700, 0o2770]


@pytest.mark.parametrize(
    "text",
    [
        "  spaces at both ends ",
        "\ta tab, lines\nand lines\r\nof two kinds\r\n",
        "\u00a0Zo\u00eb composed\u3000",
        "Zoe\u0308 decomposed, a joiner\u200d\ufeff",
        "\U0001f600 \x85\u2028",
    ],
)
def test_a_transcript_keeps_its_bytes_over_a_restart_and_in_another_replica(store, folder, text):
    other = VoiceStore(folder)
    added = store.add("Anna", clip=CLIP, text=text)
    for told in (store, other, VoiceStore(folder)):
        (reference,) = told.load(added.id).references
        assert reference.text.encode() == text.encode()
        assert told.get("Anna").text == text


@pytest.mark.parametrize("text", [None, "", " ", "\t\u3000\r\n"])
def test_a_transcript_of_spaces_is_none(store, text):
    assert store.add("Anna", clip=CLIP, text=text).text is None


def test_an_embedding_comes_back_after_a_restart(store, folder):
    store.add("Anna", embedding=VECTOR)
    assert VoiceStore(folder).load("anna") == Voice(embedding=tuple(VECTOR))


def test_what_is_known_of_a_voice_is_told(store):
    before = int(time.time())
    voice = store.add("Anna", clip=CLIP, text="hi", consent="yes")
    assert voice == StoredVoice(voice.id, "Anna", voice.created_at, "yes", "hi", 16_000, 0.1, None)
    assert before <= voice.created_at <= time.time()
    other = store.add("Ben", embedding=np.array(VECTOR))
    assert other == StoredVoice(other.id, "Ben", other.created_at, None, None, None, None, 3)


def test_a_voice_is_found_by_id_and_by_name_in_any_case(store):
    voice = store.add("Zoë", embedding=VECTOR)
    assert store.get(voice.id) == store.get("Zoë") == store.get("zoE\u0308") == store.get(" ZOË ") == voice


@pytest.mark.parametrize("name", ["", "Ben", "../Anna", "voice_000000000000", "\ud800", "\x00", "a" * 5000])
def test_what_is_not_there_is_not_found(store, name):
    store.add("Anna", embedding=VECTOR)
    assert store.get(name) is None
    assert store.load(name) is None
    assert store.delete(name) is False
    assert names(store) == ["Anna"]


def test_a_deleted_voice_is_gone_with_its_files(store, folder):
    store.add("Anna", clip=CLIP)
    kept = store.add("Ben", embedding=VECTOR)
    assert store.delete("ANNA") is True
    assert store.delete("Anna") is False
    assert store.list() == VoiceStore(folder).list() == [kept]
    assert sorted(path.name for path in folder.glob("[!.]*")) == [f"{kept.id}.json", f"{kept.id}.safetensors"]


def test_a_store_whose_folder_is_not_there_is_empty_and_makes_it_when_needed(folder):
    store = VoiceStore(folder / "deep")
    assert store.list() == []
    assert not folder.exists()
    store.add("Anna", embedding=VECTOR)
    assert names(store) == ["Anna"]


def test_voices_are_listed_the_oldest_first(store, monkeypatch):
    for name, moment in (("new", 300.0), ("old", 100.0), ("middle", 200.0)):
        monkeypatch.setattr("rhapsode.voices.store.time.time", lambda moment=moment: moment)
        store.add(name, embedding=VECTOR)
    assert [voice.name for voice in store.list()] == ["old", "middle", "new"]


# What is refused


@pytest.mark.parametrize(
    "name", ["../../etc/cron.d/x", "/tmp/x", "..", ".hidden", "a/b", "a\\b", "a\x00", "a\u202eb", ""]
)
def test_a_name_never_becomes_a_path(store, folder, tmp_path, name):
    with pytest.raises(InvalidRequest) as caught:
        store.add(name, embedding=VECTOR)
    assert caught.value.param == "name"
    assert list(tmp_path.rglob("*")) == []


def test_files_are_named_by_id_alone(store, folder):
    voice = store.add("My voice", embedding=VECTOR)
    assert voice.id.startswith("voice_")
    assert len(voice.id) == len("voice_") + 12
    assert {path.name for path in folder.iterdir()} == {".lock", f"{voice.id}.json", f"{voice.id}.safetensors"}


@pytest.mark.parametrize("name", ["Anna", "ANNA", "Ａnna", " anna"])
def test_a_name_is_given_once(store, folder, name):
    first = store.add("Anna", embedding=VECTOR)
    with pytest.raises(VoiceExists) as caught:
        store.add(name, clip=CLIP)
    assert (caught.value.status, caught.value.code, caught.value.param) == (409, "voice_exists", "name")
    assert store.list() == [first]


def test_a_deleted_voices_name_is_free_again(store):
    store.add("Anna", embedding=VECTOR)
    store.delete("Anna")
    assert store.add("Anna", clip=CLIP).sample_rate == 16_000


def test_a_full_store_takes_no_more(folder):
    store = VoiceStore(folder, max_voices=2)
    store.add("a", embedding=VECTOR)
    store.add("b", embedding=VECTOR)
    with pytest.raises(TooManyVoices, match="2 voices already"):
        store.add("c", embedding=VECTOR)
    store.delete("a")
    store.add("c", embedding=VECTOR)
    assert names(store) == ["b", "c"]


@pytest.mark.parametrize(
    "samples",
    [
        np.zeros((1, 0), np.float32),
        np.zeros((0, 10), np.float32),
        np.zeros(10, np.float32),
        np.array([[0.0, np.nan]], np.float32),
        np.array([[0.0, np.inf]], np.float32),
        np.array([[1e300]]),
    ],
)
def test_a_clip_that_is_empty_or_not_finite_is_refused(store, samples):
    with pytest.raises(BadAudio):
        store.add("Anna", clip=Clip(samples, 16_000))
    assert store.list() == []


@pytest.mark.parametrize(
    "embedding",
    [
        [],
        [float("nan")],
        [float("inf"), 1.0],
        [1e300],
        [0.0, 0.0],
        [[1.0, 2.0]],
        [1.0, [2.0]],
        ["a"],
        [None],
        [10**400],
        "ab",
    ],
)
def test_an_embedding_that_is_no_vector_is_refused(store, embedding):
    with pytest.raises(InvalidRequest) as caught:
        store.add("Anna", embedding=embedding)
    assert caught.value.param == "speaker_embedding"
    assert store.list() == []


def test_an_endless_embedding_is_refused(store):
    with pytest.raises(InvalidRequest, match="65536 numbers"):
        store.add("Anna", embedding=[1.0] * 65_537)


def test_a_voice_is_made_of_audio_or_an_embedding(store):
    with pytest.raises(InvalidRequest, match="either"):
        store.add("Anna")
    with pytest.raises(InvalidRequest, match="not both"):
        store.add("Anna", clip=CLIP, embedding=VECTOR)


@pytest.mark.parametrize("param", ["text", "consent"])
def test_texts_that_cannot_be_told_again_are_refused(store, param):
    for text in ("\ud800", "x" * 10_001):
        with pytest.raises(InvalidRequest) as caught:
            store.add("Anna", embedding=VECTOR, **{param: text})
        assert caught.value.param == param
    assert getattr(store.add("Ben", embedding=VECTOR, **{param: " \n"}), param) is None


# Files that are not as they should be


@pytest.fixture
def broken(store, folder):
    """A store with one good voice, and one whose files a test may spoil before the next start."""
    store.add("good", embedding=VECTOR)
    return store.add("bad", clip=CLIP)


def edited(folder: Path, voice: StoredVoice, **changes: object) -> None:
    file = folder / f"{voice.id}.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


SPOILED = {
    "empty record": lambda folder, voice: (folder / f"{voice.id}.json").write_bytes(b""),
    "half a record": lambda folder, voice: (folder / f"{voice.id}.json").write_bytes(b'{"id": "voi'),
    "a record of binary": lambda folder, voice: (folder / f"{voice.id}.json").write_bytes(b"\xff\x00\x80"),
    "a record that is a list": lambda folder, voice: (folder / f"{voice.id}.json").write_text("[1]"),
    "deep nesting": lambda folder, voice: (folder / f"{voice.id}.json").write_text("[" * 100_000),
    "a name that is a path": lambda folder, voice: edited(folder, voice, name="../x"),
    "a name that is a number": lambda folder, voice: edited(folder, voice, name=5),
    "another voice's id": lambda folder, voice: edited(folder, voice, id="voice_000000000000"),
    "a rate of zero": lambda folder, voice: edited(folder, voice, sample_rate=0),
    "another duration": lambda folder, voice: edited(folder, voice, duration_s=float("nan")),
    "neither kind": lambda folder, voice: edited(folder, voice, sample_rate=None),
    "no tensors": lambda folder, voice: (folder / f"{voice.id}.safetensors").unlink(),
    "empty tensors": lambda folder, voice: (folder / f"{voice.id}.safetensors").write_bytes(b""),
    "cut tensors": lambda folder, voice: os.truncate(folder / f"{voice.id}.safetensors", 500),
    "a pickle": lambda folder, voice: (folder / f"{voice.id}.safetensors").write_bytes(b"\x80\x04cos\nsystem\n" * 9),
    "other tensors": lambda folder, voice: save_file({"x": np.ones(3)}, folder / f"{voice.id}.safetensors"),
    "halves": lambda folder, voice: save_file(
        {"samples": CLIP.samples.astype(np.float16)}, folder / f"{voice.id}.safetensors"
    ),
    "a folder": lambda folder, voice: (
        (folder / f"{voice.id}.json").unlink(),
        (folder / f"{voice.id}.json").mkdir(),
    ),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_a_broken_voice_is_skipped_with_one_warning(broken, folder, caplog, spoil):
    spoil(folder, broken)
    store = VoiceStore(folder)
    assert names(store) == names(store) == ["good"]
    assert store.load(broken.id) is None
    assert [message for message in warnings(caplog) if broken.id in message] == warnings(caplog)
    assert len(warnings(caplog)) == 1


def test_foreign_files_are_skipped_with_a_warning(broken, folder, caplog):
    (folder / "README.txt").write_text("hello")
    (folder / "voice_XYZ.json").write_text("{}")
    (folder / "sub").mkdir()
    (folder / ".DS_Store").write_bytes(b"")
    store = VoiceStore(folder)
    assert names(store) == ["bad", "good"]
    assert len(warnings(caplog)) == 3


def test_a_voice_that_breaks_after_the_start_is_not_loaded(store, folder, caplog):
    for name, data in (("nan", np.full((1, 1600), np.nan, np.float32)), ("short", np.ones((1, 5), np.float32))):
        voice = store.add(name, clip=CLIP)
        save_file({"samples": data}, folder / f"{voice.id}.safetensors")
        assert store.load(name) is None
        assert voice.id in warnings(caplog)[-1]


def test_a_voice_from_a_newer_release_is_still_read(broken, folder):
    edited(folder, broken, colour="green")
    assert names(VoiceStore(folder)) == ["bad", "good"]


def test_a_broken_voice_that_is_repaired_is_found(broken, folder):
    data = (folder / f"{broken.id}.safetensors").read_bytes()
    (folder / f"{broken.id}.safetensors").unlink()
    store = VoiceStore(folder)
    assert names(store) == ["good"]
    (folder / f"{broken.id}.safetensors").write_bytes(data)
    assert names(store) == ["bad", "good"]


@pytest.mark.parametrize("failing", [1, 2])
def test_a_write_that_fails_midway_leaves_nothing(store, folder, monkeypatch, failing):
    store.add("Anna", embedding=VECTOR)
    before = {path.name for path in folder.iterdir()}
    calls = iter(range(1, 10))
    replace = os.replace

    def fail(source, target):
        if next(calls) == failing:
            raise OSError(28, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "replace", fail)
        with pytest.raises(Unavailable) as caught:
            store.add("Ben", clip=CLIP)
    assert str(folder) not in caught.value.message
    assert {path.name for path in folder.iterdir()} == before
    assert names(store) == ["Anna"]
    store.add("Ben", clip=CLIP)
    assert names(store) == ["Anna", "Ben"]


def test_tensors_without_a_record_are_no_voice_yet(store, folder, caplog):
    voice = store.add("Anna", embedding=VECTOR)
    (folder / f"{voice.id}.json").unlink()
    assert VoiceStore(folder).list() == []
    assert warnings(caplog) == []


def test_a_folder_that_is_a_file_is_unavailable_and_not_fatal(folder):
    folder.write_text("not a folder")
    store = VoiceStore(folder)
    assert store.list() == []
    with pytest.raises(Unavailable):
        store.add("Anna", embedding=VECTOR)


def test_the_tensors_are_plain_safetensors(store, folder):
    voice = store.add("Anna", clip=Clip(CLIP.samples[:, ::2], 8_000))
    tensors = load_file(folder / f"{voice.id}.safetensors")
    assert list(tensors) == ["samples"]
    assert np.array_equal(tensors["samples"], CLIP.samples[:, ::2])


# Several at once


def test_replicas_see_each_others_voices(folder):
    one, other = VoiceStore(folder), VoiceStore(folder)
    anna = one.add("Anna", embedding=VECTOR)
    assert other.get("anna") == anna
    ben = other.add("Ben", clip=CLIP)
    assert one.load("Ben").references[0].audio.sample_rate == 16_000
    with pytest.raises(VoiceExists):
        one.add("ben", embedding=VECTOR)
    assert other.delete("Anna") is True
    assert one.list() == [ben]
    assert one.delete(anna.id) is False


def test_a_change_within_one_tick_of_the_folders_clock_is_seen(folder):
    one, other = VoiceStore(folder), VoiceStore(folder)
    one.add("Anna", embedding=VECTOR)
    tick_ns = folder.stat().st_mtime_ns
    assert names(other) == ["Anna"]
    one.add("Ben", embedding=VECTOR)
    os.utime(folder, ns=(tick_ns, tick_ns))
    assert names(other) == ["Anna", "Ben"]


def test_a_folder_that_did_not_change_is_not_read_again(store, folder, monkeypatch):
    store.add("Anna", embedding=VECTOR)
    settle(folder)
    assert names(store) == ["Anna"]
    monkeypatch.setattr("rhapsode.voices.store.os.scandir", lambda _: pytest.fail("it was read again"))
    assert names(store) == ["Anna"]
    assert store.get("anna") is not None


def test_a_settled_folder_that_changes_is_read_again(store, folder):
    store.add("Anna", embedding=VECTOR)
    settle(folder)
    assert names(store) == ["Anna"]
    VoiceStore(folder).add("Ben", embedding=VECTOR)
    assert names(store) == ["Anna", "Ben"]


def test_known_voices_are_not_read_twice(store, monkeypatch):
    store.add("Anna", embedding=VECTOR)
    monkeypatch.setattr("rhapsode.voices.store.read_record", lambda *_: pytest.fail("it was read again"))
    assert names(store) == ["Anna"]


def test_a_folder_that_goes_away_leaves_an_empty_store(store, folder):
    store.add("Anna", embedding=VECTOR)
    folder.rename(folder.with_name("elsewhere"))
    assert store.list() == []


def attempt(store: VoiceStore, name: str) -> bool:
    try:
        store.add(name, embedding=VECTOR)
    except VoiceExists:
        return False
    return True


def test_threads_add_every_voice_once(store, folder):
    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(lambda n: attempt(store, f"voice {n % 20}"), range(60)))
    assert sum(added) == 20
    assert names(store) == names(VoiceStore(folder)) == sorted(f"voice {n}" for n in range(20))
    assert len(list(folder.iterdir())) == 41


def test_replicas_in_threads_give_a_name_once(folder):
    stores = [VoiceStore(folder) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for n in range(10):
            assert sum(pool.map(attempt, stores, [f"v{n}"] * 4)) == 1
    assert len(stores[0].list()) == 10


def test_replicas_in_processes_give_a_name_once(folder):
    code = (
        "import sys; from pathlib import Path; from rhapsode.voices.store import *\n"
        "store, won = VoiceStore(Path(sys.argv[1])), 0\n"
        "for n in range(20):\n"
        "    try: store.add(f'v{n}', embedding=[1.0]); won += 1\n"
        "    except VoiceExists: pass\n"
        "print(won, 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(folder)]
    replicas = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    results = [replica.communicate(timeout=60)[0].split() for replica in replicas]
    assert sum(int(won) for won, _ in results) == 20
    assert {torch for _, torch in results} == {"False"}
    assert len(VoiceStore(folder).list()) == 20


def test_readers_never_see_half_a_voice(folder, caplog):
    writer, reader = VoiceStore(folder), VoiceStore(folder)

    def write() -> None:
        for n in range(40):
            writer.add(f"v{n}", clip=CLIP)
            if n % 2:
                writer.delete(f"v{n}")

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not writing.done():
            for voice in reader.list():
                assert voice.sample_rate == 16_000
        writing.result()
    assert len(reader.list()) == 20
    assert warnings(caplog) == []


# What a crash leaves behind


def test_a_start_removes_what_a_crash_left_behind(store, folder):
    kept = store.add("Anna", clip=CLIP)
    (folder / ".0123456789abcdef.tmp").write_bytes(b"half a voice")
    (folder / "voice_0123456789ab.safetensors").write_bytes(b"tensors without a record")
    (folder / ".mine").write_bytes(b"not ours")
    (folder / "notes.tmp").write_bytes(b"not ours")
    VoiceStore(folder)
    left = {path.name for path in folder.iterdir()}
    assert left == {f"{kept.id}.json", f"{kept.id}.safetensors", ".lock", ".mine", "notes.tmp"}


def test_a_start_in_a_folder_that_is_not_there_creates_nothing(folder):
    VoiceStore(folder)
    assert not folder.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="has no FIFOs")
@pytest.mark.timeout(20)
def test_a_fifo_among_the_voices_is_skipped(store, folder):
    kept = store.add("Anna", clip=CLIP)
    os.mkfifo(folder / "voice_0123456789ab.json")
    os.mkfifo(folder / "voice_0123456789ac.safetensors")
    (folder / "voice_0123456789ac.json").write_bytes((folder / f"{kept.id}.json").read_bytes())
    assert names(VoiceStore(folder)) == ["Anna"]

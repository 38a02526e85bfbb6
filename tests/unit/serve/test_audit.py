"""The audit log: a line for every request, whatever becomes of it and of the file."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

from rhapsode.audio.formats import FORMATS
from rhapsode.config import resolve
from rhapsode.config.server import key_id
from rhapsode.errors import ConfigError, TimedOut
from rhapsode.serve.observe.audit import AuditLog
from rhapsode.serve.observe.caller import caller
from rhapsode.serve.observe.outcomes import Record
from rhapsode.serve.request.intake import Order
from rhapsode.serve.response.delivery import Delivery
from rhapsode.types import Clip, FinishReason, Outcome, Reference, SpeechRequest, Voice

SPOKEN = Record("a", Outcome("a", FinishReason.STOP, 1.25, 20, 0.0, 0.1, 0.2))
CLONED = Voice(references=(Reference(Clip(np.zeros((1, 8), np.float32), 16_000), "Words.", "ab12"),))


def order(voice: Voice | None = None, **more: str) -> Order:
    return Order(SpeechRequest("A secret.", voice or Voice()), Delivery(FORMATS["wav"]), **more)


def lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_line_says_who_what_and_how_it_ended_but_not_the_text(tmp_path):
    file = tmp_path / "logs" / "audit.jsonl"
    audit = AuditLog(file, "rhapsode-nano")
    token = caller.set(key_id(b"key of ada"))
    audit.record(order(CLONED, voice_name="Ada", consent="Ada agrees."), "req-1", SPOKEN, "A secret.")
    caller.reset(token)
    audit.close()
    (line,) = lines(file)
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "request_id": "req-1",
        "key": key_id(b"key of ada"),
        "model": "rhapsode-nano",
        "voice": "Ada",
        "references": ["ab12"],
        "consent": "Ada agrees.",
        "audio_s": 1.25,
        "outcome": "stop",
        "error": None,
    }
    assert "ada" not in line["key"]


def test_the_text_is_there_if_it_is_asked_for(tmp_path):
    audit = AuditLog(tmp_path / "audit.jsonl", "dummy", with_text=True)
    audit.record(order(), "a", SPOKEN, "A secret, and more of it.")
    audit.close()
    assert lines(tmp_path / "audit.jsonl")[0]["text"] == "A secret, and more of it."


def test_refused_and_failed_requests_have_their_lines(tmp_path):
    audit = AuditLog(tmp_path / "audit.jsonl", "dummy")
    audit.record(order(), "refused", None, "")
    audit.record(order(), "late", Record("late", SPOKEN.outcome, TimedOut("too late.")), "")
    audit.close()
    assert [(line["outcome"], line["error"]) for line in lines(tmp_path / "audit.jsonl")] == [
        ("refused", None),
        ("failed", "timeout"),
    ]


def test_a_file_that_is_moved_away_is_begun_anew(tmp_path):
    file = tmp_path / "audit.jsonl"
    audit = AuditLog(file, "dummy")
    audit.record(order(), "first", SPOKEN, "")
    for _ in range(500):
        if file.stat().st_size:
            break
        threading.Event().wait(0.01)
    file.rename(tmp_path / "old.jsonl")
    audit.record(order(), "second", SPOKEN, "")
    audit.close()
    assert [line["request_id"] for line in lines(tmp_path / "old.jsonl")] == ["first"]
    assert [line["request_id"] for line in lines(file)] == ["second"]


def test_a_disk_that_fails_stops_nobody(tmp_path, caplog):
    folder = tmp_path / "logs"
    audit = AuditLog(folder / "audit.jsonl", "dummy")
    (folder / "audit.jsonl").unlink()
    folder.rmdir()
    audit.record(order(), "a", SPOKEN, "")
    audit.close()
    assert "1 lines of the audit log are lost" in caplog.text


def test_lines_of_many_threads_are_whole(tmp_path):
    audit = AuditLog(tmp_path / "audit.jsonl", "dummy")
    threads = [
        threading.Thread(target=lambda: [audit.record(order(), "a", SPOKEN, "") for _ in range(200)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    audit.close()
    assert len(lines(tmp_path / "audit.jsonl")) == 1600


def test_a_file_that_cannot_be_written_is_refused_at_start(tmp_path):
    with pytest.raises(ConfigError, match="cannot be written"):
        AuditLog(tmp_path, "dummy")


def test_a_file_name_alone_switches_it_on():
    assert resolve(env={}, flags={"server": {"audit": "a.jsonl"}}).server.audit.file == Path("a.jsonl")
    assert resolve(env={}).server.audit.file is None


def test_a_new_file_is_readable_by_its_owner_alone_and_an_existing_one_keeps_its_mode(tmp_path):
    new, given = tmp_path / "logs" / "audit.jsonl", tmp_path / "given.jsonl"
    given.touch()
    given.chmod(0o640)
    umask = os.umask(0)
    try:
        for file in (new, given):
            audit = AuditLog(file, "dummy", with_text=True)
            audit.record(order(), "a", SPOKEN, "A secret.")
            audit.close()
    finally:
        os.umask(umask)
    assert [stat.S_IMODE(file.stat().st_mode) for file in (new, given)] == [0o600, 0o640]
    assert [len(lines(file)) for file in (new, given)] == [1, 1]

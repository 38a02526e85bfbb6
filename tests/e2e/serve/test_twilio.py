"""The telephone example, called by somebody who speaks Twilio's protocol."""

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from websockets.sync.client import ClientConnection, connect

from e2e.serve.running import LETTER_S, Running
from hearing import hear
from unit.command import environment

EXAMPLE = Path(__file__).parents[3] / "examples" / "twilio_media_stream.py"
GREETING = "Hello! Press a key, or say something while I speak, and I will stop."
FRAMES_PER_LETTER = round(LETTER_S / 0.02)


class Caller:
    """The telephone network's side of a call."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.send("connected", protocol="Call", version="1.0.0")
        self.send("start", start={"streamSid": "MZ1", "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000}})

    def send(self, event: str, **fields) -> None:
        self._socket.send(json.dumps({"event": event, "streamSid": "MZ1", **fields}))

    def until(self, event: str) -> tuple[list[bytes], dict]:
        """Returns the frames that were heard before a message of this kind, and the message."""
        frames: list[bytes] = []
        while True:
            message = json.loads(self._socket.recv(timeout=20))
            assert message["streamSid"] == "MZ1"
            if message["event"] == event:
                return frames, message
            assert message["event"] == "media"
            frames.append(base64.b64decode(message["media"]["payload"]))


@contextmanager
def called(server: Running) -> Iterator[Caller]:
    arguments = ["--port", "0", "--rhapsode", f"ws{server.url.removeprefix('http')}"]
    command = [sys.executable, str(EXAMPLE), *arguments]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"ws://\S+", process.stdout.readline())
            assert found
            with connect(found[0], proxy=None) as socket:
                yield Caller(socket)
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def caller(dummy: Running) -> Iterator[Caller]:
    with called(dummy) as caller:
        yield caller


def test_a_call_is_greeted_answered_and_interrupted(caller: Caller, dummy: Running) -> None:
    frames, mark = caller.until("mark")
    assert {len(frame) for frame in frames} == {160}
    assert len(frames) == len(GREETING) * FRAMES_PER_LETTER
    sound, rate = hear(b"".join(frames), "mulaw")
    assert rate == 8_000
    assert np.abs(sound).max() > 0.05
    caller.send("mark", mark=mark["mark"])

    caller.send("dtmf", dtmf={"digit": "5"})
    frames, mark = caller.until("mark")
    assert mark["mark"]["name"] == "utterance-2"
    assert len(frames) == len("You pressed 5.") * FRAMES_PER_LETTER

    quiet, loud = (base64.b64encode(code * 160).decode() for code in (b"\xff", b"\x80"))
    for payload in (quiet, loud, quiet, *[loud] * 5):  # a click is no speech, and what is said was not yet heard
        caller.send("media", media={"track": "inbound", "payload": payload})
    frames, _ = caller.until("clear")
    assert frames == []

    caller.send("dtmf", dtmf={"digit": "7"})
    frames, mark = caller.until("mark")
    assert len(frames) == len("You pressed 7.") * FRAMES_PER_LETTER
    caller.send("stop")

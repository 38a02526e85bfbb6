"""Voices that are downloaded when they are first asked for: from a server of their own, as from the hub."""

import hashlib
import shutil
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from e2e.serve.kinds import NOWHERE
from e2e.serve.running import Running, in_thread

pytest.importorskip("hibari")
from hibari import voices as package

EMMA = package.VOICES["emma"]["file"]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch) -> Iterator[Path]:
    """A folder that is served as the hub's; its only voice is the packaged one under another name."""
    folder, home = tmp_path / "hub", tmp_path / "home"
    folder.mkdir()
    shutil.copy(package.voice_path("heart"), folder / EMMA)
    digest = hashlib.sha256((folder / EMMA).read_bytes()).hexdigest()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setattr(package, "BASE_URL", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setitem(package.VOICES["emma"], "sha256", digest)
    monkeypatch.setenv("HIBARI_HOME", str(home))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    yield home
    server.shutdown()
    thread.join(10)
    server.server_close()


def start(folder: Path):
    return in_thread("hibari", folder, threads=1)


def known(server: Running) -> tuple[list[str], list[str]]:
    model = server.http.get("/v1/models").json()["data"][0]
    return model["voices"], model["voices_to_download"]


@pytest.mark.slow
def test_a_voice_is_downloaded_once_and_then_here(hub: Path, tmp_path: Path) -> None:
    with start(tmp_path) as server:
        assert known(server) == (["heart"], ["fenrir", "emma", "fable", "kore"])
        assert server.speak("Yes.", voice="emma", response_format="pcm").status_code == 200
        assert (hub / EMMA).is_file()
    with start(tmp_path) as server:
        assert known(server) == (["heart", "emma"], ["fenrir", "fable", "kore"])


@pytest.mark.slow
def test_a_voice_that_cannot_be_had_says_so_and_delays_nobody(hub: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(package, "BASE_URL", NOWHERE)
    with start(tmp_path) as server:
        answer = server.speak("Yes.", voice="emma")
        assert answer.status_code == 503
        assert "'emma' is not here yet" in answer.json()["error"]["message"]
        monkeypatch.setattr(package, "download", lambda *_: time.sleep(30))
        began_s = time.monotonic()
        assert server.speak("Yes.", voice="kore").status_code == 503  # it is not tried again at once
        assert server.speak("Yes.").status_code == 200
        assert time.monotonic() - began_s < 15


@pytest.mark.slow
def test_others_speak_while_a_voice_is_downloaded(hub: Path, tmp_path: Path, monkeypatch) -> None:
    began, may_end, download = threading.Event(), threading.Event(), package.download

    def slowly(*given: str) -> str:
        began.set()
        assert may_end.wait(30)
        return download(*given)

    monkeypatch.setattr(package, "download", slowly)
    with start(tmp_path) as server:
        answers = []
        first = threading.Thread(target=lambda: answers.append(server.speak("Yes.", voice="emma").status_code))
        first.start()
        assert began.wait(30)
        busy = server.speak("Yes.", voice="kore")
        assert (busy.status_code, "being downloaded" in busy.text) == (503, True)
        assert server.speak("Yes.").status_code == 200
        may_end.set()
        first.join(30)
        assert answers == [200]


def test_without_the_network_only_what_is_here_is_listed(hub: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with start(tmp_path) as server:
        assert known(server) == (["heart"], [])
        refused = server.speak("Yes.", voice="emma")
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "voice")
        assert server.speak("Yes.", voice="fable").status_code == 200  # one of OpenAI's names: it stands for a voice

"""What a server says while it starts, and how it stops before it has started."""

import signal
import time
from pathlib import Path

import pytest

from e2e.serve.running import Running, running


def lines(log: list[str], name: str) -> str:
    return next(line for line in log if line.strip().startswith(name))


def test_the_banner_says_what_was_resolved_and_what_the_checkpoint_can_do(tmp_path: Path) -> None:
    with running("rhapsode-nano", tmp_path, device="auto", wait=True) as server:
        assert "cpu, float32" in lines(server.log, "device") or "cuda" in lines(server.log, "device")
        assert lines(server.log, "model").split(None, 1)[1].strip() == (
            "rhapsode-nano: English, 6 preset voices, cloning; 24 kHz"
        )
        assert "presets, clone, embedding, text_stream; languages: en" in lines(server.log, "can")
        assert "uploads" in lines(server.log, "voices")
        server.http.get("/")
        server.http.get("/web/main.js")
        server.http.get("/v1/models")
    said = "".join(server.log)
    for step in ("prepare", "talk", "vocode", "warm-up"):
        assert f"step={step}" in said
    assert "route=/web" not in said
    assert "route=/v1/models" in said


def test_an_interrupt_while_it_loads_ends_it_at_once(tmp_path: Path) -> None:
    with running("rhapsode-nano", tmp_path, wait=False) as server:
        assert server.process is not None
        deadline_s = time.monotonic() + 60
        while "step=talk" not in "".join(server.log):
            assert time.monotonic() < deadline_s, "".join(server.log)
            time.sleep(0.02)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(20) == 130
    assert "interrupted while the model was loaded" in "".join(server.log)


@pytest.mark.parametrize("engine_process", [False, True], ids=["one process", "a process for the engine"])
def test_a_warm_up_sentence_without_audio_ends_no_start_and_no_reload(tmp_path: Path, engine_process: bool) -> None:
    """The server says so in one line per start, and speaks everything else."""
    server_settings = {"engine_process": engine_process, "idle_unload_s": 0.2}
    settings = {"options": {"unspoken": "quick brown fox"}, "server": server_settings}
    with running("dummy", tmp_path, **settings) as server:
        await_lines(server, "model ready", 1)
        assert server.speak("Hello.").status_code == 200
        refused = server.speak("The quick brown fox.", stream=False)
        assert (refused.status_code, refused.json()["error"]["code"]) == (500, "empty_audio")
        await_lines(server, "model unloaded", 1)
        assert server.speak("Hello again.").status_code == 200
        assert server.metric("rhapsode_model_loads_total") >= 2
        said = await_lines(server, "model ready", 2)
    warnings = [line for line in said if "warm-up sentence" in line]
    assert len(warnings) == sum("model ready" in line for line in said)
    assert all("WARNING" in line and "code=empty_audio" in line for line in warnings)


def await_lines(server: Running, words: str, count: int) -> list[str]:
    """The log, once so many of its lines have these words."""
    deadline_s = time.monotonic() + 60
    while sum(words in line for line in server.log) < count:
        assert time.monotonic() < deadline_s, "".join(server.log)
        time.sleep(0.02)
    return list(server.log)

"""What a server says while it starts, and how it stops before it has started."""

import os
import pty
import signal
import sys
import time
from pathlib import Path

import pytest

from e2e.serve.running import Running, running
from forked import start
from unit.command import environment, rhapsode


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


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of Unix")
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_on_a_terminal_loading_is_one_line_and_ctrl_c_says_that_it_ends(tmp_path: Path, log_format: str) -> None:
    terminal, screen = pty.openpty()
    command = ["rhapsode", "serve", "dummy", "--device", "cpu", "--port", "0", "--log-format", log_format]
    env = environment(OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    with open(os.devnull, "r+b") as nothing:
        process = start(command, tmp_path, env, [nothing.fileno(), nothing.fileno(), screen])
    os.close(screen)
    shown = ""
    try:
        while part := read_terminal(terminal):
            shown += part
            if "model ready" in shown and "stopping" not in shown:
                process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        os.close(terminal)
        process.send_signal(signal.SIGKILL)
    lines = [line.rpartition("\r\x1b[K")[2].strip() for line in shown.split("\n")]  # as the terminal shows them
    if log_format == "json":
        assert any('"step": "talk"' in line for line in lines)
        return
    assert shown.count("loading: ") > 5
    assert not [line for line in lines if "loading" in line or "start-up" in line]
    assert [line for line in lines if "model ready" in line]
    assert "rhapsode: stopping." in lines


def read_terminal(terminal: int) -> str:
    """What a program has written to its terminal; nothing once it has ended."""
    try:
        return os.read(terminal, 2**16).decode()
    except OSError:  # Linux says so when nobody has the other end any more
        return ""


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


@pytest.mark.parametrize(
    "engine_process",
    [pytest.param(False, marks=pytest.mark.slow), True],
    ids=["one process", "a process for the engine"],
)
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


@pytest.mark.parametrize("models", [["nobody/nowhere"], ["nobody/nowhere", "nobody/elsewhere"]])
def test_a_port_that_is_taken_is_told_before_anything_is_fetched(
    dummy: Running, tmp_path: Path, models: list[str]
) -> None:
    """The hub of this address refuses connections: whoever asks it gets another error."""
    hub = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path)}
    done = rhapsode("serve", *models, "--port", str(dummy.port), cwd=tmp_path, **hub)
    assert "address already in use" in done.stderr.decode().splitlines()[-1]

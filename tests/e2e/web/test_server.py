"""The Server view, and the snippets."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from websockets.sync.client import connect

from e2e.serve.running import LETTER_S, Running, heard
from e2e.web.browsing import Visit
from unit.command import environment

Open = Callable[..., Visit]


def test_what_the_server_does_is_drawn_while_it_does_it(visit: Open, dummy: Running) -> None:
    page = visit(dummy, "server")
    shown = "document.querySelector('#server [data-figure={}]').textContent"
    page.page.wait_for_function(f"{shown.format('running')} === '0'")
    with connect(dummy.socket_url) as socket:  # a text that is never finished holds its slot
        socket.send('{"type": "input.text", "text": "Hello"}')
        page.page.wait_for_function(f"{shown.format('running')} === '1'")
        assert page.figure("sockets") == "1"
    page.page.wait_for_function(f"{shown.format('running')} === '0'")
    assert page.figure("slots") == "8"
    assert page.figure("memory").endswith("iB")
    assert float(page.figure("batch")) > 0.5
    spread = page.page.locator("#server figure").filter(has_text="First audio")
    assert spread.locator("[data-figure=p50]").inner_text().endswith("s")
    assert page.page.locator("#server .chart polyline").count() == 3


def test_a_snippet_does_what_the_page_does(visit: Open, dummy: Running, tmp_path: Path) -> None:
    page = visit(dummy)
    page.field("Text").fill('It\'s "quoted", $HOME and \\ all.')
    page.field("Format").select_option("flac")
    page.fill("Never stop", "no")
    page.go("Server")
    code = {}
    for language in ("curl", "Python", "JavaScript"):
        page.press(language)
        code[language] = page.page.locator("#server pre").inner_text()
    commands = [[sys.executable, "-c", code["Python"]]]
    if shutil.which("curl"):
        commands.append(["bash", "-c", code["curl"]])
    for command in commands:
        env = environment(NO_PROXY="*")
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr.decode()
        file = tmp_path / "speech.flac"
        assert heard(file.read_bytes(), "flac").duration_s == pytest.approx(31 * LETTER_S, abs=0.03)
        file.unlink()
    counted = code["JavaScript"].replace("// audio", "count += bytes.length; // audio")
    assert page.page.evaluate(f"async () => {{ let count = 0; {counted} return count; }}") > 1000

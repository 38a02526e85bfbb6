"""The Server view, and the snippets."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from websockets.sync.client import connect

from e2e.serve.running import Running, heard
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


def test_percentiles_are_those_of_the_buckets(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    found = page.page.evaluate(
        """async () => {
            const { Scrape } = await import("/web/prometheus.js");
            const text = ['h_bucket{le="1.0"} 50', 'h_bucket{le="2.0"} 90', 'h_bucket{le="4.0"} 100', '# HELP r',
                'h_bucket{le="+Inf"} 100', 'r{outcome="a\\\\"b"} 2', 'r{outcome="c"} 3'].join("\\n");
            const scrape = new Scrape(text), h = scrape.histogram("h");
            const none = scrape.histogram("nothing").quantile(0.5) ?? null;
            return [h.quantile(0.25), h.quantile(0.5), h.quantile(0.9), h.quantile(0.95), none, scrape.sum("r")];
        }"""
    )
    assert found == [0.5, 1, 2, 3, None, 5]


@pytest.mark.parametrize("language", ["curl", "Python"])
def test_a_snippet_does_what_the_page_does(visit: Open, dummy: Running, tmp_path: Path, language: str) -> None:
    if language == "curl" and not shutil.which("curl"):
        pytest.skip("there is no curl here")
    page = visit(dummy)
    page.field("Text").fill('It\'s "quoted", $HOME and \\ all.')
    page.field("Format").select_option("flac")
    page.field("Endless").select_option("false")
    page.go("Server")
    page.press(language)
    code = page.page.locator("#server pre").inner_text()
    command = ["bash", "-c", code] if language == "curl" else [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(NO_PROXY="*"), capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert heard((tmp_path / "speech.flac").read_bytes(), "flac").duration_s == pytest.approx(32 * 0.02, abs=0.03)


def test_the_javascript_snippet_runs(visit: Open, dummy: Running) -> None:
    page = visit(dummy, "server")
    page.press("JavaScript")
    code = page.page.locator("#server pre").inner_text()
    counted = code.replace("// audio", "count += bytes.length; // audio")
    assert page.page.evaluate(f"async () => {{ let count = 0; {counted} return count; }}") > 1000

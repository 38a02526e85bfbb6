"""A page in a real browser, and what reaches its loudspeaker."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

HERE = Path(__file__).parent
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
FLAGS = (
    "--no-sandbox",  # CI is root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
)
WAIT_MS = 15_000


@contextmanager
def chromium() -> Iterator:
    """The system's Chromium, driven by Playwright; a test that needs it is skipped where it is not."""
    api = pytest.importorskip("playwright.sync_api", reason="browser tests need Playwright: pip install playwright")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("browser tests need Chromium: make browser")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """The page of one server, opened by one person."""

    def __init__(self, page, url: str) -> None:
        self.page = page
        self.url = url
        self.problems: list[str] = []
        """What the browser complained about: scripts, blocked sources, requests that left the server."""
        self.requests: list[str] = []
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        page.on("console", self._console)
        page.on("request", self._request)

    def tap(self) -> Visit:
        """Listen in. It takes a script of our own in the audio graph, which the page's policy would not allow."""
        worklet = (HERE / "tap-worklet.js").read_text()
        self.page.add_init_script(f"window.tapSource = {json.dumps(worklet)};\n{(HERE / 'tap.js').read_text()}")
        return self

    def open(self, view: str = "speak") -> Visit:
        self.page.goto(f"{self.url}/#{view}")
        self.page.get_by_role("tab", name="Speak").wait_for()
        return self

    def go(self, view: str) -> None:
        self.page.get_by_role("tab", name=view, exact=True).click()

    def press(self, name: str) -> None:
        self.page.locator("[role=tabpanel]:visible").get_by_role("button", name=name, exact=True).click()

    def field(self, label: str):
        return self.page.locator("[role=tabpanel]:visible").get_by_label(label, exact=True).first

    def fill(self, label: str, value: str) -> None:
        """Sets a field, also one that is folded away."""
        field = self.field(label)
        field.evaluate("node => node.closest('details')?.setAttribute('open', '')")
        if field.evaluate("node => node.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)

    def choose_voice(self, name: str) -> None:
        self.voice(name).locator("label").click()

    def voice(self, name: str):
        """The card of a voice."""
        named = self.page.get_by_role(
            "radio", name=re.compile(rf"^{re.escape(name)}( uploaded| downloads first| (fe)?male\b.*)?$")
        )
        return self.page.locator("[role=tabpanel]:visible .voice").filter(has=named)

    def error_at(self, label: str) -> str:
        """What is said next to a field, as a screen reader finds it."""
        ids = (self.field(label).get_attribute("aria-describedby") or "").split()
        told = self.page.locator(f"#{ids[-1]}")
        told.filter(has_text=" ").wait_for()
        return told.inner_text()

    def figure(self, name: str) -> str:
        return self.page.locator(f"[role=tabpanel]:visible [data-figure={name}]").first.text_content()

    # --- sound ---

    def forget(self) -> None:
        self.page.evaluate("heard.blocks = []")

    def await_sound(self, blocks: int = 1) -> None:
        self.page.wait_for_function("most => heard.blocks.length >= most", arg=blocks)

    def await_end(self) -> None:
        """Until the speech view has nothing more to play."""
        self.page.locator("[role=tabpanel]:visible").get_by_role("button", name="Stop", exact=True).and_(
            self.page.locator(":disabled")
        ).wait_for()

    def await_silence(self, quiet_ms: int = 300) -> None:
        self.page.wait_for_function(
            "quiet => heard.blocks.length && performance.now() - heard.blocks.at(-1).arrivedMs > quiet", arg=quiet_ms
        )

    def heard(self, channel: int = 0) -> NDArray[np.float32]:
        """All that was played, from the first sound to the last, silence in between included."""
        blocks = self.page.evaluate("n => heard.blocks.map(({ frame, channels }) => [frame, channels[n]])", channel)
        if not blocks:
            return np.zeros(0, np.float32)
        start = blocks[0][0]
        out = np.zeros(blocks[-1][0] - start + len(blocks[-1][1]), np.float32)
        for frame, samples in blocks:
            out[frame - start : frame - start + len(samples)] = samples
        return out

    def _console(self, message) -> None:
        # A request that is refused or breaks off is what some tests are about.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.problems.append(f"console: {message.text}")

    def _request(self, request) -> None:
        self.requests.append(request.url)
        if not request.url.startswith((self.url, "blob:", "data:")):
            self.problems.append(f"elsewhere: {request.url}")


def untimed(asked: dict) -> dict:
    """A request without what asks for the times of words, which come beside the same audio."""
    return {name: value for name, value in asked.items() if name not in ("word_timestamps", "stream_format")}


def samples_of(pcm: bytes) -> NDArray[np.float32]:
    """What the API returned, as an audio graph counts."""
    return (np.frombuffer(pcm, "<i2") / 32768).astype(np.float32)


def gaps(played: NDArray[np.float32], said: NDArray[np.float32], stopped: bool = False) -> int:
    """Frames of silence that were put between what was said; all else must be there, in order, once.

    Of what was `stopped` the beginning must be there.
    """
    played, said = np.trim_zeros(played), np.trim_zeros(said)
    at = silent = 0
    while at < len(said):
        here = played[at + silent : len(said) + silent]
        if stopped and not len(here):
            return silent
        assert len(here), f"the last {len(said) - at} samples were never played"
        wrong = np.flatnonzero(here != said[at : at + len(here)])
        if not len(wrong):
            at += len(here)
            continue
        at += int(wrong[0])
        assert played[at + silent] == 0, f"sample {at} was played as {played[at + silent]}, not {said[at]}"
        silent += 1
    assert len(played) == len(said) + silent, "more was played than was said"
    return silent

"""Measures several web pages that play speech at the same time, in a browser of this machine, against one server.

    python benchmarks/pages.py [--pages 4] [--rounds 3] [--model hibari]

In each round all pages press Speak at once and play to the end. The figures are those that the pages measure and show.
Server and browser share the cores with everything else on this machine. Needs Chromium (`make browser`).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from e2e.serve.running import running
from e2e.web.browsing import Visit, chromium

TEXT = (
    "A rhapsode was the performer who stitched songs together and spoke them aloud. He went from town to town, "
    "and what he knew he knew by heart. This one serves models instead. It speaks to many listeners at once, and "
    "none of them should notice that the others are there. "
)
FIGURES = {
    "firstAudioMs": "first audio",
    "factor": "real-time factor",
    "longestGapMs": "longest gap",
    "underruns": "underruns",
}


def play(pages: list[Visit], seconds: float) -> list[dict[str, str]]:
    for page in pages:
        page.press("Speak")
    for page in pages:
        page.page.set_default_timeout((seconds + 30) * 1000)
        page.await_end()
    return [{name: page.figure(name) for name in FIGURES} for page in pages]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pages", type=int, default=4)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--model", default="hibari")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as place, running(given.model, Path(place)) as server, chromium() as browser:
        pages = [Visit(browser.new_context().new_page(), server.url).open() for _ in range(given.pages)]
        for page in pages:
            page.field("Text").fill(TEXT)
        pcm = server.speak(TEXT, response_format="pcm").content
        seconds = len(pcm) / 2 / 24_000
        print(f"{given.model}: {given.pages} pages at once, {seconds:.0f} s of speech each, {os.cpu_count()} cores")
        with_underruns = 0
        for number in range(1, given.rounds + 1):
            print(f"round {number}, load {os.getloadavg()[0]:.1f}")
            for figures in play(pages, seconds):
                print("  " + ", ".join(f"{label} {figures[name]}" for name, label in FIGURES.items()))
                with_underruns += figures["underruns"] != "0"
        print(f"{given.rounds * given.pages} played, {with_underruns} with an underrun")
        for page in pages:
            page.page.context.close()


if __name__ == "__main__":
    main()

"""The pictures of docs/page.md: python tools/page_screenshots.py [FOLDER]

Every view in light and dark, two on a phone, and the API reference, from servers started here: the
voice for CPUs, and a tiny checkpoint with random weights for what needs a model that clones. Needs Chromium (`make
browser`).
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from e2e.serve.running import Running, running  # noqa: E402
from e2e.web.browsing import Visit, chromium  # noqa: E402
from rhapsode.audio.encode import encode  # noqa: E402
from rhapsode.types import Clip  # noqa: E402
from tiny.qwen3_tts import Tiny, reference_audio, write  # noqa: E402

SIZES = {"": {"width": 1280, "height": 820}, "phone": {"width": 390, "height": 844}}
ON_A_PHONE = ("speak", "compare")
SPEAKING_MS = 2600


def speak(page: Visit) -> None:
    page.press("Speak")
    place = page.page.locator("#speak .seek")
    deadline_s = time.monotonic() + 60
    while float(place.input_value()) < 2.5:  # in Python, since the page's policy allows no evaluated scripts
        assert time.monotonic() < deadline_s
        page.page.wait_for_timeout(20)


def talk(page: Visit) -> None:
    words = "Words are heard while the next ones are written. Is that so? "
    page.field("Type or paste").press_sequentially(words, delay=8)
    page.page.wait_for_timeout(SPEAKING_MS)


def clone(page: Visit) -> None:
    sample = {"name": "ada.wav", "mimeType": "audio/wav", "buffer": wav(6)}
    page.field("Sample").set_input_files(sample)
    page.field("Name").fill("Ada")
    page.page.wait_for_timeout(500)


def compare(page: Visit) -> None:
    page.page.get_by_role("region", name="Setting B").get_by_label("Speed").fill("1.2")
    page.press("Play B")
    page.page.wait_for_timeout(SPEAKING_MS)


def watch(page: Visit) -> None:
    listener = """async (which) => {
        for (let i = 0; i < 12; i += 1) {
            const input = "How fast is this when several people ask at the same time? ".repeat(1 + ((which * i) % 9));
            const wish = { method: "POST", headers: { "Content-Type": "application/json" } };
            const answer = await fetch("/v1/audio/speech", { ...wish, body: JSON.stringify({ input }) });
            await answer.arrayBuffer();
        }
    }"""
    page.page.evaluate(f"void [1, 2, 3, 4].map({listener})")
    page.page.wait_for_timeout(4 * SPEAKING_MS)


def read_reference(page: Visit) -> None:
    page.page.goto(f"{page.url}/docs")
    page.page.locator("details").first.click()


SHOTS: dict[str, Callable[[Visit], None]] = {
    "speak": speak, "talk": talk, "clone": clone, "compare": compare, "server": watch,
    "docs": read_reference,
}  # fmt: skip


def wav(seconds: int) -> bytes:
    return encode(Clip(reference_audio(seconds * 24_000)[None], 24_000), "wav")


def shrink(taken: bytes) -> Image.Image:
    """A few colours are enough for a page of few colours."""
    return Image.open(io.BytesIO(taken)).convert("RGB").quantize(96, dither=Image.Dither.NONE)


@contextmanager
def servers() -> Iterator[dict[str, Running]]:
    with tempfile.TemporaryDirectory() as place:
        checkpoint = Path(place) / "tiny-qwen3-tts"
        checkpoint.mkdir()
        write(checkpoint, Tiny(kind="base", eos_gain=1.4))
        (Path(place) / "served").mkdir()
        with running("hibari", Path(place)) as usual, running(str(checkpoint), Path(place) / "served") as cloning:
            for name in ("Grace", "Edsger"):
                form = {"name": name, "consent": "yes"}
                cloning.http.post("/v1/audio/voices", data=form, files={"audio_sample": ("a.wav", wav(4), "audio/wav")})
            yield {"clone": cloning, "": usual}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "page"
    folder.mkdir(parents=True, exist_ok=True)
    with servers() as found, chromium() as browser:
        for view, act in SHOTS.items():
            for scheme, size in (("light", ""), ("dark", ""), ("light", "phone"), ("dark", "phone")):
                if size and view not in ON_A_PHONE:
                    continue
                context = browser.new_context(color_scheme=scheme, viewport=SIZES[size])
                page = Visit(context.new_page(), (found.get(view) or found[""]).url)
                act(page.open(view))
                name = "-".join(filter(None, (view, scheme, size)))
                taken = page.page.screenshot(full_page=not size and view != "docs")
                shrink(taken).save(folder / f"{name}.png", optimize=True)
                context.close()
                print(name, page.problems or "")


if __name__ == "__main__":
    main()

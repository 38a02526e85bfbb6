"""Other families on the page, beside four streams of the same server."""

import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from e2e.serve.running import Running, in_thread
from e2e.web.browsing import Visit, gaps

FAMILIES = ("cosyvoice3", "fish_s2_pro", "higgs_v2", "higgs_v3", "moss_tts_nano")
STREAMS, SEED, TEXT = 4, 3, "Good morning to you all."
SETTINGS = {"limits": {"max_concurrency": 8, "max_positions": 1024}, "dtype": "float64"}

pytestmark = pytest.mark.slow


def listen(server: Running, until: threading.Event, heard: list[bytes]) -> None:
    """Has the same server speak, again and again."""
    while not until.is_set():
        heard.append(server.speak(TEXT, seed=SEED, response_format="pcm").content)


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_played_as_the_api_returned_it_beside_four_streams(
    visit: Callable[..., Visit], tmp_path: Path, family: str
) -> None:
    checkpoint = import_module(f"contract.families.{family}").checkpoint()
    with in_thread(checkpoint, tmp_path, **SETTINGS) as server:
        rate = server.http.get("/v1/models").json()["data"][0]["sample_rate"]
        wish = {"seed": SEED, "response_format": "pcm", "sample_rate": rate, "channels": 1}
        said = np.frombuffer(server.speak(TEXT, **wish).content, "<i2").astype(np.float32) / 32768
        alone = server.speak(TEXT, seed=SEED, response_format="pcm").content
        done, heard = threading.Event(), [[] for _ in range(STREAMS)]
        others = [threading.Thread(target=listen, args=(server, done, one)) for one in heard]
        for thread in others:
            thread.start()
        page = visit(server)
        page.field("Text").fill(TEXT)
        page.fill("Seed", str(SEED))
        page.press("Speak")
        page.await_sound()
        page.await_end()
        page.await_silence()
        done.set()
        for thread in others:
            thread.join()
        if page.heard().size and family != "moss_tts_nano":  # stereo: `test_stereo.py` compares its channels
            gaps(page.heard(), said)
        assert all(one and set(one) == {alone} for one in heard)

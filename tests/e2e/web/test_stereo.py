"""A stereo model on the page: each side hears its own channel."""

from collections.abc import Callable

import numpy as np
import pytest

from e2e.serve.running import Running
from e2e.web.browsing import Visit, gaps

RATE, SEED = 48_000, 6


@pytest.mark.slow
def test_each_channel_is_played_as_the_api_returned_it(visit: Callable[..., Visit], stereo: Running) -> None:
    wish = {"seed": SEED, "response_format": "pcm", "sample_rate": RATE, "channels": 2}
    said = np.frombuffer(stereo.speak("Hello there.", **wish).content, "<i2").reshape(-1, 2).T / 32768
    assert np.abs(said[0] - said[1]).max() > 0.1
    page = visit(stereo)
    page.field("Text").fill("Hello there.")
    page.fill("Seed", str(SEED))
    page.press("Speak")
    page.await_sound()
    page.await_end()
    page.await_silence()
    for channel in (0, 1):
        gaps(page.heard(channel), said[channel].astype(np.float32))  # nothing missing, changed or on the other side

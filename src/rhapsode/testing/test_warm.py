"""On a GPU nothing is compiled or captured once the engine has started: a listener would wait for it."""

import random
import time

import pytest

from rhapsode.device import compilations
from rhapsode.engine import Engine
from rhapsode.errors import Aborted, RhapsodeError
from rhapsode.testing.subject import DEVICE, Subject, assert_all_free, hear

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(DEVICE == "cpu", reason="launches are eager or traced on a CPU")]

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
SLOTS = 20


class TestWarm:
    kinds = frozenset({"frame"})  # launches of a burst are not captured yet

    @pytest.mark.parametrize("weights", ["auto", "fp8"])
    def test_no_request_compiles_or_captures_anything(self, subject: Subject, weights: str) -> None:
        limits = {"max_concurrency": SLOTS, "max_queue": 256}
        engine = subject.engine(limits=limits, dtype="bfloat16", weights=weights)
        rng = random.Random(3)
        hear_some(engine, subject, rng, 2)  # torch loads its own kernels when they are first used
        before = compilations.count()
        for _ in range(6):
            hear_some(engine, subject, rng, rng.randint(1, 2 * SLOTS))
        assert_all_free(engine)
        assert not compilations.since(before)
        engine.stop()


def hear_some(engine: Engine, subject: Subject, rng: random.Random, count: int) -> None:
    """Requests of random lengths that join at random moments; some are aborted, some get their text in pieces."""
    speeches = []
    for _ in range(count):
        text = " ".join(rng.choices(WORDS, k=rng.choice([1, 3, 10, 60, 200])))
        is_open = engine.info.can.text_stream and rng.random() < 0.3
        wishes = {"max_frames": 24, "seed": rng.randrange(1000), "text_open": is_open}
        speech = engine.submit(subject.request("" if is_open else text, **wishes))
        if is_open:
            for start in range(0, len(text), 40):
                speech.append(text[start : start + 40])
            speech.finish_text()
        if rng.random() < 0.2:
            time.sleep(rng.random() * 0.02)
            speech.abort()
        speeches.append(speech)
    for speech in speeches:
        try:
            hear(speech)
        except (Aborted, RhapsodeError):
            continue

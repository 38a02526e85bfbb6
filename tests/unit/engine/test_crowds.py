"""Crowds on a GPU of known pace, in virtual time: nobody who listens runs dry while others join."""

import random
from itertools import repeat

import pytest

from unit.engine.virtual_gpu import FRAME_S, VirtualEngine, VirtualGpu

POSITIONS = [45, 50, 55, 60, 65, 70, 75, 150]
FRAMES = 52


def served(monkeypatch, listeners, each=3, slower=1, frames=(FRAMES, FRAMES)):
    """The outcomes of a closed loop, after a warm-up as a server has; and the longest turn of the loop."""
    gpu, rng = VirtualGpu(slower), random.Random(2)
    engine = VirtualEngine(monkeypatch, gpu, listeners)
    for rows in (1, 4, 16, 64, 256, 512):
        if rows <= listeners:
            engine.listen(rows, 1, repeat((60, 10)))
    gpu.longest_turn_s = 0.0
    lengths = iter(lambda: (rng.choice(POSITIONS), rng.randint(*frames)), None)
    return engine.listen(listeners, each, lengths), gpu.longest_turn_s


def underruns(outcomes):
    return sum(outcome.underruns for outcome in outcomes)


def first_audio_s(outcomes, part):
    return sorted(outcome.first_audio_s for outcome in outcomes)[int(part * (len(outcomes) - 1))]


def test_a_crowd_is_served_without_an_underrun(monkeypatch):
    outcomes, longest_turn_s = served(monkeypatch, 64, each=2, slower=8)
    assert len(outcomes) == 2 * 64
    assert {outcome.frames for outcome in outcomes} == {FRAMES}
    assert underruns(outcomes) == 0
    assert longest_turn_s < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("frames", [(FRAMES, FRAMES), (25, 80)], ids=["in waves", "at any moment"])
@pytest.mark.parametrize(("listeners", "most_s"), [(256, 0.3), (512, 0.6)])
def test_256_and_512_listeners_have_no_underrun(monkeypatch, listeners, most_s, frames):
    outcomes, longest_turn_s = served(monkeypatch, listeners, frames=frames)
    assert underruns(outcomes) == 0
    assert first_audio_s(outcomes, 0.99) < most_s
    assert longest_turn_s < 0.05


def test_the_first_crowd_after_a_start_hears_as_soon_as_later_ones(monkeypatch):
    gpu = VirtualGpu(slower=0.8)
    gpu.read_s = 0.0003
    engine = VirtualEngine(monkeypatch, gpu, 256)
    for rows in (1, 4, 16, 64, 256):
        engine.listen(rows, 1, repeat((60, 10)))
    p50_s = [first_audio_s(engine.listen(256, 1, repeat((40, FRAMES))), 0.5) for _ in range(4)]
    assert p50_s[0] < 1.25 * min(p50_s)


def test_one_listener_hears_the_first_frame_at_once(monkeypatch):
    outcomes, _ = served(monkeypatch, 1)
    assert max(outcome.first_audio_s for outcome in outcomes) < 0.01
    assert outcomes[0].audio_s == pytest.approx(FRAMES * FRAME_S)

"""A storm of listeners who come and go as they like: who stays hears what is heard alone, and nothing leaks."""

import gc
import random
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from contract.families import dummy, qwen3_tts
from rhapsode.engine import Engine, Speech
from rhapsode.engine.burst_stage import BurstStage
from rhapsode.engine.frame_stage import FrameStage
from rhapsode.engine.job import Job
from rhapsode.testing.subject import DEVICE, LONG, Subject, assert_all_free, hear, speak
from rhapsode.types import Samples, SpeechRequest

BURSTS = {subject.variant: subject for subject in dummy.SUBJECTS if "burst" in subject.variant}
SUBJECTS = {subject.name: subject for subject in (dummy.SUBJECTS[0], qwen3_tts.SUBJECTS[0])} | BURSTS
REQUESTS = 1000 if DEVICE != "cpu" else 40 if LONG else 24
CROWDS = 4
"""Threads that submit and listen."""
EACH = 4
"""Requests of one crowd at a time; twice as many as there are slots, so that some wait."""
SLOTS = CROWDS * EACH // 2
MOST_FRAMES = 12
SPARE_BYTES = 1 << 20


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_storm_leaves_no_trace(name: str) -> None:
    subject, threads = SUBJECTS[name], threading.active_count()
    dtype = "float32" if DEVICE == "cpu" else "bfloat16"
    engine = subject.engine(deterministic=True, dtype=dtype, limits={"max_concurrency": SLOTS})
    requests = [subject.request(text, seed=seed, max_frames=MOST_FRAMES) for seed, text in enumerate(subject.texts)]
    alone = [(request, speak(engine, request)) for request in requests]
    storm(engine, subject, alone, REQUESTS // 8)  # whatever is made once is made now
    before = allocated_bytes()
    heard = storm(engine, subject, alone, REQUESTS)
    assert heard > REQUESTS // 4
    assert_all_free(engine)
    assert_nothing_kept(engine)
    assert allocated_bytes() <= before + SPARE_BYTES
    for request, expected in alone:
        assert np.array_equal(speak(engine, request), expected)
    engine.stop()
    assert threading.active_count() <= threads


def test_text_for_a_request_that_never_left_the_queue_is_forgotten() -> None:
    subject = SUBJECTS["dummy"]
    engine = subject.engine(limits={"max_concurrency": 1})
    speaking, queued = (engine.submit(subject.request("", text_open=True)) for _ in range(2))
    queued.append("Never heard.")
    time.sleep(0.05)  # the talker's turn
    queued.abort()
    speaking.abort()
    assert_nothing_kept(engine)
    engine.stop()


def storm(engine: Engine, subject: Subject, alone: list[tuple[SpeechRequest, Samples]], requests: int) -> int:
    """How many were heard to their end."""
    crowds = [Crowd(engine, subject, alone, seed) for seed in range(CROWDS)]
    with ThreadPoolExecutor(CROWDS) as pool:
        return sum(pool.map(lambda crowd: crowd.run(requests // CROWDS), crowds))


class Crowd:
    """Listeners of one thread, each of which does as it likes."""

    def __init__(self, engine: Engine, subject: Subject, alone: list[tuple[SpeechRequest, Samples]], seed: int) -> None:
        self._engine, self._subject, self._alone = engine, subject, alone
        self._rng = random.Random(seed)
        self._waiting: deque[tuple[Speech, Samples | None]] = deque()

    def run(self, requests: int) -> int:
        heard = 0
        for _ in range(requests):
            self._join()
            while len(self._waiting) >= self._rng.randint(1, EACH):
                heard += self._listen(*self._waiting.popleft())
        while self._waiting:
            heard += self._listen(*self._waiting.popleft())
        return heard

    def _join(self) -> None:
        request, expected = self._rng.choice(self._alone)
        if self._rng.random() < 0.2 and self._engine.spec.can.text_stream:
            speech = self._engine.submit(self._subject.request("", text_open=True, max_frames=MOST_FRAMES))
            speech.append(request.text)
            self._waiting.append((speech, None))
        else:
            self._waiting.append((self._engine.submit(request), expected))

    def _listen(self, speech: Speech, expected: Samples | None) -> bool:
        """Whether it was heard to its end. Where nothing is expected its text is open, and may be left so."""
        patience = self._rng.random()
        if patience < 0.2:
            speech.abort()
            return False
        if expected is None:
            speech.finish_text()
            assert hear(speech).shape[1] > 0
        elif patience < 0.4:
            first = speech.get(timeout_s=20)
            speech.abort()
            assert first is not None
            assert np.array_equal(first.samples, expected[:, : first.samples.shape[1]])
            return False
        else:
            assert np.array_equal(hear(speech), expected)
        return True


def allocated_bytes() -> int:
    if DEVICE == "cpu":
        return 0
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


def assert_nothing_kept(engine: Engine, within_s: float = 5.0) -> None:
    """What is kept by request, in the engine and in its stages, is kept for nobody."""
    give_up_s = time.monotonic() + within_s
    while (kept := kept_by(engine)) and time.monotonic() < give_up_s:
        time.sleep(0.005)  # launches that nobody waits for end by themselves
    assert not kept
    gc.collect()
    jobs = [job for job in gc.get_objects() if type(job) is Job and job._on_over.__self__ is engine]
    assert len(jobs) <= SLOTS  # what an idle thread's last turn looked at


def kept_by(engine: Engine) -> dict[str, object]:
    pipeline = engine.pipeline
    kept: dict[str, object] = {"jobs": engine._jobs, "open texts": engine._text_chars}
    for name, junction in pipeline._junctions.items():
        kept[f"payloads on their way to {name}"] = junction._payloads
    for name, stage in pipeline.stages.items():
        kept[f"messages to {name}"] = stage.inbox
        for what in ("_rows", "_joining", "_launches"):
            kept[f"{what} of {name}"] = getattr(stage, what, None)
        if isinstance(stage, FrameStage | BurstStage):
            kept[f"texts of {name}"] = stage._texts.waiting()
        if isinstance(stage, BurstStage):
            kept[f"frames on their way from {name}"] = stage._ring._writes
    return {name: value for name, value in kept.items() if value}

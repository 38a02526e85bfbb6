"""Measures what one request costs in the process of an engine, step by step: CPU microseconds of Python, no model.

    python benchmarks/engine_cost.py [--requests 256] [--rounds 9] [--model rhapsode-nano]

The stages are those of a server with a GPU, but all of them get their turns from this thread, one after the other, and
launches compute nothing. The model is Qwen3-TTS 1.7B with small layers and one token per byte; `--model` takes another
one, such as the packaged voice, which reads numbers as words and words as phonemes. Every text is new. To measure
another version, set PYTHONPATH to its sources. The median of the rounds counts.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rhapsode.bench.engine.subject import write_shape
from rhapsode.checking.reading import settings_of
from rhapsode.checking.request import checked
from rhapsode.config import resolve
from rhapsode.device.pages import page_keys
from rhapsode.engine import Engine, Source, SpeechScript
from rhapsode.engine.frame_launch import EMITTED, STOPPED
from rhapsode.models.registry import Model, find
from rhapsode.serve.garbage import collect_rarely
from rhapsode.serve.process.child import TOGETHER, EngineChild
from rhapsode.serve.process.link import MANY
from rhapsode.serve.process.messages import Submit
from rhapsode.serve.process.packing import Inflow, packed
from rhapsode.types import SpeechRequest, Voice

WORDS = "the quick brown fox jumps over a lazy dog while nobody listens to what it says about rain in april"
SMALL = {"hidden_size": 64, "text_hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}


class EngineCost:
    """An engine without threads, and the CPU time of each of its steps."""

    def __init__(self, model: Model, requests: int) -> None:
        limits = {"max_concurrency": requests, "max_queue": requests, "max_positions": 2048}
        flags = {"device": "cpu", "graphs": False, "random_weights": True, "threads": 1, "limits": limits}
        self.engine = Engine(model.spec, resolve(env={}, flags=flags), Source(model.checkpoint, model.config))
        self.engine._running = True
        self.count, self.took_us = requests, dict[str, list[float]]()
        stages: dict[str, Any] = self.engine.pipeline.stages
        self.prepare, self.encode, self.talk, self.vocode = (stages[s.name] for s in model.spec.pipeline)
        self.prepare._is_quick = lambda payload: False  # it is measured apart
        self.child = EngineChild(socket.socketpair()[0])
        self.child._engine, self.sent = self.engine, list[Any]()
        self.outer, inner = socket.socketpair()
        self.inflow = Inflow(inner)
        self.child._link.wake = lambda *messages: self.sent.extend(messages)  # type: ignore[method-assign]
        talker = self.talk._worker
        for on_device in (talker._prompts, talker._ready, self.talk._starts, self.talk._memory._joins):
            on_device._function = lambda *inputs: None
        self.vocode._memory._joins._function = lambda *inputs: None
        self.talk._launcher = lambda inputs: torch.full((len(inputs),), EMITTED + STOPPED, dtype=torch.uint8)
        hop = self.engine.pipeline.workers["vocode"].hop
        self.vocode._launcher = lambda inputs, due, seen: torch.ones(len(inputs), 1, due * hop + 1, dtype=torch.int16)
        for stage in (self.talk, self.vocode):
            stage.works_inline = False
        for rows in (1, 16, requests):
            self.talk.pace.observe(rows, 0.001, 1.0)  # as a GPU: everybody is let in
        self.talk.pace.tick = lambda rows, audio_s, other_s: None

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        started_s = time.thread_time()
        yield
        self.took_us.setdefault(step, []).append((time.thread_time() - started_s) / self.count * 1e6)

    def round(self, number: int) -> None:
        engine, rng = self.engine, random.Random(number)
        given = (engine.spec, engine.info, engine.deployment.limits)
        requests = [checked(self._request(rng), *given) for _ in range(self.count)]  # as the server sends them
        submits = [Submit(f"speech-{number}-{i}", request, f"client-{i}") for i, request in enumerate(requests)]
        for i in range(0, self.count, MANY):
            self.outer.sendall(b"".join(packed(submits[i : i + MANY])))
        messages: list[Any] = []
        with self.timed("message read"):
            while len(messages) < self.count:
                messages += self.inflow.read() or ()
        with self.timed("  text read"):
            for request in requests:
                SpeechScript(request, settings_of(request, engine.info, engine.lexicon), 1000)
        with self.timed("submitted"):
            self.child._received(messages)
        works = list(self.prepare.inbox._messages)
        with self.timed("  tokens"):
            drafts = [self.prepare._function(work.payload) for work in works]
        with self.timed("  prompt"):
            prompts = [self.encode._function([draft])[0] for draft in drafts]
        with self.timed("  page keys"):
            for prompt in prompts:
                page_keys(prompt.content, self.talk._memory.page_size, *getattr(prompt, "brief", ()))
        with self.timed("prepared"):
            while self.prepare.inbox:
                self.prepare.wake(*self.prepare.inbox.drain(TOGETHER))
        with self.timed("joined, talker"), self._still():
            while self.talk._seats.live.sum() < self.count:
                self.talk.turn()
        with self.timed("joined, codec"):
            while self.vocode._seats.live.sum() < self.count:
                self.vocode.turn()
        with self.timed("one frame, the last"):
            while self.talk._seats.live.any():
                self.talk.turn()
        with self.timed("chunk, end"):
            while self.vocode._seats.live.any():
                self.vocode.turn()
        with self.timed("left"):
            while engine._jobs or self.talk.inbox or self.vocode.inbox:
                self.talk.turn()
                self.vocode.turn()
        sent, self.sent[:] = list(self.sent), ()
        assert len(sent) == 3 * self.count, len(sent)
        with self.timed("messages written"):
            for i in range(0, len(sent), MANY):
                packed(sent[i : i + MANY])

    @contextmanager
    def _still(self) -> Iterator[None]:
        """No frames, so that all rows join first."""
        self.talk._able = lambda: np.zeros(self.count + 1, np.bool_)
        yield
        del self.talk._able

    def _request(self, rng: random.Random) -> SpeechRequest:
        text = " ".join(rng.choices(WORDS.split(), k=10)).capitalize() + "."
        return SpeechRequest(text, Voice(self.engine.info.voices[0]), options={}, real_time=True)


@contextmanager
def small_shape() -> Iterator[Model]:
    """Qwen3-TTS 1.7B with small layers: what Python does for a request is the same."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_shape("qwen3-tts-1.7b", folder)
        config = json.loads((folder / "config.json").read_text())
        for part in (config["talker_config"], config["talker_config"]["code_predictor_config"]):
            part.update({name: size for name, size in SMALL.items() if name in part})
        (folder / "config.json").write_text(json.dumps(config))
        yield find(str(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--model")
    given = parser.parse_args()
    torch.set_num_threads(1)
    collect_rarely()
    with nullcontext(find(given.model)) if given.model else small_shape() as model:
        cost = EngineCost(model, given.requests)
        for number in range(given.rounds + 1):
            cost.round(number)
    medians = {step: statistics.median(took[1:]) for step, took in cost.took_us.items()}
    medians["in all"] = sum(took for step, took in medians.items() if not step.startswith(" "))
    print(f"CPU us of one request, {given.requests} at once, median of {given.rounds} rounds")
    for step, took in medians.items():
        print(f"{step:24}{took:8.1f}")


if __name__ == "__main__":
    main()

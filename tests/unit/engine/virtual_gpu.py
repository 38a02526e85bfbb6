"""The stages of an engine on a GPU that is only counted: a virtual clock, launches of known length, nothing computed.

Scheduling is the engine's own. A launch of the codec goes ahead of the talker's, as its CUDA stream does.
"""

from collections import deque
from contextlib import contextmanager
from dataclasses import replace

import torch

from rhapsode.config import resolve
from rhapsode.device import launch_times
from rhapsode.device.kv import KVLayout
from rhapsode.device.reach import Reach
from rhapsode.device.state import State
from rhapsode.engine import Engine, admission, changes, clock, job, launches, pace, sink, stream_stage, turn_order
from rhapsode.engine.costs import ChunkCosts
from rhapsode.engine.frame_launch import EMITTED
from rhapsode.engine.goals import GPU
from rhapsode.engine.planner import ChunkPlanner
from rhapsode.engine.schedule import ChunkSchedule
from rhapsode.engine.stage import Work
from rhapsode.engine.stream_stage import HELD_BACK_S
from rhapsode.models.base import Prompt, Traits
from rhapsode.models.dummy.spec import SPEC
from rhapsode.types import Outcome, Sampling, SpeechRequest

SAMPLE_RATE, FRAME_S = 1_000, 0.08
TURN_S, ROW_S = 0.0003, 0.00002
"""What a turn costs the host, and each row of a result."""


class Prepare:
    """Makes prompts of as many positions as the text says."""

    def __init__(self, context):
        pass

    def __call__(self, request):
        return Prompt(max_frames=1000, length=int(request.text.split()[0]))


class Talker:
    frame_shape, frame_dtype = (1,), torch.int64
    defaults = Sampling(temperature=1.0, top_k=0, top_p=1.0, repetition_penalty=1.0)

    def __init__(self, context):
        """Computes nothing."""

    def traits(self):
        return Traits(kv=(KVLayout(layers=1, heads=1, head_dim=1),), prefill=self.prefill)

    def state(self, slots):
        return State()

    def prefill(self, prompts, spans, rows, state):
        """Computes nothing."""

    def step(self, rows, state):
        raise NotImplementedError


class Codec:
    channels, hop, reach = 1, int(SAMPLE_RATE * FRAME_S), Reach()

    def __init__(self, context):
        """Computes nothing."""

    def state(self, slots):
        return State()

    def decode(self, window, rows, state):
        raise NotImplementedError


def codec_of(frame_s):
    """The name of a codec whose frames play so long."""
    name = f"Codec{round(1000 * frame_s)}"
    globals().setdefault(name, type(name, (Codec,), {"hop": round(SAMPLE_RATE * frame_s)}))
    return f"{__name__}:{name}"


def virtual_spec(frame_s=FRAME_S):
    prepare, _, talk, vocode = SPEC.pipeline
    stages = (
        replace(prepare, factory=f"{__name__}:Prepare", next=("talk", "vocode")),
        replace(talk, factory=f"{__name__}:Talker"),
        replace(vocode, factory=codec_of(frame_s)),
    )
    return replace(SPEC, name="virtual", sample_rate=SAMPLE_RATE, pipeline=stages)


class Item:
    """A launch on its way."""

    def __init__(self, gpu, end_s):
        self.gpu, self.end_s = gpu, end_s

    @property
    def has_ended(self):
        return self.end_s <= self.gpu.now_s


class VirtualGpu:
    """Runs the talker's launches one after the other; those of the codec push them back.

    Frames of 256 and 512 rows take 11 and 18 ms, prompts of 64 positions 0.4 ms each in a full launch.
    """

    def __init__(self, slower=1, whole=1):
        """How many times as long a row takes, and `whole` launches."""
        self.now_s = 100.0
        self.read_s = 0.0006 * slower
        """What one request costs the thread that reads requests."""
        self.cost_s = {
            "talk": lambda rows: whole * (0.0026 + 0.000031 * slower * rows),
            "prompt": lambda positions: whole * max(0.003, 0.0000059 * slower * positions),
            "vocode": lambda frames: whole * (0.0005 + 0.000015 * slower * frames),
        }
        self._items = deque()
        self._codec = deque()
        self.longest_turn_s = 0.0

    def audio_s_per_s(self, rows, frame_s, chunk=8):
        """The seconds of audio that full launches of so many rows make in a second."""
        took_s = self.cost_s["talk"](rows) + self.cost_s["vocode"](rows * chunk) / chunk
        return rows * frame_s / took_s

    def launch(self, kind, size):
        took_s = self.cost_s[kind](size)
        queue = self._codec if kind == "vocode" else self._items
        for old in (self._items, self._codec):
            while old and old[0].has_ended:
                old.popleft()
        begin_s = max([self.now_s, *(item.end_s for item in queue)])
        if kind == "vocode":
            for item in self._items:
                item.end_s += took_s
        item = Item(self, begin_s + took_s)
        queue.append(item)
        return item

    def next_end_s(self):
        return min((item.end_s for item in (*self._items, *self._codec) if not item.has_ended), default=float("inf"))


class VirtualTimes:
    """Stands for `LaunchTimes`."""

    def __init__(self, gpu):
        self._gpu, self._items = gpu, deque()

    @contextmanager
    def measured(self, size):
        yield
        self._items.append(self._gpu.launch("prompt", size))

    @property
    def in_flight(self):
        while self._items and self._items[0].has_ended:
            self._items.popleft()
        return len(self._items)

    def expected_s(self, size):
        return self._gpu.cost_s["prompt"](size)

    def most(self, seconds):
        return int(seconds / self._gpu.cost_s["prompt"](2048) * 2048)


class Player:
    """Reads a speech as one kind of listener does."""

    def __init__(self, kind, speech):
        self._kind, self._speech = kind, speech
        self._played_at_s = None

    def play(self, now_s):
        """Reads what this listener would have read by now; returns whether it goes on."""
        speech = self._speech
        if self._kind == "gone" and speech.is_ready:
            speech.abort()
            return False
        while self._kind != "unread" and speech._chunks and (self._kind != "slow" or (self._played_at_s or 0) <= now_s):
            self._played_at_s = max(self._played_at_s or now_s, now_s) + speech.get().duration_s
        return speech.outcome is None


class VirtualEngine:
    """An engine whose stages get their turns from a loop in virtual time."""

    def __init__(self, monkeypatch, gpu, slots, frame_s=FRAME_S, **limits):
        """`frame_s`: how long a frame plays."""
        self.gpu = gpu
        for module in (changes, clock, pace, turn_order, job, admission, sink, stream_stage, launch_times):
            monkeypatch.setattr(module, "clock_s", lambda: gpu.now_s)
        flags = {"device": "cpu", "graphs": False, "threads": 1}
        limits = {"max_concurrency": slots, "max_queue": 4096, "max_positions": 256, **limits}
        self._outcomes: list[Outcome] = []
        given = resolve(env={}, flags={**flags, "limits": limits})
        self.engine = Engine(virtual_spec(frame_s), given, on_outcome=self._outcomes.append)
        self.engine._running = True
        self._talk, self._vocode = (self.engine.pipeline.stages[name] for name in ("talk", "vocode"))
        self._landing = deque()
        for stage in (self._talk, self._vocode):
            stage.works_inline = False
            stage._launcher = self._launcher(stage.name)
        self._talk._lag, self._vocode._timed_frame_s = 1, 0.0
        prefill = self._talk._prefill
        prefill._is_inline, prefill._together, prefill._times = False, True, VirtualTimes(gpu)
        chunks, listeners = self.engine.deployment.chunks, self._vocode._planner._clock
        schedule = ChunkSchedule(chunks, captured=True)
        costs = ChunkCosts(frame_s, self._talk.pace)
        self._vocode._planner = ChunkPlanner(slots, schedule, chunks, GPU, costs, listeners)
        monkeypatch.setattr(launches, "Landing", self._land)
        self._hop = round(SAMPLE_RATE * frame_s)
        self._players = []
        self._arrivals = deque()
        self._read_s = 0.0

    def _launcher(self, name):
        def launch(inputs, *statics):
            rows = len(inputs)
            if name == "talk":
                self._landing.append(self.gpu.launch(name, rows))
                return torch.full((rows,), EMITTED, dtype=torch.uint8)
            self._landing.append(self.gpu.launch(name, rows * statics[0]))
            return torch.zeros(rows, 1, statics[0] * self._hop)

        return launch

    def _land(self, values):
        item, gpu = self._landing.popleft(), self.gpu

        class Landed:
            def ready(self):
                return item.has_ended

            def numpy(self):
                gpu.now_s = max(gpu.now_s, item.end_s)
                gpu.now_s += ROW_S * len(values)
                return values.numpy()

            def end(self):
                """The values are nobody else's."""

        return Landed()

    def listen(self, listeners, each, lengths):
        """Has so many listeners ask at once, and again when they have heard everything; returns all outcomes.

        `lengths` yields the positions of a prompt and the frames of its speech.
        """
        first, asked = len(self._outcomes), listeners
        for _ in range(listeners):
            self.ask(self.gpu.now_s, next(lengths))
        while (over := len(self._outcomes) - first) < listeners * each:
            while asked < min(over + listeners, listeners * each):
                self.ask(self.gpu.now_s, next(lengths))
                asked += 1
            self._read()
            self._turns()
        while self.engine.load().slots_in_use:
            self._turns()
        return self._outcomes[first:]

    def ask(self, at_s, length, kind="player"):
        """Has a listener ask at a moment to come: a `player` reads what it is sent at once, as `listen` has it; a
        `slow` one reads at the pace of playback, `unread` never reads, and `gone` leaves after its first audio."""
        positions, frames = length
        self._arrivals.append((at_s, kind, SpeechRequest(f"{positions} positions", max_frames=frames, real_time=True)))

    def serve(self):
        """Serves all who have asked; returns the outcomes of those who have heard everything."""
        first = len(self._outcomes)
        while self._arrivals or self.engine.load().slots_in_use or self.engine.load().queued:
            self._read()
            self._turns()
        return self._outcomes[first:]

    def _play(self):
        for player in list(self._players):
            if not player.play(self.gpu.now_s):
                self._players.remove(player)

    def _read(self):
        """Reads the requests that have come, one after the other."""
        while self._arrivals and self._read_at_s() <= self.gpu.now_s:
            self._read_s = self._read_at_s()
            _, kind, request = self._arrivals.popleft()
            self._players.append(Player(kind, self.engine.submit(request)))
        prepare = self.engine.pipeline.stages["prepare"]
        for work in prepare.inbox.drain():
            prepare.outbox.payload(Work(work.job, prepare._call([work])[0]))

    def _read_at_s(self):
        """When the next request will have been read."""
        return max(self._arrivals[0][0], self._read_s) + self.gpu.read_s if self._arrivals else float("inf")

    def _turns(self):
        gpu, busy = self.gpu, False
        self._play()
        for stage in (self._talk, self._vocode):
            began_s = gpu.now_s
            if stage.turn():
                busy = True
                gpu.now_s += TURN_S
            gpu.longest_turn_s = max(gpu.longest_turn_s, gpu.now_s - began_s)
        if not busy:
            polls = [stage.poll_s for stage in (self._talk, self._vocode) if stage.poll_s]
            wake_s = min(gpu.next_end_s(), self._read_at_s())
            gpu.now_s = min(max(wake_s, gpu.now_s + min(polls, default=0.0)), gpu.now_s + HELD_BACK_S)

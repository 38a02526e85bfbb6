"""A burst stage: what it launches, in which order its sentences are heard, and how it waits for its listeners."""

import random
import threading
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from contract.burst import BURST, BURST_CHAIN, DummyBurst, MeasuredBurst, Sentence, SentencePrompt
from contract.burst import Prepare as DummyPrepare
from rhapsode.config import resolve
from rhapsode.device.landing import Landing
from rhapsode.device.reach import Reach
from rhapsode.device.state import State
from rhapsode.engine import Engine, burst_launcher, burst_stage, launches
from rhapsode.engine.ring_writer import RingWriter
from rhapsode.errors import ConfigError, EmptyAudio, GenerationFailed, Runaway
from rhapsode.models.base import StageSpec
from rhapsode.models.dummy.spec import SPEC
from rhapsode.testing.subject import assert_all_free, hear, speak
from rhapsode.types import FinishReason, SpeechRequest

HERE = __name__
HOP = 160
SENTENCES = ("One two three.", "Four five.", "Six seven eight nine.", "Ten.")
TEXT = " ".join(SENTENCES)


@dataclass
class Call:
    """What the worker was called with."""

    texts: list[str]
    length: int


class Written:
    """A burst whose frames say what was spoken: the characters of the text, in order, one frame each."""

    frame_shape = ()
    frame_dtype = torch.float32
    launch_size = 256
    calls: list[Call] = []  # noqa: RUF012
    on_call = staticmethod(lambda: None)

    def __init__(self, context):
        Written.calls, Written.on_call = [], staticmethod(lambda: None)

    def size(self, prompt):
        return len(prompt.text)

    def burst(self, prompts, seeds, length):
        Written.on_call()
        Written.calls.append(Call([prompt.text for prompt in prompts], length))
        assert seeds.shape == (len(prompts),)
        return [torch.tensor([ord(char) / 256 for char in prompt.text]) for prompt in prompts]


class Ragged(Written):
    def burst(self, prompts, seeds, length):
        return [torch.zeros(3, 2) for _ in prompts]


@dataclass
class WrittenPrompt(SentencePrompt):
    text: str = ""


class Prepare(DummyPrepare):
    """The dummy's prompts with their text; one with a `z` is silent."""

    def _prompt(self, sentence: Sentence):
        text = "" if "z" in sentence.text else sentence.text.strip()
        return WrittenPrompt(**vars(super()._prompt(sentence)), text=text)


class Levels:
    """A codec that makes a level of each frame."""

    hop, channels, reach = HOP, 1, Reach()

    def __init__(self, context):
        """Needs nothing of the context."""

    def state(self, slots):
        return State()

    def decode(self, window, rows, state):
        return window.frames.repeat_interleave(HOP, dim=1)[:, None]


PREPARE = StageSpec("prepare", "call", f"{HERE}:Prepare", next=("talk",))
TALK = StageSpec("talk", "burst", f"{HERE}:Written", stream_to=("vocode",), takes_text=True)
VOCODE = StageSpec("vocode", "stream", f"{HERE}:Levels")
WRITTEN = replace(SPEC, sample_rate=16_000, frame_hz=100, pipeline=(PREPARE, TALK, VOCODE))


def engine_of(spec=WRITTEN, **settings):
    settings["limits"] = {"max_concurrency": 4, **settings.get("limits", {})}
    return Engine(spec, resolve(env={}, flags={"threads": 1, "device": "cpu", **settings}))


def read(samples) -> str:
    """The text that the samples say."""
    return "".join(chr(round(float(level) * 256)) for level in samples[0, ::HOP])


def request(text=TEXT, **wishes) -> SpeechRequest:
    return SpeechRequest(text, seed=1, **wishes)


# --- what is heard ---


def test_sentences_are_launched_one_by_one_and_heard_in_order():
    with engine_of() as engine:
        assert read(speak(engine, request())) == "".join(SENTENCES)
        assert [call.texts for call in Written.calls] == [[sentence] for sentence in SENTENCES]
        assert engine.load().frames == len("".join(SENTENCES))
        assert engine.load().steps == len(SENTENCES)
        assert_all_free(engine)


def test_the_next_sentence_is_made_while_the_first_is_heard():
    with engine_of() as engine:
        speech = engine.submit(request())
        give_up_s = time.monotonic() + 20
        while len(Written.calls) < len(SENTENCES) and time.monotonic() < give_up_s:
            time.sleep(0.01)  # nobody listens, and the ring has room
        assert len(Written.calls) == len(SENTENCES)
        assert read(hear(speech)) == "".join(SENTENCES)


def test_what_does_not_fit_into_the_ring_waits_and_so_does_the_next_sentence():
    text = f"{'a' * 60}. {'b' * 60}. {'c' * 60}."
    with engine_of(chunks={"largest": 8, "ring": 9}, limits={"max_unread_s": 0.05}) as engine:
        speech = engine.submit(request(text))
        while not Written.calls:
            time.sleep(0.01)
        time.sleep(0.2)  # for what must not be launched
        assert [call.texts[0][0] for call in Written.calls] == ["a"]
        assert read(hear(speech)) == text.replace(" ", "")
        assert [call.texts[0][0] for call in Written.calls] == ["a", "b", "c"]
        assert_all_free(engine)


def test_a_sentence_without_frames_is_passed_over_and_a_text_of_them_is_an_error():
    with engine_of() as engine:
        assert read(speak(engine, request("One. Zzz zz. Two."))) == "One.Two."
        with pytest.raises(EmptyAudio):
            speak(engine, request("Zz."))
        assert_all_free(engine)


def test_a_pause_between_sections_is_heard_between_their_sentences():
    text = "<speak>One two.<break time='100ms'/>Three.</speak>"
    with engine_of() as engine:
        chunks = list(engine.submit(request(text, input_type="ssml")))
        pause = next(i for i, chunk in enumerate(chunks) if chunk.is_pause)
        before, after = chunks[:pause], chunks[pause + 1 :]
        assert read(np.concatenate([chunk.samples for chunk in before], axis=1)) == "One two."
        assert read(np.concatenate([chunk.samples for chunk in after], axis=1)) == "Three."


# --- what is launched ---


def crowd(engine, requests, decoy="Who is first?"):
    """The texts of the launches after a first one, during which all of these requests arrived."""
    stage, entered = engine.pipeline.stages["talk"], threading.Event()

    def wait() -> None:
        if not entered.is_set():
            entered.set()
            give_up_s = time.monotonic() + 20
            while len(stage.inbox) < len(requests) and time.monotonic() < give_up_s:
                time.sleep(0.001)

    Written.on_call = staticmethod(wait)
    first = engine.submit(request(decoy))
    assert entered.wait(20)
    speeches = [engine.submit(each) for each in requests]
    for speech in (first, *speeches):
        hear(speech)
    return [call.texts for call in Written.calls[1:]]


@pytest.fixture
def in_no_hurry(monkeypatch):
    """Launches may be as long as they like: the first one of a `crowd` waits, so it seems to take very long."""
    monkeypatch.setattr(burst_launcher, "LONGEST_S", 60.0)


def test_prompts_of_about_the_same_length_are_launched_together(in_no_hurry):
    texts = ["a" * 20 + ".", "b" * 40 + ".", "c" * 30 + ".", "d" * 41 + "."]
    with engine_of(limits={"max_concurrency": 8}) as engine:
        launches = crowd(engine, [request(text) for text in texts])
        assert launches == [[texts[0], texts[2]], [texts[1], texts[3]]]
        assert [call.length for call in Written.calls[1:]] == [31, 42]  # on a CPU nothing is padded without need


def test_deterministic_launches_have_one_shape_for_each_length():
    texts = ["a" * 20 + ".", "b" * 40 + ".", "c" * 30 + "."]
    with engine_of(deterministic=True, limits={"max_concurrency": 8}) as engine:
        crowd(engine, [request(text) for text in texts])
        shapes = {(len(call.texts), call.length) for call in Written.calls}
        assert shapes == {(8, 16), (8, 32), (256 // 48, 48)}


def test_new_listeners_go_before_those_who_have_plenty(in_no_hurry):
    with engine_of(limits={"max_concurrency": 8}) as engine:
        long = f"{'l' * 390}. " * 3
        launches = crowd(engine, [request("New one."), request("New two.")], decoy=long)
        assert launches[0] == ["New one.", "New two."]


def test_the_pace_is_measured():
    with engine_of() as engine:
        stage = engine.pipeline.stages["talk"]
        assert not stage.pace.known
        speak(engine, request())
        assert 0 < stage.pace.at(1) < 10


# --- a device that works while the host goes on ---


class LateLanding(Landing):
    """Results that arrive some turns after their launch."""

    polls = 3

    def ready(self) -> bool:
        self.polls -= 1
        return self.polls < 0


class LateEvent:
    """A point in the work of a device that is reached some turns later."""

    polls = 3

    def is_past(self) -> bool:
        self.polls -= 1
        return self.polls < 0


@pytest.fixture
def late(monkeypatch):
    monkeypatch.setattr(launches, "Landing", LateLanding)
    monkeypatch.setattr(burst_stage, "lag_of", lambda device: 1)
    monkeypatch.setattr(RingWriter, "_here", lambda self: LateEvent())


@pytest.mark.parametrize("spec", [WRITTEN, BURST, BURST_CHAIN], ids=["written", "burst", "burst-chain"])
@pytest.mark.parametrize("chunks", [{}, {"largest": 2, "ring": 3}], ids=["wide", "narrow"])
def test_results_may_arrive_late(spec, chunks, monkeypatch, request):
    texts = (TEXT, "One two.", "Three four five. Six.", "Seven eight nine ten. Eleven. Twelve thirteen.")
    with engine_of(spec) as engine:
        alone = [speak(engine, SpeechRequest(text, seed=i)) for i, text in enumerate(texts)]
    request.getfixturevalue("late")
    rng = random.Random(7)
    with engine_of(spec, chunks=chunks, limits={"max_concurrency": 3, "max_queue": 64}) as engine:
        waiting = []
        for i in [rng.randrange(len(texts)) for _ in range(30)]:
            waiting.append((alone[i], engine.submit(SpeechRequest(texts[i], seed=i))))
            if rng.random() < 0.3:
                time.sleep(rng.random() * 0.01)
            if rng.random() < 0.4:
                waiting.pop(rng.randrange(len(waiting)))[1].abort()
        for expected, speech in waiting:
            assert np.array_equal(hear(speech), expected)
        assert_all_free(engine)


def test_frames_on_their_way_belong_to_nobody_once_their_request_has_left(late):
    with engine_of() as engine:
        ring = engine.pipeline.stages["talk"]._ring
        speech = engine.submit(request())
        give_up_s = time.monotonic() + 20
        while not ring._writes and time.monotonic() < give_up_s:
            pass
        speech.abort()
        assert_all_free(engine)
        assert read(speak(engine, request())) == "".join(SENTENCES)
        assert not ring._writes


# --- limits and failures ---


def test_a_request_ends_at_the_frames_it_asks_for():
    with engine_of() as engine:
        for frames in (3, len(SENTENCES[0]), len(SENTENCES[0]) + 4):
            speech = engine.submit(request(max_frames=frames))
            assert read(hear(speech)) == "".join(SENTENCES)[:frames]
            assert speech.outcome.finish_reason == FinishReason.LENGTH
            assert speech.outcome.frames == frames
        assert_all_free(engine)


@pytest.mark.parametrize("worker", [DummyBurst, MeasuredBurst])
def test_a_runaway_is_an_error_and_is_not_rendered_if_that_is_known_before(worker, monkeypatch):
    rendered = []
    real = worker.burst
    monkeypatch.setattr(worker, "burst", lambda self, *given: rendered.append(1) or real(self, *given))
    prepare, talk, vocode = BURST.pipeline
    spec = replace(BURST, pipeline=(prepare, replace(talk, factory=f"contract.burst:{worker.__name__}"), vocode))
    with engine_of(spec) as engine:
        with pytest.raises(Runaway, match="cut"):
            hear(engine.submit(SpeechRequest("Hello.", options={"endless": True})))
        assert bool(rendered) == (worker is DummyBurst)
        assert_all_free(engine)


def test_a_runaway_in_a_later_sentence_ends_what_is_heard(monkeypatch):
    measure = MeasuredBurst.measure

    def longer(self, prompts, *rest):
        found = measure(self, prompts, *rest)
        longer_by = [[prompt.max_frames if len(prompt.tokens) > 9 else 0] for prompt in prompts]
        return found._replace(durations=found.durations + torch.tensor(longer_by))

    monkeypatch.setattr(MeasuredBurst, "measure", longer)
    with engine_of(BURST) as engine:
        whole = speak(engine, SpeechRequest("Yes. No.", seed=1))
        speech, heard = engine.submit(SpeechRequest("Yes. No. And much more than that. Yes.", seed=1)), []
        with pytest.raises(Runaway, match="no end within"):
            heard.extend(speech)
        samples = np.concatenate([np.zeros((1, 0), np.float32), *(chunk.samples for chunk in heard)], axis=1)
        assert np.array_equal(samples, whole[:, : samples.shape[1]])
        assert_all_free(engine)


def test_frames_of_a_wrong_shape_are_an_error():
    prepare, talk, vocode = WRITTEN.pipeline
    spec = replace(WRITTEN, pipeline=(prepare, replace(talk, factory=f"{HERE}:Ragged"), vocode))
    with engine_of(spec) as engine:
        with pytest.raises(GenerationFailed, match="TypeError"):
            speak(engine, request())
        assert_all_free(engine)


def nothing(context):
    return lambda payload: "no prompt"


def bare(context):
    return object()


def test_a_payload_that_is_no_prompt_is_an_error():
    prepare, talk, vocode = WRITTEN.pipeline
    spec = replace(WRITTEN, pipeline=(replace(prepare, factory=f"{HERE}:nothing"), talk, vocode))
    with engine_of(spec) as engine, pytest.raises(GenerationFailed, match="TypeError"):
        speak(engine, request())


@pytest.mark.parametrize(
    ("pipeline", "why"),
    [
        ((PREPARE, replace(TALK, kind="bust"), VOCODE), r"unknown kind 'bust' \(did you mean 'burst'"),
        ((PREPARE, replace(TALK, stream_to=()), VOCODE), "'talk' streams to no stage"),
        ((PREPARE, replace(TALK, stream_to=("prepare",)), VOCODE), r"not from 'talk' \(burst\) to 'prepare' \(call\)"),
        (
            (PREPARE, TALK, replace(TALK, name="more", kind="frame", stream_to=()), VOCODE),
            "talk and more make frames of prompts",
        ),
        (
            (PREPARE, replace(TALK, factory=f"{HERE}:bare"), VOCODE),
            "'burst', but its worker has no 'frame_shape'",
        ),
    ],
)
def test_a_pipeline_that_makes_no_sense_is_refused(pipeline, why):
    with pytest.raises(ConfigError, match=why):
        engine_of(replace(WRITTEN, pipeline=pipeline))

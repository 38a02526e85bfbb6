"""Pipelines other than the usual one: fan-out, joins, early streams, a device per stage, look-ahead."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from contract.incremental import INCREMENTAL
from rhapsode.config import resolve
from rhapsode.engine import Engine
from rhapsode.errors import ConfigError, GenerationFailed
from rhapsode.models.base import StageContext, StageSpec, Traits
from rhapsode.models.dummy.codec import DummyCodec
from rhapsode.models.dummy.spec import SPEC
from rhapsode.models.dummy.talker import DummyTalker
from rhapsode.testing.subject import assert_all_free, hear, speak
from rhapsode.types import SpeechRequest

PREPARE, ENCODE, TALK, VOCODE = SPEC.pipeline
REQUEST = SpeechRequest("Something to say, and then some more of it.", seed=3)
HERE = __name__


@pytest.fixture(scope="module")
def expected():
    with Engine(SPEC, resolve(env={})) as engine:
        return speak(engine, REQUEST)


def run(pipeline, request=REQUEST, **settings):
    with Engine(replace(SPEC, pipeline=pipeline), resolve(env={}, flags=settings)) as engine:
        samples = [hear(speech) for speech in [engine.submit(request) for _ in range(3)]]
        assert_all_free(engine)
        assert all(np.array_equal(one, samples[0]) for one in samples)
        return samples[0]


def upper(context):
    return lambda request: request.text.upper()


def first_of_both(context):
    def join(parts):
        assert parts["shout"] == REQUEST.text.upper()
        return parts["encode"][0] if isinstance(parts["encode"], list) else parts["encode"]

    return join


def test_a_payload_may_fan_out_and_be_joined_again(expected):
    shout = StageSpec("shout", "call", f"{HERE}:upper", next=("join",))
    join = StageSpec("join", "call", f"{HERE}:first_of_both", next=("talk",))
    assert np.array_equal(run((PREPARE, replace(ENCODE, next=("join",)), shout, join, TALK, VOCODE)), expected)


class GatedCodec(DummyCodec):
    """Counts what it is given before its payload."""

    opened = threading.Event()
    decoded_before_payload = 0

    def traits(self):
        return Traits(open=self.open)

    def open(self, payloads, rows, state, sizes):
        GatedCodec.opened.set()

    def decode(self, window, rows, state):
        if not GatedCodec.opened.is_set():
            GatedCodec.decoded_before_payload += 1
        return super().decode(window, rows, state)


def late(context):
    gate = threading.Event()

    def wait(prompt):
        gate.wait(0.2)
        return prompt

    return wait


class QuietTalker:
    """Has all that a talker must have, and takes no text while it speaks."""

    def __init__(self, context):
        talker = DummyTalker(context)
        self.frame_shape, self.frame_dtype, self.defaults = talker.frame_shape, talker.frame_dtype, talker.defaults
        self.state, self.step = talker.state, talker.step
        self.traits = lambda: replace(talker.traits(), extend=None)


def test_a_talker_needs_neither_extend_nor_capture(expected):
    quiet = replace(TALK, factory=f"{HERE}:QuietTalker", takes_text=False)
    assert DummyTalker(StageContext(SPEC, None, {}, "cpu", "float32")).traits().capture is None
    assert np.array_equal(run((PREPARE, ENCODE, quiet, VOCODE)), expected)


def test_text_that_a_talker_cannot_take_fails_its_request():
    quiet = replace(TALK, factory=f"{HERE}:QuietTalker")
    with Engine(replace(SPEC, pipeline=(PREPARE, ENCODE, quiet, VOCODE)), resolve(env={})) as engine:
        speech = engine.submit(SpeechRequest("One ", text_open=True))
        engine.append(speech.id, "two.", final=True)
        with pytest.raises(GenerationFailed, match="TypeError"):
            list(speech)


@pytest.mark.parametrize("early", [True, False])
def test_a_stream_may_start_before_its_payload_only_where_that_is_accepted(expected, early):
    GatedCodec.opened.clear()
    GatedCodec.decoded_before_payload = 0
    slow = StageSpec("slow", "call", f"{HERE}:late", next=("vocode",))
    vocode = StageSpec("vocode", "stream", f"{HERE}:GatedCodec", accepts_early_stream=early)
    pipeline = (PREPARE, replace(ENCODE, next=("talk", "slow"), workers=1), slow, TALK, vocode)
    assert np.array_equal(run(pipeline), expected)
    assert (GatedCodec.decoded_before_payload > 0) == early


def test_stages_on_devices_of_their_own_run_in_loops_of_their_own(expected):
    assert np.array_equal(
        run(SPEC.pipeline, stages={"talk": {"device": "cpu:0"}, "vocode": {"device": "cpu"}}), expected
    )


SCHEDULES = [{}, {"first": 3, "largest": 5, "ring": 12}, {"first": 16}, {"largest": 1, "ring": 4}]


def test_a_codec_that_looks_ahead_is_exact_for_every_schedule():
    samples = [run(SPEC.pipeline, options={"lookahead": 1}, chunks=chunks) for chunks in SCHEDULES]
    assert all(np.array_equal(one, samples[0]) for one in samples)


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_codec_that_keeps_its_look_ahead_is_given_every_frame_once(deterministic):
    expected = run(SPEC.pipeline, options={"lookahead": 1})
    for chunks in SCHEDULES:
        assert np.array_equal(run(INCREMENTAL.pipeline, chunks=chunks, deterministic=deterministic), expected)


def test_looking_ahead_is_heard(expected):
    assert not np.array_equal(run(SPEC.pipeline, options={"lookahead": 1}), expected)


def test_a_ring_too_small_for_its_chunks_is_a_clear_error():
    with pytest.raises(ConfigError, match=r"chunks\.ring"):
        run(SPEC.pipeline, chunks={"ring": 16, "largest": 16})


@pytest.mark.parametrize(
    ("pipeline", "why"),
    [
        ((PREPARE, ENCODE, TALK), "vocode"),
        ((PREPARE, replace(ENCODE, next=("nowhere",)), TALK, VOCODE), "nowhere"),
        ((PREPARE, replace(ENCODE, next=("prepare", "talk")), TALK, VOCODE), "circle"),
        ((PREPARE, PREPARE, ENCODE, TALK, VOCODE), "one name"),
        ((replace(PREPARE, kind="magic"), ENCODE, TALK, VOCODE), "magic"),
        ((PREPARE, ENCODE, replace(TALK, stream_to=("prepare",)), VOCODE), "frames go"),
        ((PREPARE, ENCODE, replace(TALK, stream_to=()), VOCODE), "exactly one"),
        ((replace(PREPARE, next=()),), "make the audio"),
        ((PREPARE, replace(ENCODE, embeds=True), TALK, VOCODE), "no trait 'embed'"),
    ],
)
def test_a_broken_pipeline_says_what_is_wrong(pipeline, why):
    with pytest.raises(ConfigError, match=why):
        run(pipeline)


def test_an_unknown_stage_in_the_deployment_is_a_clear_error():
    with pytest.raises(ConfigError, match="vocode"):
        run(SPEC.pipeline, stages={"vocod": {"device": "cpu"}})


@pytest.mark.parametrize("device", ["tpu", "cuda:77", "nonsense"])
def test_an_unknown_device_is_a_clear_error(device):
    with pytest.raises(ConfigError, match="device"):
        run(SPEC.pipeline, device=device)

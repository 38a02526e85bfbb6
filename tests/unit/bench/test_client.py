"""A scripted server and the client agree on what happened when, to a few milliseconds."""

import asyncio
import base64
import json
import time
from itertools import pairwise

import pytest

from rhapsode.bench.serve.client import SpeechClient, make_session
from rhapsode.bench.serve.server import speech_server
from unit.bench.fake_server import Script, serving, silence, tone

CLOSE_S = 0.005
ATTEMPTS = 4  # a shared machine may pause between two readings of the clock, but not every time


def request(script, **settings):
    """Sends one request to a scripted server: the timed response, and when the server sent what."""

    async def run():
        async with serving(script) as (url, log), make_session() as session:
            client = SpeechClient(session, speech_server(url, "rhapsode"), **settings)
            start_s = time.perf_counter()
            response = await client.request("Hello.", 1, start_s)
            return response, [moment - start_s for moments in log.sent_s for moment in moments]

    return asyncio.run(run())


def agrees(script, compare):
    """The largest difference between the pairs of `compare(response, sent)`, in the best of a few attempts."""
    best = float("inf")
    for _ in range(ATTEMPTS):
        pairs = compare(*request(script))
        best = min(best, max(abs(one - other) for one, other in pairs))
        if best < CLOSE_S:
            break
    return best


def test_a_delay_is_measured():
    script = Script([(0.12, tone(0.2))])
    response, _ = request(script)
    assert response.ok
    assert response.playback.audio_s == pytest.approx(0.2)
    assert response.first_byte_s >= 0.12
    assert agrees(script, lambda r, sent: [(r.first_byte_s, sent[0]), (r.playable_s, sent[0])]) < CLOSE_S


def test_a_wav_header_is_not_yet_audio():
    # A WAV header of 44 bytes, then, much later, the first sample.
    header = (
        b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x01\0\xc0\x5d\0\0\x80\xbb\0\0\x02\0\x10\0data\xff\xff\xff\xff"
    )
    script = Script([(0.02, header), (0.1, tone(0.2))], content_type="audio/wav")
    assert agrees(script, lambda r, sent: [(r.first_byte_s, sent[0]), (r.playable_s, sent[1])]) < CLOSE_S


def test_silence_first_is_playable_but_not_audible():
    script = Script([(0.02, silence(0.08) + tone(0.1))])
    assert agrees(script, lambda r, sent: [(r.playable_s, sent[0]), (r.audible_s, sent[0] + 0.08)]) < CLOSE_S


def test_a_stall_that_the_buffer_covers_is_a_gap_and_no_underrun():
    script = Script([(0.02, tone(0.5)), (0.15, tone(0.2))])
    response, _ = request(script)
    assert response.playback.underruns == 0
    assert agrees(script, lambda r, sent: [(r.playback.gaps_s[0], sent[1] - sent[0])]) < CLOSE_S


def test_an_underrun_is_as_long_as_the_silence_it_makes():
    # 80 ms of audio, nothing for 200 ms, and again: two underruns of about 120 ms.
    script = Script([(0.02, tone(0.08)), (0.2, tone(0.08)), (0.2, tone(0.4)), (0.1, tone(0.1))])

    def compare(response, sent):
        assert response.playback.underruns == 2
        stalls = sum(later - earlier - 0.08 for earlier, later in pairwise(sent[:3]))
        return [(response.playback.stalled_s, stalls), (response.total_s, sent[-1])]

    assert agrees(script, compare) < CLOSE_S


def test_a_dropped_stream_is_an_error_with_the_times_until_then():
    script = Script([(0.02, tone(0.1)), (0.05, tone(0.1))], end="drop")
    response, _ = request(script)
    assert response.error == "dropped"
    assert response.playback.audio_s == pytest.approx(0.2)
    assert agrees(script, lambda r, sent: [(r.playable_s, sent[0]), (r.total_s, sent[1])]) < CLOSE_S


def test_a_refusal_is_counted_by_its_status():
    response, _ = request(Script([(0, b'{"error": {"message": "busy"}}')], status=429, content_type="application/json"))
    assert (response.error, response.status) == ("http 429", 429)
    assert "busy" in response.detail


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (Script([(0, silence(0.2))]), "silent"),
        (Script([]), "empty"),
        (Script([(0, b"abc")]), "malformed"),
        (Script([(0, b"ID3")], content_type="audio/mpeg"), "wrong format"),
    ],
)
def test_a_200_without_speech_is_an_error(script, kind):
    response, _ = request(script)
    assert response.error == kind


def test_a_server_that_never_ends_times_out():
    response, _ = request(Script([(0, tone(0.1)), (5, tone(0.1))]), timeout_s=0.15)
    assert response.error == "timeout"
    assert response.total_s == pytest.approx(0.15, abs=0.1)


def test_a_server_that_is_not_there_is_a_connection_error():
    async def run():
        async with make_session() as session:
            return await SpeechClient(session, speech_server("http://127.0.0.1:9", "rhapsode")).request("Hello.", 1)

    assert asyncio.run(run()).error == "connect"


def test_events_are_timed_like_bytes():
    delta = {"type": "speech.audio.delta", "audio": base64.b64encode(tone(0.1)).decode()}
    done = b'data: {"type": "speech.audio.done"}\n\n'
    steps = [(0.05, b"data: " + json.dumps(delta).encode() + b"\n\n"), (0.05, done)]
    script = Script(steps, content_type="text/event-stream")
    response, _ = request(script)
    assert response.ok
    assert response.playback.audio_s == pytest.approx(0.1)
    assert agrees(script, lambda r, sent: [(r.playable_s, sent[0]), (r.total_s, sent[1])]) < CLOSE_S


def test_samples_are_kept_only_when_asked_for():
    response, _ = request(Script([(0, tone(0.1))]), keep=True)
    assert response.samples.shape == (1, 2400)
    assert response.samples.T.tobytes() == tone(0.1)
    response, _ = request(Script([(0, tone(0.1))]))
    assert response.samples.size == 0

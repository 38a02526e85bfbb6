"""Single modules of the page, in the browser but without its pace: the audio processor, bytes, buckets, blends."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from e2e.serve.running import Running

# The processor outside of its thread, so that every block comes when the test says so.
RIG = """async ([play, channels]) => {
    let Processor;
    globalThis.AudioWorkletProcessor = class { port = { postMessage: (m) => told.push(m) } };
    globalThis.registerProcessor = (_, kind) => { Processor = kind; };
    globalThis.currentTime = 0;
    const told = [];
    await import(`/web/worklets/playback.js?${Math.random()}`);  // anew
    const processor = new Processor(), out = [];
    const tell = (kind, fields) => processor.port.onmessage({ data: { kind, track: 1, ...fields } });
    const block = (count = 1) => { for (; count; count -= 1) {
        const output = Array.from({ length: channels }, () => new Float32Array(128));
        processor.process([], [output]);
        out.push(...(channels === 1 ? output[0] : [output.map((channel) => [...channel])]));
    } };
    const push = (frames) => tell("push", {
        samples: Int16Array.from({ length: frames * channels }, (_, i) => 16384 / (1 + (i % channels))),
    });
    new Function("tell", "block", "push", play)(tell, block, push);
    return { out, told };
}"""


@pytest.fixture(scope="module")
def page(browser, dummy: Running) -> Iterator:
    context = browser.new_context(bypass_csp=True)
    opened = context.new_page()
    opened.goto(dummy.url)
    yield opened
    context.close()


def run(page, play: str, channels: int = 1) -> tuple[list, list[dict]]:
    result = page.evaluate(RIG, [play, channels])
    return result["out"], result["told"]


def test_silence_before_more_is_an_underrun_and_silence_at_the_end_is_none(page) -> None:
    play = "tell('begin'); block(3); push(200); block(3); push(100); block(2); tell('end'); block();"
    out, told = run(page, play)
    assert [m["kind"] for m in told] == ["started", "done"]
    assert (told[-1]["underruns"], told[-1]["silentFrames"], told[-1]["played"]) == (1, 3 * 128 - 200, 300)
    assert [i for i, sample in enumerate(out) if sample] == [*range(384, 584), *range(768, 868)]


def test_a_pause_between_two_utterances_is_no_underrun(page) -> None:
    play = "tell('begin'); push(128); block(3); tell('rest'); block(9); push(128); block(2); tell('end'); block();"
    _, told = run(page, play)
    assert [m["kind"] for m in told] == ["started", "rested", "started", "done"]
    assert told[-1]["underruns"] == 0


def test_stop_fades_within_one_block_and_drops_the_rest(page) -> None:
    play = "tell('begin'); push(4096); block(2); tell('stop'); block(4); push(4096); block(2);"
    out, told = run(page, play)
    assert out[:256] == [0.5] * 256
    assert all(a > b for a, b in pairwise(out[256:384]))
    assert not any(out[383:])
    assert told[-1]["kind"] == "stopped"


def test_a_track_that_buffers_waits_for_the_word_to_go_and_again_after_it_ran_dry(page) -> None:
    play = """tell('begin', { buffers: true }); push(128); block(2); tell('go'); block(2);
        push(64); block(2); push(64); tell('go'); block(1); tell('end'); block();"""
    out, told = run(page, play)
    assert [m["kind"] for m in told] == ["started", "dry", "done"]
    assert [i for i, sample in enumerate(out) if sample] == [*range(256, 384), *range(768, 896)]
    assert (told[-1]["underruns"], told[-1]["silentFrames"]) == (1, 3 * 128)


def test_a_pause_is_no_underrun_and_loses_no_sample(page) -> None:
    pause = "tell('pause', { paused: true }); block(3); tell('pause', { paused: false });"
    out, told = run(page, f"tell('begin'); push(512); block(2); {pause} block(2); tell('end'); block();")
    assert [sample for i, sample in enumerate(out) if sample and not 256 <= i < 384] == [0.5] * 512
    assert all(a > b for a, b in pairwise(out[256:384]))  # it fades out, and these samples come again
    assert (told[-1]["kind"], told[-1]["played"], told[-1]["underruns"]) == ("done", 512, 0)


def test_seeking_drops_what_was_queued_and_counts_from_there(page) -> None:
    seek = "tell('seek', { frame: 8000 });"
    out, told = run(page, f"tell('begin'); push(4096); block(2); {seek} block(2); push(128); tell('end'); block(2);")
    assert len([sample for sample in out if sample]) == 256 + 128
    assert (told[-1]["kind"], told[-1]["played"], told[-1]["underruns"]) == ("done", 8128, 0)


def test_playback_waits_for_as_much_as_the_pace_asks_for(page) -> None:
    needed = page.evaluate(
        """async () => {
            const { Buffering } = await import("/web/buffering.js");
            const after = (pace, arrivals, expectedS = 11) => {
                const buffering = new Buffering(expectedS, pace);
                arrivals.forEach(([ms, madeS]) => buffering.arrived(ms, madeS));
                return buffering.neededS;
            };
            const ended = new Buffering(11, 0.1);
            ended.end();
            const stalled = new Buffering(11, null);
            [[0, 1], [1000, 3]].forEach(([ms, madeS]) => stalled.arrived(ms, madeS));
            stalled.ranDry();
            return [after(null, [[0, 0.08]]), after(2, [[0, 0.08]]), after(null, [[0, 0.5], [1000, 1]]),
                    after(null, [[0, 0.5], [100, 1]]), after(0.5, [[0, 1]]), ended.neededS, stalled.neededS];
        }"""
    )
    unknown, fast, slow, quick, known_slow, ended, stalled = needed
    assert (unknown, fast, quick, ended) == (0.2, 0, 0, 0)
    assert (
        slow == known_slow == pytest.approx(10 * (1 / 0.45 - 1))
    )  # ten seconds to come, at half the pace and a bit less
    assert stalled == 1  # as long as the longest gap so far


def test_an_option_s_description_is_its_label_and_its_hint(page) -> None:
    shown = page.evaluate(
        """async () => {
            const { inWords } = await import("/web/options.js");
            const declared = { pause_s: "Silence between two sentences, up to 10 s.", top_k: "", fine: "No end here",
                               cfg: "Strength of guidance; 1 is none." };
            return Object.entries(declared).map(([name, text]) => Object.values(inWords(name, text)));
        }"""
    )
    assert shown == [
        ["Silence between two sentences (s)", "Up to 10 s."],
        ["Top k", ""],
        ["No end here", ""],
        ["Strength of guidance", "1 is none."],
    ]


def test_each_channel_gets_its_own_samples(page) -> None:
    (first, second), _ = run(page, "tell('begin'); push(100); push(156); block(2);", channels=2)
    assert first == second == [[0.5] * 128, [0.25] * 128]


def test_bytes_may_be_cut_inside_a_sample(page) -> None:
    put_together = page.evaluate(
        """async () => {
            const { SampleFrames } = await import("/web/pcm.js");
            const bytes = Uint8Array.from({ length: 24 }, (_, i) => i + 1);
            return [1, 2].map((channels) => [1, 3, 5, 7].map((size) => {
                const frames = new SampleFrames(channels), out = [];
                for (let at = 0; at < bytes.length; at += size) {
                    const piece = frames.push(bytes.slice(at, at + size));
                    if (piece.length % channels) throw new Error("a frame was cut");
                    out.push(...piece);
                }
                return out;
            }));
        }"""
    )
    whole = np.frombuffer(bytes(range(1, 25)), "<i2").tolist()
    assert put_together == [[whole] * 4] * 2


def test_percentiles_are_those_of_the_buckets(page) -> None:
    found = page.evaluate(
        """async () => {
            const { Scrape } = await import("/web/prometheus.js");
            const text = ['h_bucket{le="1.0"} 50', 'h_bucket{le="2.0"} 90', 'h_bucket{le="4.0"} 100', '# HELP r',
                'h_bucket{le="+Inf"} 100', 'r{outcome="a\\\\"b"} 2', 'r{outcome="c"} 3'].join("\\n");
            const scrape = new Scrape(text), h = scrape.histogram("h");
            const none = scrape.histogram("nothing").quantile(0.5) ?? null;
            return [h.quantile(0.25), h.quantile(0.5), h.quantile(0.9), h.quantile(0.95), none, scrape.sum("r")];
        }"""
    )
    assert found == [0.5, 1, 2, 3, None, 5]


def test_a_blend_goes_from_one_voice_to_the_other(page) -> None:
    blends = page.evaluate(
        """async () => {
            const { between } = await import("/web/blend.js");
            return [0, 0.5, 1].map((share) => between([3, 0, 0], [0, 1, 0], share));
        }"""
    )
    np.testing.assert_allclose(blends, [[3, 0, 0], [2**0.5, 2**0.5, 0], [0, 1, 0]], atol=1e-12)


def test_a_word_can_be_mended_until_it_is_sent_and_what_was_sent_is_not_sent_again(page) -> None:
    sent = page.evaluate(
        """async () => {
            const { Typing } = await import("/web/typing.js");
            const typing = new Typing();
            const written = [["On", false], ["One tq", false], ["One t", false], ["One two", true],
                             ["One two", true], ["Un deux", true], ["Un deux trois", true]];
            return written.map(([text, all]) => typing.next(text, all));
        }"""
    )
    assert sent == ["", "One ", "", "two", "", "", " trois"]


def test_what_is_on_its_way_when_a_conversation_is_cancelled_is_not_heard(page) -> None:
    heard = page.evaluate(
        """async () => {
            const { Conversation } = await import("/web/conversation.js");
            const real = globalThis.WebSocket, sent = [], heard = [];
            let wire;
            globalThis.WebSocket = class {
                static OPEN = 1;
                readyState = 1;
                constructor() { wire = this; }
                send(text) { sent.push(JSON.parse(text).type); }
            };
            const none = () => {};
            const listener = { audio: (bytes) => heard.push(bytes[0]), started: none, ended: none, failed: none };
            const conversation = new Conversation({}, listener);
            const arrive = (byte) => wire.onmessage({ data: Uint8Array.of(byte).buffer });
            conversation.say("Hello");
            arrive(1);
            conversation.cancel();
            arrive(2);
            wire.onmessage({ data: '{"type": "session.cancelled"}' });
            arrive(3);
            globalThis.WebSocket = real;
            return [heard, sent];
        }"""
    )
    assert heard == [[1, 3], ["input.text", "input.cancel"]]

"""The counting inside the audio graph, block by block."""

from collections.abc import Callable
from itertools import pairwise

from e2e.serve.running import Running
from e2e.web.browsing import Visit

Open = Callable[..., Visit]

# The processor outside of its thread, so that every block comes when the test says so.
RIG = """async (play) => {
    let Processor;
    globalThis.AudioWorkletProcessor = class { port = { postMessage: (m) => told.push(m) } };
    globalThis.registerProcessor = (_, kind) => { Processor = kind; };
    globalThis.currentTime = 0;
    const told = [];
    await import("/web/worklets/playback.js");
    const processor = new Processor(), out = [];
    const tell = (kind, fields) => processor.port.onmessage({ data: { kind, track: 1, ...fields } });
    const block = (count = 1) => { for (; count; count -= 1) {
        const output = [new Float32Array(128)];
        processor.process([], [output]);
        out.push(...output[0]);
    } };
    const push = (frames, level = 16384) => tell("push", { samples: new Int16Array(frames).fill(level) });
    new Function("tell", "block", "push", play)(tell, block, push);
    return { out, told };
}"""


def run(visit: Open, dummy: Running, play: str) -> tuple[list[float], list[dict]]:
    result = visit(dummy).page.evaluate(RIG, play)
    return result["out"], result["told"]


def test_silence_before_more_is_an_underrun_and_silence_at_the_end_is_none(visit: Open, dummy: Running) -> None:
    play = "tell('begin'); block(3); push(200); block(3); push(100); block(2); tell('end'); block();"
    out, told = run(visit, dummy, play)
    assert [m["kind"] for m in told] == ["started", "done"]
    assert (told[-1]["underruns"], told[-1]["silentFrames"], told[-1]["played"]) == (1, 3 * 128 - 200, 300)
    assert [i for i, sample in enumerate(out) if sample] == [*range(384, 584), *range(768, 868)]


def test_a_pause_between_two_utterances_is_no_underrun(visit: Open, dummy: Running) -> None:
    play = "tell('begin'); push(128); block(3); tell('rest'); block(9); push(128); block(2); tell('end'); block();"
    _, told = run(visit, dummy, play)
    assert [m["kind"] for m in told] == ["started", "started", "done"]
    assert told[-1]["underruns"] == 0


def test_stop_fades_within_one_block_and_drops_the_rest(visit: Open, dummy: Running) -> None:
    play = "tell('begin'); push(4096); block(2); tell('stop'); block(4); push(4096); block(2);"
    out, told = run(visit, dummy, play)
    assert out[:256] == [0.5] * 256
    assert all(a > b for a, b in pairwise(out[256:384]))
    assert not any(out[383:])
    assert told[-1]["kind"] == "stopped"

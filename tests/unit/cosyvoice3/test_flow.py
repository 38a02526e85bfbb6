"""The flow: equal to upstream in one pass, and equal to one pass in chunks."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from fuzzing import fuzzed
from rhapsode.errors import CheckpointError, InvalidRequest
from rhapsode.models.cosyvoice3.flow.net import fixed_noise
from rhapsode.models.cosyvoice3.flow.parts import flow_net
from rhapsode.models.cosyvoice3.flow.prompt import flow_prompt
from rhapsode.models.cosyvoice3.flow.settings import FlowSettings
from rhapsode.nn import attention
from rhapsode.nn.flow import cosine_times, euler_steps
from tiny.cosyvoice3_sound import TinySound, flow_section, flow_tensors
from unit.cosyvoice3.sound import FlowStream, context, flow, golden, in_memory, voice_of, whole

CASES = ("preset", "very_short")
TOLERANCE = 1e-4  # of the largest value
TINY = TinySound()


def tokens_of(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, TINY.tokens, count)


def close(one: torch.Tensor, other: np.ndarray | torch.Tensor, tolerance: float) -> bool:
    other = torch.as_tensor(other)
    return one.shape == other.shape and float((one - other).abs().max()) <= tolerance * float(other.abs().max())


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.inference_mode():
        yield


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("masked", [True, False], ids=["masked", "unmasked"])
def test_one_pass_equals_upstream(case, masked):
    found, net = golden(f"flow-{case}"), flow("float32", upstream=True)
    made = whole(net, found, found["token"], masked=masked)
    assert close(made.T, found["mel_stream" if masked else "mel_full"], TOLERANCE)


@pytest.mark.parametrize("case", CASES)
def test_chunks_equal_upstreams_masked_pass(case):
    found = golden(f"flow-{case}")
    made = FlowStream(flow("float32", upstream=True), found).all(found["token"])
    assert close(made.T, found["mel_stream"], TOLERANCE)


def test_the_times_are_upstreams():
    times = [step.time for step in euler_steps(cosine_times(10, torch.float32))]
    assert np.array_equal(np.array(times, np.float32), golden("flow-preset")["t"])


@fuzzed(12)
@given(prompt=st.integers(0, 14), spoken=st.integers(1, 19), seed=st.integers(0, 99))
def test_chunks_equal_one_pass_for_every_prompt(prompt, spoken, seed):
    net, voice, tokens = flow(), voice_of(TINY, prompt, seed), tokens_of(spoken, seed)
    made = FlowStream(net, voice).all(tokens)
    assert close(made, whole(net, voice, tokens), 1e-8)


def test_a_chunk_needs_no_more_than_its_lookahead():
    net, voice = flow(), voice_of(TINY, 7)
    tokens = tokens_of(12)
    stream = FlowStream(net, voice)
    pad = -7 % TINY.chunk_tokens
    first = stream.next(tokens[: pad + 3])
    assert close(first, whole(net, voice, tokens)[: 2 * pad], 1e-8)


def test_a_token_changes_no_chunk_that_ended_before_its_lookahead():
    net, voice, tokens = flow(), voice_of(TINY, 0), tokens_of(16)
    changed = tokens.copy()
    changed[11] = (changed[11] + 1) % TINY.tokens
    before, after = (FlowStream(net, voice).all(each) for each in (tokens, changed))
    same = (before == after).all(1)
    assert bool(same[:16].all())
    assert not bool(same[16:].any())


@pytest.mark.slow
def test_the_weight_products_of_a_chunk_are_the_same_for_every_chunk():
    def count(call) -> dict[str, int]:
        with FlopCounterMode(display=False) as counter:
            call()
        return {str(op): n for op, n in counter.get_flop_counts()["Global"].items()}

    stream, tokens = FlowStream(flow(), voice_of(TINY, 3)), tokens_of(40)
    counts = [count(lambda: stream.next(tokens)) for _ in range(8)]
    products = [{op: n for op, n in each.items() if op != "aten.bmm"} for each in counts]
    assert products[0]
    assert all(each == products[0] for each in products)
    attended = [each["aten.bmm"] for each in counts]
    growth = np.diff(attended)
    assert growth.min() == growth.max() > 0  # only attention grows, by the keys and values of one chunk


def test_a_chunk_asks_nothing_of_its_values_where_that_would_mean_waiting(monkeypatch):
    stream = FlowStream(flow("float32"), voice_of(TINY, 6))
    monkeypatch.setattr(attention, "_used_pages", lambda pages, positions, page_size: pages)  # as on a GPU
    with FakeTensorMode(allow_non_fake_inputs=True):
        made = stream.next(tokens_of(9))
        with pytest.raises(DataDependentOutputException):
            made.sum().item()


def test_looking_at_all_pages_gives_the_same_frames(monkeypatch):
    voice, tokens = voice_of(TINY, 6), tokens_of(17)
    expected = FlowStream(flow(), voice).all(tokens)
    monkeypatch.setattr(attention, "_used_pages", lambda pages, positions, page_size: pages)
    assert close(FlowStream(flow(), voice).all(tokens), expected, 1e-12)


def test_the_noise_is_upstreams_buffer():
    torch.manual_seed(0)
    assert torch.equal(fixed_noise(80), torch.randn(1, 80, 15_000)[0].T)


def test_prompt_chunks_have_the_content_that_decides_them():
    voice, settings_ = voice_of(TINY, 14), FlowSettings.of(flow_section(TINY))

    def content(**changes) -> np.ndarray:
        given_ = voice | changes
        made = flow_prompt(settings_, given_["prompt_token"], given_["prompt_mel"], given_["embedding"], 9)
        assert made.content is not None
        assert len(made.content) == made.length == 16
        return made.content

    tokens, mel = voice["prompt_token"].copy(), voice["prompt_mel"].copy()
    tokens[10] += 1  # the look-ahead of the second chunk
    mel[15] += 1
    for changed in (content(prompt_token=tokens), content(prompt_mel=mel), content(embedding=voice["embedding"] + 1)):
        assert not np.array_equal(changed, content())
    later = voice["prompt_token"].copy()
    later[11] += 1
    assert np.array_equal(content(prompt_token=later % TINY.tokens), content())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prompt_mel": np.zeros((3, TINY.mel), np.float32)}, "needs 10 mel frames, not 3"),
        ({"embedding": np.zeros(3, np.float32)}, "has 10 numbers, not 3"),
        ({"prompt_token": np.full(5, 40)}, "from 0 to 39"),
    ],
)
def test_a_wrong_voice_is_an_error(changes, said):
    voice = voice_of(TINY, 5) | changes
    with pytest.raises(InvalidRequest, match=said):
        flow_prompt(flow().settings, voice["prompt_token"], voice["prompt_mel"], voice["embedding"], 9)


@pytest.mark.parametrize(
    ("name", "said"), [("decoder.estimator.proj_out.bias", "lacks"), ("decoder.estimator.extra", "nothing here uses")]
)
def test_tensors_are_loaded_strictly_by_name(name, said):
    tensors = flow_tensors(TINY)
    if name in tensors:
        del tensors[name]
    else:
        tensors[name] = np.zeros(1, np.float32)
    with pytest.raises(CheckpointError, match=f"{said} the tensor '{name}'"):
        flow_net(FlowSettings.of(flow_section(TINY)), context(), lambda: in_memory(tensors))


def test_a_section_without_a_size_is_an_error():
    section = flow_section(TINY)
    del section["decoder"]["estimator"]["depth"]
    with pytest.raises(CheckpointError, match="'depth' is missing from the section 'flow'"):
        FlowSettings.of(section)

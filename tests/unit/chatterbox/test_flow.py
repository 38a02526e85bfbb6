"""The flow: equal to upstream, whatever else is in the batch, and a function of the tokens alone in both schemes."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from fuzzing import fuzzed
from rhapsode.checkpoints.weights import TensorsInMemory
from rhapsode.errors import CheckpointError, InvalidRequest
from rhapsode.models.chatterbox.flow import voices
from rhapsode.models.chatterbox.flow.net import FlowSequences, noise_of
from rhapsode.models.chatterbox.flow.parts import s3_flow_net
from rhapsode.models.chatterbox.flow.prompt import s3_flow_prompt
from rhapsode.nn.ragged import Ragged
from rhapsode.nn.relative_attention import by_distance
from tiny import chatterbox_s3gen as tiny_s3gen
from tiny import weights
from unit.chatterbox.s3gen import (
    GOLDEN,
    TINY,
    FlowRequests,
    context,
    flow,
    golden,
    noise,
    one_pass,
    tensors,
    tokens_of,
    voice_of,
)

CASES = [
    ("original", "whole", 10),
    ("original", "4-steps", 4),
    ("original", "unfinished", 10),
    ("turbo", "whole", 2),
    ("turbo", "1-step", 1),
    ("turbo", "unfinished", 2),
]
MU, MEL = 3e-6, 1.5e-5
BLOCK = 4


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.inference_mode():
        yield


def largest(one: torch.Tensor, other: np.ndarray | torch.Tensor) -> float:
    other = torch.as_tensor(other)
    assert one.shape == other.shape
    return float((one - other).abs().max())


@pytest.mark.parametrize("variant", TINY)
def test_the_tiny_tensors_are_those_of_the_golden_data(variant):
    made = {name: each for name, each in tiny_s3gen.s3gen_tensors(TINY[variant]).items() if "tokenizer._" not in name}
    found = weights.digest(made | tiny_s3gen.voice_tensors(TINY[variant]))
    assert found == str(golden(f"s3gen-{variant}")["digest"])


@pytest.mark.parametrize(("variant", "case", "steps"), CASES)
def test_one_pass_equals_upstream(variant, case, steps):
    found, voice = golden(f"s3gen-{variant}"), golden(f"reference-{variant}")
    net = flow(variant, "float32", steps if "step" in case else None)
    ids = torch.from_numpy(np.concatenate([voice["prompt_token"][0], found["tokens"]]))[None]
    most, new = ids.shape[1], 2 * len(found["tokens"])
    unsolved = 3 if case == "unfinished" else 0
    frames = 2 * (most - unsolved)
    start = voice["prompt_feat"].shape[1]
    mel = torch.zeros(1, 2 * most, tiny_s3gen.MEL)
    mel[0, :start] = torch.from_numpy(voice["prompt_feat"][0])
    drawn = noise((1, tiny_s3gen.MEL, frames), 1)
    if variant == "turbo":
        drawn[..., -new:] = noise((1, tiny_s3gen.MEL, new), 2)
    given_noise = torch.nn.functional.pad(torch.from_numpy(drawn), (0, 2 * unsolved)).transpose(1, 2)
    ragged = Ragged.of(torch.tensor([most]), most, is_full=True)
    speaker = net.conditions.speaker(torch.from_numpy(voice["embedding"]))
    assert largest(speaker[0], found["spk"]) < 1e-6
    if f"mu-{case}" in found:
        mu = net.conditions.tokens(ids, ragged)[0, :frames]
        assert largest(mu[::6].T, found[f"mu-{case}"]) < MU
    made = net(FlowSequences(ids, ragged, mel, speaker, given_noise, torch.tensor([unsolved]) if unsolved else None))
    assert largest(made[0, start:frames].T, found[f"mel-{case}"]) < MEL


@pytest.mark.parametrize("variant", TINY)
@pytest.mark.parametrize("block", [None, BLOCK], ids=["whole", "prefix"])
def test_neither_padding_nor_neighbours_change_a_request(variant, block):
    net = flow(variant)
    given_voices, tokens = [voice_of(n, n) for n in (5, 0, 9)], [tokens_of(n, n) for n in (7, 12, 3)]
    together = FlowRequests(net, given_voices, 12, block).all(tokens)
    for voice, each, made in zip(given_voices, tokens, together, strict=True):
        alone = FlowRequests(net, [voice], 12, block).all([each])[0]
        assert largest(made, alone) < 1e-10


@pytest.mark.parametrize("variant", TINY)
def test_an_estimator_in_half_precision_is_close(variant):
    voice, tokens = voice_of(9), tokens_of(11)
    exact, half = (FlowRequests(flow(variant, each), [voice], 20).all([tokens])[0] for each in ("float32", "bfloat16"))
    assert half.dtype == torch.float32
    assert 0 < largest(half, exact) < 0.08  # the frames have a deviation of 1.2


@pytest.mark.parametrize("variant", TINY)
def test_a_segment_is_one_pass(variant):
    net, voice, tokens = flow(variant), voice_of(6), tokens_of(11)
    assert largest(FlowRequests(net, [voice], 20).all([tokens])[0], one_pass(net, voice, tokens)) < 1e-10


def test_a_frame_of_one_pass_depends_on_the_last_token():
    net, voice, tokens = flow("turbo"), voice_of(6), tokens_of(11)
    changed = tokens.copy()
    changed[-1] = (changed[-1] + 1) % tiny_s3gen.SPEECH_CODES
    before, after = (FlowRequests(net, [voice], 20).all([each])[0] for each in (tokens, changed))
    assert bool((before != after).any(1).all())


@fuzzed(12)
@given(prompt=st.integers(0, 9), spoken=st.integers(1, 23), data=st.data())
def test_however_tokens_arrive_a_prefix_solve_has_the_same_frames(prompt, spoken, data):
    """Frames of a block are those of one pass up to three tokens after its end; those three get none."""
    net, voice, tokens = flow("turbo"), voice_of(prompt, prompt), tokens_of(spoken, spoken)
    expected = []
    for start in range(0, spoken, BLOCK):
        end = start + BLOCK + 3
        made = one_pass(net, voice, tokens[:end], 3 if end <= spoken else 0)
        expected.append(made[2 * start : 2 * (start + BLOCK)])
    launches = data.draw(st.lists(st.integers(1, 4), max_size=6))
    made = FlowRequests(net, [voice], 23, BLOCK).all([tokens], launches)[0]
    assert largest(made, torch.cat(expected)) < 1e-10


def test_a_block_waits_for_no_more_than_its_lookahead():
    net, voice, tokens = flow("turbo"), voice_of(4), tokens_of(20)
    early = FlowRequests(net, [voice], 20, BLOCK).next([tokens[: BLOCK + 3]])[0]
    late = FlowRequests(net, [voice], 20, BLOCK).all([tokens])[0][: 2 * BLOCK]
    assert largest(early, late) < 1e-12


@pytest.mark.parametrize("block", [None, BLOCK], ids=["whole", "prefix"])
def test_a_launch_of_the_longest_length_makes_the_same_frames(block, monkeypatch):
    net, voice, tokens = flow("turbo"), voice_of(4), tokens_of(10)
    expected = FlowRequests(net, [voice], 12, block).all([tokens])[0]
    monkeypatch.setattr(voices, "longest", lambda lengths, bound: bound)  # as on a GPU
    made = FlowRequests(net, [voice], 12, block).all([tokens])[0]
    assert largest(made, expected) < 1e-10


@pytest.mark.parametrize("block", [None, BLOCK], ids=["whole", "prefix"])
def test_a_launch_asks_nothing_of_its_values_where_that_would_mean_waiting(block, monkeypatch):
    requests = FlowRequests(flow("original", "float32"), [voice_of(4)], 12, block)
    monkeypatch.setattr(voices, "longest", lambda lengths, bound: bound)  # as on a GPU
    with FakeTensorMode(allow_non_fake_inputs=True):
        made = requests.next([tokens_of(10)])
        with pytest.raises(DataDependentOutputException):
            made.sum().item()


def test_noise_depends_on_the_seed_and_the_position_alone():
    like = torch.zeros(80)
    long, short = (noise_of(torch.tensor([3, 4]), frames, like) for frames in (9, 5))
    assert torch.equal(long[:, :5], short)
    assert not torch.equal(long[0], long[1])
    assert not torch.equal(long[0, 0], long[0, 1])


def test_scores_by_distance_become_scores_by_key():
    length = 4
    distance = torch.arange(length - 1, -length, -1.0).expand(2, length, -1)
    place = torch.arange(4.0)
    assert torch.equal(by_distance(distance), (place[:, None] - place).expand(2, -1, -1))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mel": np.zeros((9, 80), np.float32)}, r"needs 10 mel frames of 80 numbers, not \[9, 80\]"),
        ({"mel": np.zeros((10, 12), np.float32)}, "of 80 numbers"),
        ({"embedding": np.zeros(3, np.float32)}, "has 192 numbers, not 3"),
        ({"tokens": np.full(5, 6561)}, "from 0 to 6560"),
        ({"tokens": np.zeros(251, np.int64), "mel": np.zeros((502, 80), np.float32)}, "at most 250 tokens"),
    ],
)
def test_a_wrong_voice_is_an_error(changes, said):
    voice = voice_of(5) | changes
    with pytest.raises(InvalidRequest, match=said):
        s3_flow_prompt(flow().sizes, voice["tokens"], voice["mel"], voice["embedding"])


def test_a_mel_frame_beyond_the_tokens_is_cut():
    voice = voice_of(5)
    longer = np.concatenate([voice["mel"], voice["mel"][:1]])
    made = s3_flow_prompt(flow().sizes, voice["tokens"], longer, voice["embedding"])
    assert np.array_equal(made.mel, voice["mel"])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("flow.encoder_proj.bias", "lacks the tensor 'flow.encoder_proj.bias'"),
        ("flow.decoder.estimator.time_mlp.linear_1.weight", "lacks the tensor"),
        ("flow.decoder.estimator.extra", "nothing here uses the tensor"),
        ("flow.encoder.extra", "nothing here uses the tensor"),
    ],
)
def test_tensors_are_loaded_strictly_by_name(name, said):
    found = {each: tensors("original").read(each) for each in tensors("original")}
    if found.pop(name, None) is None:
        found[name] = torch.zeros(1)
    with pytest.raises(CheckpointError, match=said):
        s3_flow_net(context(), lambda: TensorsInMemory(GOLDEN / "tensors", found))

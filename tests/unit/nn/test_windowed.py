"""The windowed transformer: what a slot carries is all that later positions can see."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.derived import derive
from rhapsode.nn.rope import RopeConfig
from rhapsode.nn.windowed import WindowedTransformer, alibi_slopes

SLOTS, WINDOW, LENGTH = 4, 5, 24


def make(
    window: int | None = WINDOW, layers: int = 2, kv_heads: int = 4, alibi: bool = False, **options
) -> WindowedTransformer:
    torch.manual_seed(0)
    rope = None if alibi else RopeConfig(8)
    config = DecoderConfig(16, 32, layers, heads=4, kv_heads=kv_heads, head_dim=8, rope=rope, **options)
    net = WindowedTransformer(config, window, alibi_slopes(4) if alibi else None).requires_grad_(False)
    for parameter in net.parameters():  # not `.double()`: the angles stay in float32, as they are for a loaded model
        parameter.data = parameter.data.double()
    derive(net)
    return net


def noise(rows: int = 1, length: int = LENGTH) -> torch.Tensor:
    return torch.randn(rows, length, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


WAYS = {
    "rope": {},
    "grouped": {"kv_heads": 2},
    "alibi": {"alibi": True},
    "alibi with norms of all heads": {"alibi": True, "qk_norm": True, "qk_norm_width": "all heads", "kv_heads": 2},
}


@pytest.mark.parametrize("way", WAYS)
@given(chunks=st.lists(st.integers(1, 2 * WINDOW + 1), max_size=LENGTH))
def test_any_cut_gives_what_one_pass_gives(way: str, chunks: list[int]):
    net, x, start = make(**WAYS[way]), noise(), 0
    state, slots, out = net.state(SLOTS), torch.tensor([1]), []
    for length in (*chunks, LENGTH):
        out.append(net(x[:, start : start + length], slots, state) if start < LENGTH else x[:, :0])
        start += length
    torch.testing.assert_close(torch.cat(out, dim=1), net(x), rtol=0, atol=1e-12)


def test_a_position_sees_itself_and_a_window_less_one_before_it():
    net, x = make(layers=1), noise()
    before = net(x)[0, 12]
    for age in range(12):
        changed = x.clone()
        changed[0, 12 - age] += 1.0
        assert torch.equal(net(changed)[0, 12], before) == (age >= WINDOW)


def test_without_a_window_all_of_the_past_is_seen_and_nothing_streams():
    net, x = make(window=None, layers=1), noise()
    changed = x.clone()
    changed[0, 0] += 1.0
    assert not torch.equal(net(changed)[0, -1], net(x)[0, -1])
    torch.testing.assert_close(net(x)[:, :7], net(x[:, :7]), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="window"):
        net.state(SLOTS)


def test_rows_at_different_positions_share_a_launch():
    net, x = make(), noise(rows=2)
    state = net.state(SLOTS)
    net(x[:1, :9], torch.tensor([2]), state)
    both = net(torch.stack([x[0, 9:13], x[1, :4]]), torch.tensor([2, 0]), state)
    torch.testing.assert_close(both[0], net(x[:1])[0, 9:13], rtol=0, atol=1e-12)
    torch.testing.assert_close(both[1], net(x[1:])[0, :4], rtol=0, atol=1e-12)


def test_a_cleared_slot_counts_from_zero_again():
    net, x = make(), noise()
    state, slots = net.state(SLOTS), torch.tensor([3])
    net(x, slots, state)
    state.clear(slots)
    torch.testing.assert_close(net(x[:, :3], slots, state), net(x[:, :3]), rtol=0, atol=1e-12)
    assert state.position.tolist() == [0, 0, 0, 3, 0]


def test_alibi_lowers_scores_by_distance_and_slope():
    """Against attention written out: softmax of scores plus slope times the negative distance, over the window."""
    net, x = make(layers=1, alibi=True, qk_norm=True, qk_norm_width="all heads", qk_norm_eps=0.5), noise(length=9)
    attention = net.layers[0].self_attn
    query, key, value = (x @ attention.qkv.weight.T).split(attention.qkv.sizes, dim=-1)
    query, key = query / (query.square().mean(-1, True) + 0.5).sqrt(), key / (key.square().mean(-1, True) + 0.5).sqrt()
    query, key, value = (part[0].unflatten(-1, (4, 8)).transpose(0, 1) for part in (query, key, value))
    place = torch.arange(9)
    age = place[:, None] - place
    scores = query @ key.transpose(1, 2) * 8**-0.5 - alibi_slopes(4).double()[:, None, None] * age
    scores = scores.masked_fill((age < 0) | (age >= WINDOW), float("-inf"))
    expected = (scores.softmax(-1) @ value).transpose(0, 1).flatten(1) @ attention.o_proj.weight.T

    found = []
    attention.register_forward_hook(lambda module, given, output: found.append(output))
    net.layers[0].input_layernorm = torch.nn.Identity()
    net(x)
    torch.testing.assert_close(found[0][0], expected, rtol=0, atol=1e-6)  # norms are computed in float32


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [(4, [1, 2**-2, 2**-4, 2**-6]), (1, [1]), (6, [1, 2**-2, 2**-4, 2**-6, 1, 2**-2])],
)
def test_the_first_slope_is_one(heads: int, slopes: list[float]):
    assert alibi_slopes(heads).tolist() == slopes
    assert alibi_slopes(8).tolist() == [2.0**-i for i in range(8)]

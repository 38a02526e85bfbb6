"""Streaming convolutions: however the input is cut and whoever else is in the batch, the samples are the same."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.device.state import State
from rhapsode.nn.derived import derive
from rhapsode.nn.streaming import CausalConv1d, CausalConvTranspose1d, Streaming, StreamingChain, _unfolded, convolve

SLOTS = 4
CONVS = {
    "plain": lambda: CausalConv1d(4, 6, 3),
    "dilated": lambda: CausalConv1d(4, 4, 7, dilation=9),
    "depthwise": lambda: CausalConv1d(4, 4, 7, groups=4),
    "grouped": lambda: CausalConv1d(4, 6, 3, groups=2),
    "pointwise": lambda: CausalConv1d(4, 6, 1),
    "without bias": lambda: CausalConv1d(4, 6, 5, bias=False),
    "replicate": lambda: CausalConv1d(4, 6, 5, pad_mode="replicate"),
    "replicate dilated": lambda: CausalConv1d(4, 6, 3, dilation=2, pad_mode="replicate"),
    "transposed without bias": lambda: CausalConvTranspose1d(4, 3, 4, 2, bias=False),
    "transposed with overlap": lambda: CausalConvTranspose1d(4, 3, 6, 3),
    "transposed without": lambda: CausalConvTranspose1d(4, 3, 2, 2),
    "transposed over many": lambda: CausalConvTranspose1d(4, 3, 7, 2),
    "chain": lambda: StreamingChain(CausalConv1d(4, 5, 3), torch.nn.ELU(), CausalConvTranspose1d(5, 2, 4, 2)),
}


def make(kind: str, dtype: torch.dtype = torch.float64) -> Streaming:
    torch.manual_seed(0)
    module = CONVS[kind]().to(dtype).requires_grad_(False)
    derive(module)
    return module


def stream(module: Streaming, x: torch.Tensor, lengths: list[int], slots: torch.Tensor, state: State) -> torch.Tensor:
    return torch.cat([module(chunk, slots, state) for chunk in x.split(lengths, dim=-1)], dim=-1)


def cuts(total: int) -> st.SearchStrategy[list[int]]:
    points = st.sets(st.integers(1, total - 1)).map(sorted)
    return points.map(lambda at: [b - a for a, b in zip([0, *at], [*at, total], strict=True)])


@pytest.mark.parametrize("kind", CONVS)
@given(lengths=cuts(40))
def test_any_cut_of_the_input_gives_the_samples_of_one_pass(kind: str, lengths: list[int]):
    module = make(kind)
    x = torch.randn(1, 4, 40, dtype=torch.float64)
    streamed = stream(module, x, lengths, torch.tensor([2]), module.state(SLOTS))
    torch.testing.assert_close(streamed, module(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", CONVS)
def test_rows_of_a_batch_go_on_from_where_each_of_them_was(kind: str):
    module, state = make(kind), (make(kind)).state(SLOTS)
    x = torch.randn(2, 4, 30, dtype=torch.float64)
    early = module(x[:1, :, :11], torch.tensor([3]), state)
    both = module(torch.cat([x[:1, :, 11:20], x[1:, :, :9]]), torch.tensor([3, 0]), state)
    first = torch.cat([early, both[:1]], dim=-1)
    torch.testing.assert_close(first, module(x[:1, :, :20]), rtol=0, atol=1e-12)
    torch.testing.assert_close(both[1:], module(x[1:, :, :9]), rtol=0, atol=1e-12)


def test_a_cleared_slot_starts_afresh_and_its_neighbours_go_on():
    module = make("dilated")
    state, x = module.state(SLOTS), torch.randn(2, 4, 16, dtype=torch.float64)
    module(x[..., :8], torch.tensor([0, 1]), state)
    state.clear(torch.tensor([1]))
    again = module(x[..., 8:], torch.tensor([0, 1]), state)
    torch.testing.assert_close(again[0], module(x)[0, :, 8:], rtol=0, atol=1e-12)
    torch.testing.assert_close(again[1], module(x[..., 8:])[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("kernel", "stride"), [(6, 3), (2, 2), (7, 2), (5, 4)])
def test_a_transposed_convolution_is_torchs_without_what_follows_the_last_input(kernel: int, stride: int):
    module = CausalConvTranspose1d(4, 3, kernel, stride).double().requires_grad_(False)
    derive(module)
    x = torch.randn(2, 4, 9, dtype=torch.float64)
    expected = F.conv_transpose1d(x, module.conv.weight, module.conv.bias, stride)[..., : 9 * stride]
    torch.testing.assert_close(module(x), expected, rtol=0, atol=1e-12)


def test_a_sample_gets_its_bias_once():
    module = CausalConvTranspose1d(4, 3, 6, 3).requires_grad_(False)
    module.conv.weight.zero_()
    derive(module)
    out = stream(module, torch.randn(1, 4, 5), [1, 1, 3], torch.tensor([0]), module.state(SLOTS))
    assert torch.equal(out, module.conv.bias[:, None].expand(1, 3, 15))


@pytest.mark.parametrize(("length", "frames"), [(1, 1), (3, 1), (4, 2), (7, 3)])
def test_a_strided_convolution_pads_its_end_to_a_whole_step(length: int, frames: int):
    assert CausalConv1d(1, 1, 6, stride=3)(torch.randn(1, 1, length)).shape[-1] == frames


def test_a_strided_convolution_streams_in_whole_steps():
    module = CausalConv1d(2, 3, 6, stride=3).double().requires_grad_(False)
    x = torch.randn(1, 2, 21, dtype=torch.float64)
    streamed = stream(module, x, [3, 12, 6], torch.tensor([1]), module.state(SLOTS))
    torch.testing.assert_close(streamed, module(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("lengths", [[40], [7, 33], [8, 8, 8, 16], [20, 13, 7]])
def test_reflect_padding_streams_in_chunks_longer_than_it(lengths: list[int]):
    module = CausalConv1d(4, 6, 7, pad_mode="reflect").double().requires_grad_(False)
    x = torch.randn(2, 4, 40, dtype=torch.float64)
    expected = F.conv1d(F.pad(x, (6, 0), "reflect"), module.conv.weight, module.conv.bias)
    state, slots = module.state(SLOTS), torch.tensor([2, 0])
    torch.testing.assert_close(module(x), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(stream(module, x, lengths, slots, state), expected, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="more than 6"):
        module(x[..., :6], slots, state)


@pytest.mark.parametrize("mode", ["replicate", "reflect"])
def test_a_cleared_slot_is_padded_again_and_its_neighbours_are_not(mode: str):
    module = CausalConv1d(4, 4, 5, pad_mode=mode).double().requires_grad_(False)
    state, x = module.state(SLOTS), torch.randn(2, 4, 16, dtype=torch.float64)
    module(x[..., :8], torch.tensor([0, 1]), state)
    state.clear(torch.tensor([1]))
    again = module(x[..., 8:], torch.tensor([0, 1]), state)
    torch.testing.assert_close(again[0], module(x)[0, :, 8:], rtol=0, atol=1e-12)
    torch.testing.assert_close(again[1], module(x[..., 8:])[1], rtol=0, atol=1e-12)


def test_an_input_too_short_to_reflect_is_followed_by_zeros():
    module = CausalConv1d(1, 1, 4, bias=False, pad_mode="reflect").requires_grad_(False)
    module.conv.weight.copy_(torch.tensor([[[1.0, 10.0, 100.0, 1000.0]]]))
    assert module(torch.tensor([[[1.0, 2.0]]])).tolist() == [[[1200.0, 2120.0]]]  # padded: 0 0 2 | 1 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_state_and_samples_have_the_weights_type(dtype: torch.dtype):
    module = make("chain", dtype)
    state = module.state(SLOTS)
    assert {tensor.dtype for tensor in state.tensors()} == {dtype}
    assert module(torch.randn(1, 4, 3, dtype=dtype), torch.tensor([0]), state).dtype == dtype


@pytest.mark.parametrize(
    ("inputs", "outputs", "kernel", "dilation", "groups"),
    [(4, 6, 3, 2, 1), (4, 4, 7, 1, 4), (1, 4, 3, 1, 1), (4, 1, 3, 1, 1), (8, 4, 3, 1, 4), (4, 8, 3, 1, 4)],
)
def test_convolve_is_torchs_convolution(inputs: int, outputs: int, kernel: int, dilation: int, groups: int):
    x = torch.randn(3, 30, inputs, dtype=torch.float64).transpose(1, 2)  # not contiguous
    weight = torch.randn(outputs, inputs // groups, kernel, dtype=torch.float64)
    bias = torch.randn(outputs, dtype=torch.float64)
    expected = F.conv1d(x, weight, bias, dilation=dilation, groups=groups)
    torch.testing.assert_close(convolve(x, weight, bias, dilation, groups), expected, rtol=0, atol=1e-12)
    if groups == 1:
        torch.testing.assert_close(_unfolded(x, weight, bias, dilation), expected, rtol=0, atol=1e-12)

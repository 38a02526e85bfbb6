"""The convolution kernels do what the modules do, whatever is fused in and wherever rows begin."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.nn import kernels
from rhapsode.nn.derived import derive
from rhapsode.nn.kernels.grouped_conv import grouped_mish_conv
from rhapsode.nn.norm import rms_norm
from rhapsode.nn.snake import SnakeBeta
from rhapsode.nn.streaming import CausalConv1d, CausalConvTranspose1d, TailState, extend

gpu = pytest.importorskip("rhapsode.nn.kernels.gpu.conv", reason="needs Triton")
depthwise_norm = pytest.importorskip("rhapsode.nn.kernels.gpu.depthwise_norm").depthwise_norm
pack = pytest.importorskip("rhapsode.nn.fused.pack")
tails = pytest.importorskip("rhapsode.nn.kernels.gpu.tails")
to_samples = pytest.importorskip("rhapsode.nn.kernels.gpu.to_samples").to_samples
residual_unit = pytest.importorskip("rhapsode.nn.kernels.gpu.residual_unit").residual_unit

# The interpreter multiplies bfloat16 as if it were integers: that type is for GPUs alone.
KINDS = [torch.float32, torch.float16, *([torch.bfloat16] if torch.cuda.is_available() else [])]
NEAR = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.fixture(autouse=True)
def exact_float32():
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


def made(module: nn.Module, device: torch.device, dtype: torch.dtype = torch.float32) -> nn.Module:
    for part in module.modules():
        if isinstance(part, SnakeBeta):
            nn.init.uniform_(part.alpha, -0.4, 0.4)
            nn.init.uniform_(part.beta, -0.4, 0.4)
    return cast(module.to(device).requires_grad_(False), dtype)


def cast(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    derive(module.to(dtype))
    return module


def assert_close(found: Tensor, expected: Tensor) -> None:
    near = NEAR[found.dtype]
    torch.testing.assert_close(found.double(), expected.double(), rtol=near, atol=near * float(expected.abs().max()))


def activation(module: nn.Module, x: Tensor) -> Tensor:
    """In float64, of `x [B, T, C]`."""
    return cast(deepcopy(module), torch.float64)(x.double().transpose(1, 2)).transpose(1, 2)


def reference(module: nn.Module, x: Tensor) -> Tensor:
    """In float64, `x [B, tail + T, C]` to `[B, T, C']`."""
    wide = cast(deepcopy(module), torch.float64)
    y = F.conv1d(x.double().transpose(1, 2), wide.conv.weight, wide.conv.bias, dilation=wide.conv.dilation)
    return y.transpose(1, 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("batch", "length", "inputs", "outputs", "kernel", "dilation"),
    [(1, 1, 16, 16, 7, 1), (3, 13, 24, 40, 7, 3), (2, 37, 32, 16, 7, 9), (2, 5, 48, 33, 1, 1), (5, 7, 3, 5, 3, 2)],
)
def test_a_convolution(device, kind, batch, length, inputs, outputs, kernel, dilation):
    module = made(CausalConv1d(inputs, outputs, kernel, dilation=dilation), device, kind)
    x = torch.randn(batch, module.tail + length, inputs, device=device, dtype=kind)
    out = x.new_empty(batch, length, outputs)
    gpu.conv(x, pack.conv_weights(module), out=out)
    assert_close(out, reference(module, x))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("batch", "length", "inputs", "outputs"), [(1, 3, 16, 16), (3, 13, 24, 32), (2, 70, 8, 48)])
def test_a_grouped_convolution_with_mish(device, kind, batch, length, inputs, outputs):
    groups, taps = 3, 5
    x = 4 * torch.randn(batch, taps - 1 + length, groups * inputs, device=device, dtype=kind)
    weight = torch.randn(groups * outputs, inputs, taps, device=device, dtype=kind)
    bias = torch.randn(groups * outputs, device=device, dtype=kind)
    matrix = weight.transpose(1, 2).flatten(1).contiguous()
    wide = (x.double(), matrix.double(), bias.double(), groups)
    expected = F.mish(F.conv1d(wide[0].transpose(1, 2), weight.double(), wide[2], groups=groups)).transpose(1, 2)
    torch.testing.assert_close(grouped_mish_conv(*wide), expected)
    with kernels.use("always"):
        assert_close(grouped_mish_conv(x, matrix, bias, groups), expected)


@pytest.mark.parametrize("tile", [(16, 16, 16), (32, 16, 32), (64, 64, 64), (128, 128, 32)])
def test_every_tile_gives_the_same(device, tile):
    module = made(CausalConv1d(24, 40, 7, dilation=3), device)
    x = torch.randn(2, module.tail + 21, 24, device=device)
    out = x.new_empty(2, 21, 40)
    gpu.conv(x, pack.conv_weights(module), out=out, tile=gpu.Tile(*tile, 4, 2))
    assert_close(out, reference(module, x))


@pytest.mark.parametrize("kind", KINDS)
def test_residual_and_activation_of_the_sum(device, kind):
    """The sum takes the place of the residual; its activation goes behind the tail of the next convolution's input."""
    module, after = made(CausalConv1d(32, 48, 7, dilation=3), device, kind), made(SnakeBeta(48), device)
    x = torch.randn(3, module.tail + 11, 32, device=device, dtype=kind)
    stream = torch.randn(3, 11, 48, device=device, dtype=kind)
    held = torch.full((3, 6 + 11, 48), 7.0, device=device, dtype=kind)
    expected = stream.double() + reference(module, x)
    gpu.conv(
        x, pack.conv_weights(module), residual=stream, out=stream, act=held[:, 6:], snake=pack.snake_weights(after)
    )
    assert_close(stream, expected)
    assert_close(held[:, 6:], activation(after, expected))
    assert bool((held[:, :6] == 7.0).all())


def test_scale_comes_before_the_residual(device):
    linear, scale = made(nn.Linear(32, 24), device), torch.rand(24, device=device)
    x, residual = torch.randn(2, 5, 32, device=device), torch.randn(2, 5, 24, device=device)
    out = torch.empty_like(residual)
    gpu.conv(x, pack.linear_weights(linear), scale=scale, residual=residual, out=out)
    assert_close(out, residual + linear(x) * scale)


def test_gelu(device):
    linear, x = made(nn.Linear(32, 24), device), torch.randn(2, 5, 32, device=device)
    out = x.new_empty(2, 5, 24)
    gpu.conv(x, pack.linear_weights(linear), function="gelu", out=out)
    assert_close(out, F.gelu(linear(x)))


@pytest.mark.parametrize("function", ["", "swiglu"])
def test_the_norm_before_it(device, function):
    linear, weight = made(nn.Linear(48, 40, bias=False), device), torch.rand(48, device=device)
    x = torch.randn(2, 5, 48, device=device)
    expected = linear(rms_norm(x, weight, 1e-5))
    if function:
        gate, up = expected.chunk(2, dim=-1)
        expected = F.silu(gate) * up
    out = torch.empty_like(expected)
    gpu.conv(x, pack.linear_weights(linear, weight), norm_eps=1e-5, function=function, out=out)
    assert_close(out, expected)


def test_a_wide_stream_through_narrow_weights(device):
    linear = made(nn.Linear(32, 24), device, torch.float16)
    x, residual = torch.randn(2, 5, 32, device=device), torch.randn(2, 5, 24, device=device)
    out = torch.empty_like(residual)
    gpu.conv(x, pack.linear_weights(linear), residual=residual, out=out)
    expected = residual + linear(x.half()).float()
    torch.testing.assert_close(out, expected, rtol=1e-3, atol=2e-3)


def test_float16_is_limited_and_never_infinite(device):
    linear = made(nn.Linear(16, 16, bias=False), device, torch.float16)
    linear.weight.copy_(torch.eye(16) * 4)
    x = torch.full((1, 3, 16), 60_000.0, device=device, dtype=torch.float16)
    out = torch.empty_like(x)
    gpu.conv(x, pack.linear_weights(linear), out=out)
    assert bool((out == 65_504).all())


@pytest.mark.parametrize(("kernel", "stride"), [(6, 3), (2, 2), (16, 8)])
def test_a_transposed_convolution(device, kernel, stride):
    module, after = made(CausalConvTranspose1d(24, 12, kernel, stride), device), made(SnakeBeta(12), device)
    x = torch.randn(3, 7, 24, device=device)
    held = F.pad(x, (0, 0, module.taps - 1, 0))
    out, act = x.new_empty(3, 7 * stride, 12), x.new_empty(3, 7 * stride, 12)
    gpu.conv(held, pack.phase_weights(module), out=out, act=act, snake=pack.snake_weights(after))
    expected = module(x.transpose(1, 2))
    assert_close(out, expected.transpose(1, 2))
    assert_close(act, after(expected).transpose(1, 2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("channels", "dilation", "length"), [(16, 1, 40), (12, 3, 17), (96, 9, 35)])
def test_a_residual_unit(device, kind, channels, dilation, length):
    first = made(CausalConv1d(channels, channels, 7, dilation=dilation), device, kind)
    second = made(CausalConv1d(channels, channels, 1), device, kind)
    middle, after = made(SnakeBeta(channels), device), made(SnakeBeta(channels), device)
    x = torch.randn(2, first.tail + length, channels, device=device, dtype=kind)
    stream = torch.randn(2, length, channels, device=device, dtype=kind)
    act = torch.empty_like(stream)
    between = activation(middle, reference(first, x))
    expected = stream.double() + reference(second, between)
    residual_unit(
        x, pack.conv_weights(first), pack.snake_weights(middle), pack.conv_weights(second),
        residual=stream, out=stream, act=act, snake=pack.snake_weights(after),
    )  # fmt: skip
    assert_close(stream, expected)
    assert_close(act, activation(after, expected))


@pytest.mark.parametrize(("channels", "length"), [(24, 5), (64, 1)])
def test_a_depthwise_convolution_and_the_norm_after_it(device, channels, length):
    module, norm = made(CausalConv1d(channels, channels, 7, groups=channels), device), nn.LayerNorm(channels, eps=1e-6)
    norm = norm.to(device).requires_grad_(False)
    norm.weight.uniform_(0.5, 1.5)
    norm.bias.normal_()
    x = torch.randn(3, 6 + length, channels, device=device)
    out = x.new_empty(3, length, channels)
    weights = (module.conv.weight[:, 0].T.contiguous(), module.conv.bias, norm.weight, norm.bias)
    depthwise_norm(x, *weights, 1e-6, out)
    assert_close(out, norm(module.conv(x.transpose(1, 2)).transpose(1, 2)))


@pytest.mark.parametrize(("channels", "length"), [(24, 41), (6, 3), (96, 130)])
def test_the_last_convolution_gives_samples_within_full_scale(device, channels, length):
    module = made(CausalConv1d(channels, 1, 7), device)
    module.conv.weight *= 4
    x = torch.randn(3, 6 + length, channels, device=device)
    out = x.new_empty(3, length)
    to_samples(x, module.conv.weight[0].T.contiguous(), module.conv.bias, out)
    expected = module.conv(x.transpose(1, 2))[:, 0].clamp(-1, 1)
    assert bool((expected.abs() == 1).any())
    assert_close(out, expected)


@pytest.mark.parametrize("channels", [16, 5])  # in whole vectors, and not
@pytest.mark.parametrize("frames", [1, 4])  # fewer rows than a tail holds, and more
def test_tails_go_from_slots_to_buffers_and_back(device, channels, frames):
    parts = [tails.TailSpec(6, 1, channels), tails.TailSpec(2, 3, 2 * channels)]
    states = [TailState(4, torch.empty(0, device=device), part.channels, part.tail) for part in parts]
    for state in states:
        state.tail.normal_()
    joined = torch.cat([torch.zeros(5, 8, device=device), *(state.tail.flatten(1) for state in states)], dim=1)
    slots, position = torch.tensor([3, 0, 2], device=device), torch.arange(5, device=device)
    kept = tails.Tails(parts, 8, device)
    buffers = kept.open(joined, slots, frames)
    offset = 8
    for buffer, part, state in zip(buffers, parts, states, strict=True):
        new = torch.randn(3, frames * part.per_frame, part.channels, device=device)
        buffer[:, part.tail :] = new
        assert torch.equal(buffer, extend(new.transpose(1, 2), slots, state).transpose(1, 2))
    kept.close(joined, slots, frames, buffers, position)
    for part, state in zip(parts, states, strict=True):
        size = part.tail * part.channels
        assert torch.equal(joined[:, offset : offset + size], state.tail.flatten(1))
        offset += size
    assert position.tolist() == [frames, 1, 2 + frames, 3 + frames, 4]

"""Streaming convolutions with their weights packed for the C kernels of a CPU."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from rhapsode.device.state import State
from rhapsode.nn.kernels.cpu.convnext import ConvNeXtProgram, ConvNeXtWeights
from rhapsode.nn.kernels.cpu.vocoder import ConvolutionStep, VocoderProgram
from rhapsode.nn.kernels.snake import SnakeWeights
from rhapsode.nn.snake import Snake, SnakeBeta
from rhapsode.nn.streaming import CausalConv1d, CausalConvTranspose1d, ChainState, StreamingChain, TailState
from rhapsode.nn.vocoder import ConvNeXt, ResidualUnit, UpsampleBlock


def packed_convnext(block: ConvNeXt) -> ConvNeXtProgram:
    """Packs a ConvNeXt block."""
    conv, norm, gamma = block.dwconv.conv, block.norm, block.gamma
    assert conv.bias is not None
    given = (conv.weight[:, 0].T, conv.bias, norm.weight, norm.bias, block.pwconv1.weight, block.pwconv1.bias)
    second = block.pwconv2.weight * gamma[:, None], block.pwconv2.bias * gamma
    return ConvNeXtProgram(ConvNeXtWeights(*given, *second), norm.eps)


def packed_vocoder(chain: StreamingChain, state: ChainState, tails: Tensor) -> VocoderProgram:
    """Packs a chain made by `vocoder`.

    `state` is a state of the chain, as views of `tails [slots + 1, all tails]`. The program serves other states as
    well, since each has its tails at the same places.
    """
    return VocoderProgram(list(_steps(chain, state, tails)))


def _steps(chain: StreamingChain, state: ChainState, tails: Tensor) -> Iterator[ConvolutionStep]:
    snake: SnakeWeights | None = None
    for module, of in zip(chain, state.states, strict=True):
        if isinstance(module, UpsampleBlock):
            assert isinstance(of, ChainState)
            yield from _steps(module.block, of, tails)
        elif isinstance(module, ResidualUnit):
            place = tail_place(of, tails)
            yield convolution_step(module.conv1, place, _weights(module.act1), keeps=True)
            yield convolution_step(module.conv2, 0, _weights(module.act2), adds=True)
        elif isinstance(module, CausalConv1d):
            yield convolution_step(module, tail_place(of, tails), snake)
            snake = None
        elif isinstance(module, CausalConvTranspose1d):
            yield transposed_step(module, tail_place(of, tails), snake)
            snake = None
        else:
            snake = _weights(module)


def _weights(activation: nn.Module) -> SnakeWeights:
    assert isinstance(activation, Snake | SnakeBeta)
    return SnakeWeights(activation.frequency, activation.size)


def tail_place(state: State, tails: Tensor) -> int:
    """Returns where the state's tail is in a row of `tails`."""
    if not isinstance(state, TailState):
        return 0
    return (state.tail.data_ptr() - tails.data_ptr()) // tails.element_size()


def convolution_step(
    module: CausalConv1d, tail: int, snake: SnakeWeights | None, keeps: bool = False, adds: bool = False
) -> ConvolutionStep:
    """Returns the step that computes a convolution without stride."""
    conv = module.conv
    return ConvolutionStep(conv.weight, conv.bias, tail, conv.dilation[0], 1, snake, keeps, adds)


def transposed_step(module: CausalConvTranspose1d, tail: int, snake: SnakeWeights | None) -> ConvolutionStep:
    """Returns the step that computes a transposed convolution: its phases are outputs, in the order of the samples."""
    stride, outputs = module.stride, module.conv.out_channels
    weight = module.phases.unflatten(0, (outputs, stride)).transpose(0, 1).flatten(0, 1)
    bias = module.phase_bias
    if bias is not None:
        bias = bias.unflatten(0, (outputs, stride)).T.flatten()
    return ConvolutionStep(weight, bias, tail, 1, stride, snake)

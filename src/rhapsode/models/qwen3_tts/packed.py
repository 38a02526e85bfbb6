"""Runs the codec's decoder by C kernels on a CPU: a few calls per launch, where PyTorch calls 700 operators."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from rhapsode.device.state import State
from rhapsode.models.qwen3_tts.decoder import CodecDecoder, DecoderState
from rhapsode.nn.kernels.cpu.layers import StackProgram
from rhapsode.nn.kernels.cpu.vocoder import ConvolutionChain, ConvolutionStep
from rhapsode.nn.packed import packed_stack
from rhapsode.nn.packed_vocoder import (
    convolution_step,
    packed_convnext,
    packed_vocoder,
    tail_place,
    transposed_step,
)
from rhapsode.nn.streaming import CausalConvTranspose1d, ChainState, StreamingChain
from rhapsode.nn.vocoder import ConvNeXt


def pack(decoder: CodecDecoder) -> None:
    """Packs the weights of a decoder in float32 on a CPU, where the kernels support it."""
    stack = packed_stack(decoder.pre_transformer)
    decoder.packed = None if stack is None else PackedDecoder(decoder, stack)


class PackedDecoder:
    """Decodes slots as the modules do. Every row and every frame is computed as if it were alone."""

    def __init__(self, decoder: CodecDecoder, stack: StackProgram) -> None:
        state, transformer = decoder.state(0), decoder.pre_transformer
        self._quantizer, self._stack = decoder.quantizer, stack
        self._rope, self._norm = transformer.rope, transformer.norm
        place = tail_place(state.pre_conv, state.tails)
        self._before = ConvolutionChain(
            [convolution_step(decoder.pre_conv, place, None), _step(transformer.input_proj)]
        )
        self._after = ConvolutionChain([_step(transformer.output_proj)])
        upsample = zip(decoder.upsample, state.upsample.states, strict=True)
        self._upsample = [_Upsample(chain, part, state.tails) for chain, part in upsample]
        self._vocoder = packed_vocoder(decoder.decoder, state.decoder, state.tails)

    def latents(self, codes: Tensor, slots: Tensor, state: DecoderState) -> Tensor:
        x = _rowwise(self._before, self._quantizer(codes), slots, state)
        positions, count = state.transformer.position, codes.shape[1]
        at = positions[slots][:, None] + torch.arange(count)  # [B, n]
        cos, sin = (None, None) if self._rope is None else (angles.flatten(0, 2) for angles in self._rope(at, x.dtype))
        where = slots.repeat_interleave(count), at.flatten()
        self._stack.run_rings(x.view(-1, x.shape[2]), cos, sin, state.transformer.ring, *where)
        positions[slots] = at[:, -1] + 1
        return _rowwise(self._after, self._norm(x), slots, state)

    def waveform(self, latents: Tensor, slots: Tensor, state: DecoderState) -> Tensor:
        x = _rowwise(self._upsampled, latents, slots, state)
        return self._vocoder.run(x, slots, state.tails).transpose(1, 2).clamp_(-1, 1)

    def _upsampled(self, x: Tensor, tails: Tensor) -> Tensor:
        for upsample in self._upsample:
            x = upsample(x, tails)
        return x


def _step(linear: nn.Linear) -> ConvolutionStep:
    return ConvolutionStep(linear.weight[..., None], linear.bias, tail=0)


def _rowwise(function: Callable[[Tensor, Tensor], Tensor], x: Tensor, slots: Tensor, state: DecoderState) -> Tensor:
    """Applies `function(row, tails of its slot)` to each row of `x [B, T, C]`."""
    rows = zip(x.contiguous(), slots.tolist(), strict=True)
    return torch.stack([function(row, state.tails[slot]) for row, slot in rows])


class _Upsample:
    """A transposed convolution and a ConvNeXt block."""

    def __init__(self, chain: nn.Module, state: State, tails: Tensor) -> None:
        assert isinstance(chain, StreamingChain)
        convolution, block = chain
        assert isinstance(convolution, CausalConvTranspose1d)
        assert isinstance(block, ConvNeXt)
        assert isinstance(state, ChainState)
        first, second = (tail_place(part, tails) for part in state.states)
        self._convolution = ConvolutionChain([transposed_step(convolution, first, None)])
        self._block, self._tail = packed_convnext(block), second

    def __call__(self, x: Tensor, tails: Tensor) -> Tensor:
        x = self._convolution(x, tails)
        self._block.run(x, tails[self._tail :])
        return x

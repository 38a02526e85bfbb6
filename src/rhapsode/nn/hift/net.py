"""A causal HiFT vocoder: mel frames to samples, any number of frames at a time, exactly as in one pass.

Each stage makes several columns from a frame. It computes the columns of the new frames and the first column of the
next frame, which the overlap of the last samples needs; that column is computed again with its own frame.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.device.slots import Rows
from rhapsode.device.state import State, buffer
from rhapsode.nn.hift.block import AheadBlock
from rhapsode.nn.hift.conv import AheadConv, states_of
from rhapsode.nn.hift.modules import HiftModules
from rhapsode.nn.hift.settings import F0_LOOKAHEAD, HiftSettings
from rhapsode.nn.hift.source import F0Net, HarmonicSource, SourceNoise
from rhapsode.nn.spectrum import reflected
from rhapsode.nn.streaming import TailState, extend


class HiftState(State):
    """What every layer keeps of earlier frames."""

    def __init__(self, slots: int, net: HiftNet) -> None:
        like, bins = net.conv_post.weight, net.conv_post.weight.shape[0]
        self.frames = buffer(slots, dtype=torch.int64, device=like.device)
        self.f0 = net.f0_predictor.state(slots)
        self.phase = net.m_source.state(slots)
        self.source = TailState(slots, like, 1, net.before)
        if net.fused is not None:
            self.tails = buffer(slots, net.fused.kept, dtype=net.fused.dtype, device=like.device)
        else:
            self.ups = states_of(net.ups, slots)
            self.source_blocks = states_of(net.source_resblocks, slots)
            self.blocks = [states_of(net.blocks_of(i), slots) for i in range(len(net.ups))]
            self.post = net.conv_post.state(slots)
        self.shifted = TailState(slots, like, like.shape[1], 1)
        self.columns = TailState(slots, like, bins, 1)


class HiftColumns(Protocol):
    """Runs the upsampling network by fused kernels; its state is one row of `kept` numbers per slot."""

    kept: int
    dtype: torch.dtype

    def __call__(self, x: Tensor, source: Tensor, slots: Tensor, state: HiftState) -> Tensor: ...


class HiftNet(HiftModules):
    """A causal HiFT vocoder. It uses `fused` where kernels run (`nn.fused.hift`); the modules are the reference."""

    f0_predictor: F0Net
    """Set after both networks are filled, because this one has another dtype."""

    def __init__(self, settings: HiftSettings) -> None:
        super().__init__(settings, AheadBlock)
        self.fused: HiftColumns | None = None
        self.m_source = HarmonicSource(settings)
        self.conv_pre = nn.Conv1d(settings.in_channels, settings.base_channels, settings.conv_pre_look_right + 1)
        kernels = settings.upsample_kernel_sizes
        self.ups = nn.ModuleList(AheadConv(2 * n, n, kernel) for n, kernel in zip(self.sizes, kernels, strict=True))
        widest = settings.source_strides[0]
        self.before = (widest - 1) * settings.hop_len + settings.n_fft // 2
        """Source samples before a frame that its columns depend on."""
        self.after = widest * settings.hop_len + settings.n_fft // 2
        """Source samples of the next frame that its first column depends on."""

    def state(self, slots: int) -> HiftState:
        return HiftState(slots, self)

    def forward(self, mel: Tensor, present: Tensor, rows: Rows, state: HiftState, noise: SourceNoise) -> Tensor:
        """Maps `mel [B, T + lookahead, C]` to samples `[B, T * hop]` of its first `T` frames.

        Frames that are not `present [B, T + lookahead]` are after the end.
        """
        settings, slots = self.settings, rows.slots
        due = mel.shape[1] - settings.lookahead
        frames = (mel * present[..., None]).transpose(1, 2)
        known = present.sum(1)  # [B]
        source = self._source(frames[..., : due + 1 + F0_LOOKAHEAD], known, rows, state, noise)
        right = due + 1 + settings.conv_pre_look_right
        x = self.conv_pre(frames[..., :right].to(self.conv_pre.weight.dtype))  # [B, base, due + 1]
        if self.fused is not None:
            x = self.fused(x, source, slots, state)
        else:
            x = self.conv_post(F.leaky_relu(self._upsample(x, source, slots, state)), slots, state.post, 2)
        columns = extend(self.columns_of(x), slots, state.columns, 2)  # one before, and two after
        place = torch.arange(-1, columns.shape[2] - 1, device=slots.device)
        exists = (place >= 0) | (state.frames[slots] > 0)[:, None]
        exists = exists & (place <= known[:, None] * settings.columns)
        state.frames[slots] += due
        return self.samples_of(columns, exists)

    def _source(self, frames: Tensor, known: Tensor, rows: Rows, state: HiftState, noise: SourceNoise) -> Tensor:
        """Returns the columns of the source's spectrum, from `stride - 1` before the first frame on."""
        settings, slots, hop = self.settings, rows.slots, self.settings.hop
        f0 = self.f0_predictor(frames, slots, state.f0, 1).to(torch.float32)  # [B, due + 1]
        drawn = noise(rows, f0.shape[1], hop * settings.harmonics)
        samples = self.m_source(f0, drawn, slots, state.phase, 1)  # [B, (due + 1) * hop]
        # Both ends of the whole signal are reflected, as one pass does.
        place, end = torch.arange(samples.shape[1], device=slots.device), known[:, None] * hop
        samples = samples.gather(1, reflected(place, end))
        half, first = settings.n_fft // 2, (state.frames[slots] == 0)[:, None]
        joined = extend(samples[:, None], slots, state.source, hop)[:, 0]
        before = joined[:, self.before - half : self.before]
        before = torch.where(first, samples[:, 1 : half + 1].flip(1), before)
        used = samples.shape[1] - hop + self.after
        columns = self.spectrum.analyse(torch.cat((joined[:, : self.before - half], before, samples[:, :used]), dim=1))
        lead = settings.source_strides[0] - 1
        is_before = torch.arange(columns.shape[2], device=slots.device) < lead
        return columns.masked_fill((first & is_before)[:, None], 0.0)

    def _upsample(self, x: Tensor, source: Tensor, slots: Tensor, state: HiftState) -> Tensor:
        """Returns the columns of the new frames and two more: the last stage shifts all of them by one."""
        settings, last = self.settings, len(self.ups) - 1
        lead = settings.source_strides[0] - 1
        sizes = zip(settings.upsample_rates, settings.source_strides, settings.source_kernels, strict=True)
        for i, (rate, stride, kernel) in enumerate(sizes):
            ahead = 2 if i == last else 1
            x = F.leaky_relu(x, settings.lrelu_slope)[..., None].expand(-1, -1, -1, rate).flatten(2)
            x = self.ups[i](x[..., : x.shape[2] - rate + 1], slots, state.ups[i], 1)
            if i == last:
                shifted = extend(x, slots, state.shifted, 1)
                start = torch.where((state.frames[slots] == 0)[:, None, None], x[..., 1:2], shifted[..., :1])
                x = torch.cat((start, x), dim=2)
            first = lead - (stride - 1)
            told = self.source_downs[i](source[..., first : first + (x.shape[2] - 1) * stride + kernel])
            x = x + self.source_resblocks[i](told, slots, state.source_blocks[i], ahead)
            blocks = zip(self.blocks_of(i), state.blocks[i], strict=True)
            x = torch.stack([block(x, slots, held, ahead) for block, held in blocks]).mean(0)
        return x

"""A symmetric HiFT vocoder as a stream: every layer computes each row once, some rows late (see `nn.symmetric`)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.device.slots import Rows
from rhapsode.nn.hift.block import SymmetricBlock
from rhapsode.nn.hift.conv import AheadConv, states_of
from rhapsode.nn.hift.lags import HiftLags
from rhapsode.nn.hift.modules import HiftModules
from rhapsode.nn.hift.sampled_source import SampledSource, SourceDraws, SymmetricF0Net
from rhapsode.nn.hift.settings import HiftSettings
from rhapsode.nn.spectrum import reflected
from rhapsode.nn.streaming import CausalConvTranspose1d, TailState, extend
from rhapsode.nn.symmetric import FrameCounts, delayed, existing, exists


class SymmetricHiftState(FrameCounts):
    """What every layer keeps of earlier frames."""

    def __init__(self, slots: int, net: SymmetricHift) -> None:
        like, lags, stages = net.conv_post.weight, net.lags, range(len(net.ups))
        super().__init__(slots, like.device)
        self.f0 = net.f0_predictor.state(slots)
        self.phase = net.m_source.state(slots)
        self.source = TailState(slots, like, 1, lags.history)
        self.frames = TailState(slots, like, net.settings.in_channels, lags.frames)
        self.pre = net.conv_pre.state(slots)
        self.ups = states_of(net.ups, slots)
        self.shifted = TailState(slots, like, net.sizes[-1], 2)
        self.waits = [TailState(slots, like, net.sizes[i], lags.stages[i].wait) for i in stages]
        self.source_blocks = states_of(net.source_resblocks, slots)
        self.blocks = [states_of(net.blocks_of(i), slots) for i in stages]
        most = max(lags.reaches)
        self.late = [[TailState(slots, like, net.sizes[i], most - reach) for reach in lags.reaches] for i in stages]
        self.post = net.conv_post.state(slots)
        self.columns = TailState(slots, like, like.shape[0], lags.overlap)


class SymmetricHift(HiftModules):
    """Maps mel frames to samples, which are `lookahead` frames late."""

    lag: Tensor  # [places, 2]
    more: Tensor  # [places]

    def __init__(self, settings: HiftSettings) -> None:
        super().__init__(settings, SymmetricBlock)
        self.lags = HiftLags(settings)
        self.f0_predictor = SymmetricF0Net(settings)
        self.m_source = SampledSource(settings)
        self.conv_pre = AheadConv(settings.in_channels, settings.base_channels, 2 * settings.conv_pre_look_right + 1)
        shapes = zip(self.sizes, settings.upsample_kernel_sizes, settings.upsample_rates, strict=True)
        self.ups = nn.ModuleList(CausalConvTranspose1d(2 * n, n, kernel, rate) for n, kernel, rate in shapes)
        every = torch.tensor(list(self.lags.every()), device="cpu")
        self.register_buffer("lag", every[:, :2], persistent=False)
        self.register_buffer("more", every[:, 2, None], persistent=False)

    @property
    def lookahead(self) -> int:
        return self.lags.lookahead

    def state(self, slots: int) -> SymmetricHiftState:
        return SymmetricHiftState(slots, self)

    def forward(
        self, mel: Tensor, present: Tensor, rows: Rows, state: SymmetricHiftState, draws: SourceDraws
    ) -> Tensor:
        """Maps the next `mel [B, T, C]` of these slots to samples `[B, T * hop]`.

        Frames that are not `present [B, T]` are after the end, and flush the samples that are late. The first
        `lookahead` frames of a slot's samples precede its first frame, and are meaningless.
        """
        slots, frames = rows.slots, mel.transpose(1, 2).to(self.conv_post.weight.dtype)
        given = state.given.index_select(0, slots)
        every = state.advance(slots, present, self.lag)
        every[..., 1] += self.more
        bounds = iter(every.unbind(0))
        source = self._source(frames, given, rows, state, draws, bounds)
        x = existing(delayed(frames, slots, state.frames), next(bounds))
        x = self.conv_pre(x, slots, state.pre, 0)
        for i in range(len(self.ups)):
            x = self._stage(i, x, source, slots, state, bounds)
        x = self.conv_post(existing(F.leaky_relu(x), next(bounds)), slots, state.post, 0)
        columns = extend(self.columns_of(x), slots, state.columns)
        columns = columns[..., : x.shape[2] + self.spectrum.overlap - 1]
        return self.samples_of(columns, exists(next(bounds), columns.shape[2]))

    def _source(
        self,
        frames: Tensor,
        given: Tensor,
        rows: Rows,
        state: SymmetricHiftState,
        draws: SourceDraws,
        bounds: Iterator[Tensor],
    ) -> Tensor:
        """Returns the kept and the new samples of the source, `[B, n]`; both ends of the signal are reflected."""
        slots, hop, lags = rows.slots, self.settings.hop, self.lags
        f0 = self.f0_predictor(frames, slots, state.f0, bounds).to(frames.dtype)
        first = given[:, None] - lags.f0
        numbers = first + torch.arange(f0.shape[1], device=slots.device)
        starts = draws.starts(rows, self.settings.harmonics)
        new = self.m_source(f0, draws.noise(rows, numbers, hop), starts, slots, state.phase)
        samples = extend(new[:, None], slots, state.source)[:, 0]
        start = first * hop - lags.history
        place = (start + torch.arange(samples.shape[1], device=slots.device)).abs()
        end = state.present.index_select(0, slots)[:, None] * hop
        return samples.gather(1, (reflected(place, end) - start).clamp(0, samples.shape[1] - 1))

    def _stage(
        self, i: int, x: Tensor, source: Tensor, slots: Tensor, state: SymmetricHiftState, bounds: Iterator[Tensor]
    ) -> Tensor:
        x = self.ups[i](existing(F.leaky_relu(x, self.settings.lrelu_slope), next(bounds)), slots, state.ups[i])
        found = next(bounds)
        if i == len(self.ups) - 1:  # a row more, reflected
            length, joined = x.shape[2], extend(x, slots, state.shifted)
            is_first = torch.arange(length, device=slots.device) == found[:, :1]
            x = torch.where(is_first[:, None], joined[..., 2:], joined[..., :length])
        x = delayed(x, slots, state.waits[i])
        told = self._told(i, x.shape[2], source, next(bounds))
        x = x + self.source_resblocks[i](told, slots, state.source_blocks[i], bounds)
        made = [
            delayed(block(x, slots, held, bounds), slots, late)
            for block, held, late in zip(self.blocks_of(i), state.blocks[i], state.late[i], strict=True)
        ]
        return torch.stack(made).mean(0)

    def _told(self, i: int, rows: int, source: Tensor, bounds: Tensor) -> Tensor:
        """Returns the source's contribution to `rows` rows of a stage, before its block."""
        settings, spectrum = self.settings, self.spectrum
        stride, kernel = settings.source_strides[i], settings.source_kernels[i]
        first, count = self.lags.first_sample(self.lags.stages[i]), (rows - 1) * stride + kernel
        used = source[:, first : first + (count - 1) * spectrum.hop + spectrum.n_fft]
        columns = existing(spectrum.analyse(used), bounds)
        return self.source_downs[i](columns)

"""How late the layers of a symmetric HiFT vocoder are in a stream that computes every row once.

A convolution of `k` taps that looks as far ahead as behind is a causal one whose rows come `k // 2` later. What is
added up must be equally late: so mel frames wait for the source, which depends on later frames than they do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rhapsode.nn.hift.settings import HiftSettings

F0_LAYERS, F0_KERNEL, POST_KERNEL = 5, 3, 7


class RowLag(NamedTuple):
    """The rows per frame at some place, by how many rows they are late, and how many rows there are after the last
    frame's."""

    rate: int
    rows: int
    more: int = 0


class StageLags(NamedTuple):
    """By how many rows things are late in one stage of the upsampling."""

    before: RowLag
    """The input of the upsampling."""
    up: RowLag
    """What it returns."""
    source: RowLag
    """What comes from the source's columns."""
    joined: RowLag
    """The sum of both, after the source's block. The upsampled rows wait for it."""
    after: RowLag
    columns: RowLag
    """The source's columns, of which the first row needs this one first."""

    @property
    def wait(self) -> int:
        return self.joined.rows - self.up.rows


def block_lags(kernel: int, dilations: Sequence[int]) -> list[int]:
    """Returns by how many rows the inputs of a residual block's convolutions are late."""
    late, found = 0, []
    for dilation in dilations:
        found += [late, late + kernel // 2 * dilation]
        late += kernel // 2 * (dilation + 1)
    return found


def block_reach(kernel: int, dilations: Sequence[int]) -> int:
    """Returns how many rows ahead a residual block looks."""
    return kernel // 2 * sum(dilation + 1 for dilation in dilations)


class HiftLags:
    """The lags of a vocoder with these settings."""

    def __init__(self, settings: HiftSettings) -> None:
        self.f0 = F0_LAYERS * (F0_KERNEL // 2)
        """Frames by which fundamental frequencies are late."""
        self._settings = settings
        shapes = zip(settings.source_resblock_kernel_sizes, settings.source_resblock_dilation_sizes, strict=True)
        self._source_reach = [block_reach(*shape) for shape in shapes]
        shapes = zip(settings.resblock_kernel_sizes, settings.resblock_dilation_sizes, strict=True)
        self.reaches = [block_reach(*shape) for shape in shapes]
        first = self._stage(0, RowLag(1, settings.conv_pre_look_right))
        self.frames = first.wait // settings.upsample_rates[0]
        """Mel frames that the first convolution waits, so that less has to wait where there are more channels."""
        before = RowLag(1, self.frames + settings.conv_pre_look_right)
        self.stages: list[StageLags] = []
        for i in range(len(settings.upsample_rates)):
            self.stages.append(self._stage(i, before))
            before = self.stages[-1].after
        spectrum = before.rows + POST_KERNEL // 2
        overlap = settings.n_fft // settings.hop_len // 2
        self.lookahead = -(-(spectrum + overlap) // settings.columns)
        """Frames by which samples are late."""
        self.overlap = self.lookahead * settings.columns - spectrum + overlap - 1
        """Columns of the spectrum that are kept, so that whole frames of samples come out."""
        self.columns = RowLag(settings.columns, spectrum + self.overlap, 1)

    def every(self) -> Iterator[RowLag]:
        """Yields the lags of whatever has to know which of its rows exist, in the order in which they run."""
        yield from (RowLag(1, rows) for rows in range(0, self.f0 + 1, F0_KERNEL // 2))
        yield RowLag(1, self.frames)
        settings = self._settings
        blocks = list(zip(settings.resblock_kernel_sizes, settings.resblock_dilation_sizes, strict=True))
        sources = zip(settings.source_resblock_kernel_sizes, settings.source_resblock_dilation_sizes, strict=True)
        for stage, source in zip(self.stages, sources, strict=True):
            yield from (stage.before, stage.up, stage.columns)
            for start, shapes in ((stage.source, [source]), (stage.joined, blocks)):
                for late in (late for shape in shapes for late in block_lags(*shape)):
                    yield start._replace(rows=start.rows + late)
        yield self.stages[-1].after
        yield self.columns

    @property
    def history(self) -> int:
        """Samples of the source that are kept, besides those of new frames."""
        return self._settings.n_fft // 2 - min(self._new(stage) for stage in self.stages)

    def first_sample(self, stage: StageLags) -> int:
        """Returns which of the kept and new samples of the source is the first that a stage reads."""
        return self.history + self._new(stage)

    def _new(self, stage: StageLags) -> int:
        """The same, counted from the first new sample; mostly that is a kept one, and the number is negative."""
        settings = self._settings
        return self.f0 * settings.hop - settings.n_fft // 2 - settings.hop_len * stage.columns.rows

    def _stage(self, i: int, before: RowLag) -> StageLags:
        settings = self._settings
        rate, kernel = settings.upsample_rates[i], settings.upsample_kernel_sizes[i]
        is_last = i == len(settings.upsample_rates) - 1  # it has a row more, which is put first
        up = RowLag(before.rate * rate, before.rows * rate + (kernel - rate) // 2 + is_last, int(is_last))
        stride, width = settings.source_strides[i], settings.source_kernels[i]
        next_one = self.f0 * settings.columns + settings.n_fft // settings.hop_len // 2
        earliest = -(-(next_one + width - 1 - stride // 2 - stride) // stride)
        joined = up._replace(rows=max(up.rows, earliest + self._source_reach[i]))
        source = joined._replace(rows=joined.rows - self._source_reach[i])
        after = joined._replace(rows=joined.rows + max(self.reaches))
        return StageLags(
            before, up, source, joined, after, RowLag(settings.columns, stride * source.rows + stride // 2, 1)
        )

"""The layers that every HiFT vocoder has, under the names of published checkpoints."""

from __future__ import annotations

from torch import Tensor, nn

from rhapsode.nn.hift.block import HiftBlock
from rhapsode.nn.hift.conv import AheadConv
from rhapsode.nn.hift.lags import POST_KERNEL
from rhapsode.nn.hift.settings import HiftSettings
from rhapsode.nn.spectrum import Spectrum, from_polar
from rhapsode.nn.streaming import Streaming

LOUDEST = 100.0
"""The largest magnitude of a spectrum."""


class HiftModules(Streaming):
    """Leaves to its subclasses the first convolution, the upsampling, the source, and the order of things."""

    def __init__(self, settings: HiftSettings, block: type[HiftBlock]) -> None:
        super().__init__()
        self.settings = settings
        self.spectrum = Spectrum(settings.n_fft, settings.hop_len)
        bins = settings.n_fft + 2
        self.sizes = [settings.base_channels >> (i + 1) for i in range(len(settings.upsample_rates))]
        strides = zip(self.sizes, settings.source_kernels, settings.source_strides, strict=True)
        self.source_downs = nn.ModuleList(nn.Conv1d(bins, *sizes) for sizes in strides)
        source_shapes = (settings.source_resblock_kernel_sizes, settings.source_resblock_dilation_sizes)
        shapes = list(zip(settings.resblock_kernel_sizes, settings.resblock_dilation_sizes, strict=True))
        self.source_resblocks = nn.ModuleList(block(*one) for one in zip(self.sizes, *source_shapes, strict=True))
        self.resblocks = nn.ModuleList(block(n, *shape) for n in self.sizes for shape in shapes)
        self.conv_post = AheadConv(self.sizes[-1], bins, POST_KERNEL)

    def blocks_of(self, stage: int) -> nn.ModuleList:
        count = len(self.settings.resblock_kernel_sizes)
        return self.resblocks[stage * count : (stage + 1) * count]

    def samples_of(self, columns: Tensor, exists: Tensor) -> Tensor:
        """Maps columns of the spectrum to samples; see `Spectrum.synthesise`."""
        limit = self.settings.audio_limit
        return self.spectrum.synthesise(columns, exists).clamp(-limit, limit)

    @staticmethod
    def columns_of(x: Tensor) -> Tensor:
        """Maps what the last convolution returns to columns of the spectrum."""
        return from_polar(x, LOUDEST)

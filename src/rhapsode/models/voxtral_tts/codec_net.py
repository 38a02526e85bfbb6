"""The codec's networks: codes to a waveform in chunks of any size, and a waveform to codes in one pass."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rhapsode.models.voxtral_tts.codec_config import Block, VoxtralCodecConfig
from rhapsode.models.voxtral_tts.config import END, OFFSET
from rhapsode.nn.quantizer import rvq_encode
from rhapsode.nn.streaming import CausalConv1d, CausalConvTranspose1d, ChainState, Streaming, StreamingChain
from rhapsode.nn.windowed import WindowedTransformer, WindowState, alibi_slopes


class CodecLayers(WindowedTransformer):
    """Transformer layers with ALiBi, between convolutions: `[B, dim, T]` to the same."""

    def __init__(self, config: VoxtralCodecConfig, block: Block) -> None:
        # A window of `nn` counts the position itself.
        super().__init__(config.layers(block.layers), block.window + 1, alibi_slopes(config.n_heads))

    def forward(self, x: Tensor, slots: Tensor | None = None, state: WindowState | None = None) -> Tensor:
        # Contiguous, so that the sums of norms have the same order for every length of a chunk.
        return super().forward(x.transpose(1, 2).contiguous(), slots, state).transpose(1, 2)


def _conv(inputs: int, outputs: int, block: Block) -> CausalConv1d:
    return CausalConv1d(inputs, outputs, block.kernel, block.stride, bias=False, pad_mode="replicate")


class Codebooks:
    """Converts codes to latents and back: a table of vectors for the semantic code, evenly spaced levels for others."""

    def __init__(self, config: VoxtralCodecConfig, vectors: Tensor) -> None:
        self.config = config
        self._vectors = vectors  # [codes, semantic_dim]
        self._levels = config.acoustic_codebook_size - 1

    def decode(self, codes: Tensor) -> Tensor:
        """Converts `codes [..., books]` to the latents that the decoder takes, `[..., latent_dim]`."""
        semantic = self._vectors[codes[..., 0] - OFFSET]
        acoustic = (codes[..., 1:] - OFFSET).to(semantic.dtype) * (2 / self._levels) - 1
        return torch.cat((semantic, acoustic), dim=-1)

    def encode(self, latents: Tensor) -> Tensor:
        """Converts `latents [T, latent_dim]` to the nearest codes, `[T, books]`."""
        semantic, acoustic = latents.split((self.config.semantic_dim, self.config.acoustic_dim), dim=-1)
        nearest = rvq_encode(semantic, self._vectors[None])
        levels = ((acoustic.tanh() + 1) / 2 * self._levels).round().to(torch.int64)
        return torch.cat((nearest, levels), dim=-1) + OFFSET


class VoxtralCodecDecoder(Streaming):
    """Decodes codes to samples; without slots, in one pass. `codebooks` is set after its own weights are read."""

    codebooks: Codebooks

    def __init__(self, config: VoxtralCodecConfig) -> None:
        super().__init__()
        self.config = config
        self.decoder_blocks = StreamingChain(*self._blocks())
        kernel, patch = config.patch_proj_kernel_size, config.pretransform_patch_size
        self.output_proj = CausalConv1d(config.dim, patch, kernel, bias=False, pad_mode="reflect")

    def _blocks(self) -> Iterator[Streaming]:
        config, width = self.config, self.config.latent_dim
        for block in config.decoder_blocks():
            if block.stride == 1:
                yield _conv(width, config.dim, block)
            else:
                yield CausalConvTranspose1d(width, config.dim, block.kernel, block.stride, bias=False)
            yield CodecLayers(config, block)
            width = config.dim

    def state(self, slots: int) -> ChainState:
        return ChainState([self.decoder_blocks.state(slots), self.output_proj.state(slots)])

    def forward(self, codes: Tensor, slots: Tensor | None = None, state: ChainState | None = None) -> Tensor:
        """Decodes `codes [B, n, books]` to `[B, 1, n * hop]`, in float32 or float64. Values are not clamped."""
        blocks, last = (None, None) if state is None else state.states
        x = self.codebooks.decode(codes).to(self.output_proj.conv.weight.dtype).transpose(1, 2)
        assert blocks is None or isinstance(blocks, ChainState)
        patches = self.output_proj(self.decoder_blocks(x, slots, blocks), slots, last)  # [B, patch, n * patches]
        audio = patches.transpose(1, 2).reshape(len(codes), 1, -1)
        return audio.to(torch.promote_types(audio.dtype, torch.float32))


class VoxtralCodecEncoder(nn.Module):
    """Encodes samples as codes, in one pass."""

    codebooks: Codebooks

    def __init__(self, config: VoxtralCodecConfig) -> None:
        super().__init__()
        self.config = config
        kernel, patch = config.patch_proj_kernel_size, config.pretransform_patch_size
        self.input_proj = CausalConv1d(patch, config.dim, kernel, bias=False, pad_mode="reflect")
        self.encoder_blocks = nn.Sequential(*self._blocks())

    def _blocks(self) -> Iterator[nn.Module]:
        blocks = self.config.encoder_blocks()
        for i, block in enumerate(blocks):
            yield CodecLayers(self.config, block)
            yield _conv(self.config.dim, self.config.dim if i + 1 < len(blocks) else self.config.latent_dim, block)

    def forward(self, patches: Tensor) -> Tensor:
        """Encodes `patches [B, patch, n]` as latents `[B, latent_dim, n / stride]`."""
        return self.encoder_blocks(self.input_proj(patches))

    @torch.inference_mode()
    def encode(self, samples: NDArray[np.float32]) -> NDArray[np.int64]:
        """Encodes `samples [N]` as codes `[frames + 1, books]`; the last row marks the end of the recording."""
        weight, patch = self.input_proj.conv.weight, self.config.pretransform_patch_size
        filled = np.pad(samples, (0, -len(samples) % patch)).reshape(-1, patch).T
        latents = self(torch.tensor(filled, dtype=weight.dtype, device=weight.device)[None])[0].T
        codes = self.codebooks.encode(latents.to(torch.promote_types(latents.dtype, torch.float32)))
        end = torch.zeros_like(codes[:1])
        end[:, 0] = END
        return torch.cat((codes, end)).cpu().numpy()

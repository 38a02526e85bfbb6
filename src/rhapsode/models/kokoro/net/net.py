"""The network in two passes: durations, which decide the number of frames, and samples."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rhapsode.models.kokoro.net.decoder import Decoder
from rhapsode.models.kokoro.net.source import seeded_noise
from rhapsode.models.kokoro.net.text import TextNet
from rhapsode.nn.ragged import Ragged


class Encoded(NamedTuple):
    """What the first pass makes of a batch of sentences."""

    durations: Tensor  # [B, P], int64: frames of each phoneme; 0 beyond the end
    prosodic: Tensor  # [B, P, hidden + style], for pitch and energy
    text: Tensor  # [B, P, hidden], for the decoder


class KokoroNet(nn.Module):
    """The text side and the decoder, which may have another number format."""

    def __init__(self, text: TextNet, decoder: Decoder) -> None:
        super().__init__()
        self.text, self.decoder = text, decoder

    def durations(self, ids: Tensor, styles: Tensor, speeds: Tensor, ragged: Ragged) -> Encoded:
        """Encodes ids `[B, P]`, each with a 0 at both ends, in styles `[B, 2 * style]` at speeds `[B]`."""
        net = self.text
        style = self._text_style(styles)
        hidden = net.bert_encoder(net.bert(ids, ragged))
        prosodic = net.predictor.text_encoder(hidden, style, ragged)
        frames = net.predictor.duration_logits(prosodic, ragged).sigmoid().sum(2) / speeds[:, None]
        durations = frames.round().clamp(min=1).long()
        if ragged.mask is not None:
            durations = durations * ragged.mask
        return Encoded(durations, prosodic, net.text_encoder(ids, ragged))

    def render(
        self, encoded: Encoded, styles: Tensor, seeds: Tensor, ragged: Ragged, noise: Tensor | None = None
    ) -> Tensor:
        """Makes samples `[B, T * samples per frame]`, zeros beyond the end of an item.

        `ragged` has the number of frames of each item, the sum of its durations. `noise [B, samples, harmonics]`
        replaces the noise of `seeds [B]`.
        """
        net, generator = self.decoder, self.decoder.generator
        dtype = net.F0_conv.weight.dtype
        style = styles[:, : styles.shape[1] // 2].to(dtype)
        phonemes = phoneme_of_frame(encoded.durations, ragged.size)[..., None]  # [B, T, 1]
        prosodic = encoded.prosodic.gather(1, phonemes.expand(-1, -1, encoded.prosodic.shape[2]))
        text = encoded.text.gather(1, phonemes.expand(-1, -1, encoded.text.shape[2]))
        prosody = self.text.predictor.prosody(prosodic, self._text_style(styles), ragged)
        decoded = net.frames(text.transpose(1, 2).to(dtype), prosody, style, ragged)
        halves = ragged.scaled(2)
        mixer = generator.m_source
        if noise is None:
            drawn = mixer.mixed_at_once(seeded_noise(seeds, halves.size, generator.config.hop))
        else:
            drawn = mixer.mixed(noise)
        source = generator.source_spectrum(prosody.f0, drawn.to(prosody.f0.dtype), halves)
        return generator(decoded, style, source, halves)

    def _text_style(self, styles: Tensor) -> Tensor:
        return styles[:, styles.shape[1] // 2 :].to(self.text.bert_encoder.weight.dtype)


def phoneme_of_frame(durations: Tensor, frames: int) -> Tensor:
    """Returns which phoneme each frame belongs to, `[B, frames]`; beyond the end of an item any."""
    place = torch.arange(frames, device=durations.device).expand(len(durations), -1).contiguous()
    found = torch.searchsorted(durations.cumsum(1), place, right=True)
    return found.clamp(max=durations.shape[1] - 1)

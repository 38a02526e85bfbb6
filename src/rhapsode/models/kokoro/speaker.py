"""Speaks piece by piece: each is one pass of the network."""

from __future__ import annotations

from collections.abc import Iterator

from rhapsode.audio.join import Joiner
from rhapsode.models.base import StageContext
from rhapsode.models.kokoro.config import read_config
from rhapsode.models.kokoro.folder import config_of, files_of
from rhapsode.models.kokoro.parts import kokoro_net
from rhapsode.models.kokoro.prepare import KokoroPrompt
from rhapsode.models.kokoro.renderer import PhonemeSentence, Renderer
from rhapsode.models.kokoro.voices import VoiceStyles
from rhapsode.models.parts import checkpoint_of
from rhapsode.types import Samples

_NEXT_SEED = 0x9E3779B97F4A7C15
"""Added for each piece, so that no two pieces of a request have the same noise."""


class KokoroSpeaker:
    def __init__(self, context: StageContext) -> None:
        self._config = read_config(config_of(context.config))
        self._sample_rate = context.spec.sample_rate
        self._styles = VoiceStyles(files_of(checkpoint_of(context)), self._config)
        self._renderer = Renderer(kokoro_net(context), self._config.samples_per_frame)

    def speak(self, prompt: KokoroPrompt, seed: int) -> Iterator[Samples | None]:
        options, pieces, spoken = prompt.options, prompt.pieces, 0
        joiner = Joiner(self._sample_rate, pause_s=options.pause_s)
        while True:
            piece = pieces.pop()
            if piece is not None:
                if ids := self._ids(piece):
                    made = self._render(ids, piece, prompt, (seed + spoken * _NEXT_SEED) % 2**63)
                    spoken += 1
                    yield joiner.add(made) if options.trim else made
            elif pieces.closed:
                return
            else:
                yield None

    def _ids(self, piece: str) -> list[int]:
        """Returns the ids of a piece. Symbols that the model does not have are left out."""
        vocabulary = self._config.vocab
        return [vocabulary[symbol] for symbol in piece if symbol in vocabulary]

    def _render(self, ids: list[int], piece: str, prompt: KokoroPrompt, seed: int) -> Samples:
        style = self._styles.style(prompt.voice, len(piece))
        sentence = PhonemeSentence((0, *ids, 0), style, prompt.options.model_speed, seed)
        return self._renderer.render(self._renderer.durations([sentence]))[0]

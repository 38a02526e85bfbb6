"""An acoustic model that measures the tones of the spelling family."""

import numpy as np

from rhapsode.alignment.model import FrameBlocks
from spelling.family import LETTERS, hertz

RATE, FRAME = 16_000, 320
DELAY = 10
SYMBOLS = ("", " ", *LETTERS)
SURE = 0.9
ONE_BY_ONE = FrameBlocks(1, DELAY)


class ToneModel:
    rate, frame_s = RATE, FRAME / RATE
    symbols, language = SYMBOLS, "en"
    late = 0

    def __init__(self, blocks: FrameBlocks = ONE_BY_ONE) -> None:
        self.blocks = blocks

    def open(self) -> "ToneStream":
        return ToneStream(self.blocks.size)

    def feed_many(self, heard) -> list[np.ndarray]:
        return [stream.feed(samples) for stream, samples in heard]


class ToneStream:
    """Names the tone of each frame, ten frames late, in blocks."""

    def __init__(self, block: int) -> None:
        self._block = block
        self._samples = np.zeros(0, np.float32)
        self._held = np.zeros((0, len(SYMBOLS)), np.float32)

    def feed(self, samples: np.ndarray) -> np.ndarray:
        self._samples = np.concatenate((self._samples, samples))
        whole = len(self._samples) // FRAME // self._block * self._block
        named = [log_probs(frame) for frame in self._samples[: whole * FRAME].reshape(whole, FRAME)]
        self._samples = self._samples[whole * FRAME :]
        self._held = np.concatenate((self._held, *[row[None] for row in named]))
        ready = max(0, len(self._held) - DELAY)
        out, self._held = self._held[:ready], self._held[ready:]
        return out

    def finish(self) -> np.ndarray:
        return self._held


def log_probs(frame: np.ndarray) -> np.ndarray:
    """Log probabilities of the symbols in one frame."""
    probabilities = np.full(len(SYMBOLS), (1 - SURE) / len(SYMBOLS))
    if np.square(frame).mean() < 1e-3:
        probabilities[:2] += SURE / 2
    else:
        times_s = np.arange(FRAME) / RATE
        strengths = [abs(frame @ np.exp(-2j * np.pi * hertz(letter) * times_s)) for letter in LETTERS]
        probabilities[2 + int(np.argmax(strengths))] += SURE
    return np.log(probabilities).astype(np.float32)

"""Speech with the time of every letter: what the aligner learns from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SYMBOLS = ("", " ", *"abcdefghijklmnopqrstuvwxyz", "'")
"""The blank, the gap between words, and the letters."""
LEAST_PAUSE_S = 0.06
"""Silence at the end of a word that is no closure of its last consonant."""
_INDEX = {symbol: index for index, symbol in enumerate(SYMBOLS)}


class WordSpan(NamedTuple):
    """A word and the times of its phonemes in seconds: phoneme `i` lasts from `edges[i]` to `edges[i + 1]`."""

    word: str
    edges: NDArray[np.float64]


class SpeltUtterance(NamedTuple):
    """Speech, and for each letter of its words `[start, end, start of its word, end of its word]` in seconds."""

    rate: int
    audio: NDArray[np.int16]  # [N]
    letters: NDArray[np.uint8]  # [L]
    times: NDArray[np.float32]  # [L, 4]

    @property
    def seconds(self) -> float:
        return len(self.audio) / self.rate


def spell(rate: int, audio: NDArray[np.floating], spans: Sequence[WordSpan]) -> SpeltUtterance:
    """Spreads the letters of each word over its phonemes, evenly: the first half of the letters over the first half."""
    letters, times = [], []
    for word, edges in spans:
        share = np.interp(np.linspace(0, len(edges) - 1, len(word) + 1), np.arange(len(edges)), edges)
        for letter, start, end in zip(word, share, share[1:], strict=False):
            letters.append(_INDEX[letter])
            times.append((start, end, edges[0], edges[-1]))
    samples = (np.clip(audio, -1, 1) * 32767).round().astype(np.int16)
    return SpeltUtterance(rate, samples, np.array(letters, np.uint8), np.array(times, np.float32))


def trimmed(spans: Sequence[WordSpan], audio: NDArray[np.floating], rate: int) -> list[WordSpan]:
    """Ends words where they fade: engines count a pause, or a part of it, as their last phoneme."""
    hop = rate // 200
    level = np.sqrt(np.square(audio[: len(audio) // hop * hop].reshape(-1, hop)).mean(1))
    loud = np.flatnonzero(level > np.percentile(level, 95) * 0.012)
    found = []
    for word, edges in spans:
        inside = loud[(loud * hop >= edges[0] * rate) & (loud * hop < edges[-1] * rate)]
        end = max((inside[-1] + 1) * hop / rate + 0.01, edges[0] + 0.04) if len(inside) else edges[-1]
        found.append(WordSpan(word, np.minimum(edges, end) if edges[-1] - end > LEAST_PAUSE_S else edges))
    return found


def sound(said: SpeltUtterance | None) -> bool:
    """Whether there is speech, of finite samples, with words that come one after the other."""
    if said is None or not len(said.letters) or not 0.3 < said.seconds < 20:
        return False
    edges = said.times[:, :2].reshape(-1)
    return bool(np.abs(said.audio).max() > 1000 and (np.diff(edges) >= -1e-4).all() and edges[-1] <= said.seconds + 0.1)


def write_utterances(path: Path, made: Sequence[SpeltUtterance]) -> None:
    """Writes a shard; it gets its name when it is whole."""
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        np.savez(
            file,
            audio=np.concatenate([said.audio for said in made]),
            letters=np.concatenate([said.letters for said in made]),
            times=np.concatenate([said.times for said in made]),
            index=np.array([(said.rate, len(said.audio), len(said.letters)) for said in made]),
        )
    unfinished.rename(path)


def read_utterances(path: Path) -> list[SpeltUtterance]:
    found, sample, letter = [], 0, 0
    with np.load(path) as shard:
        audio, letters, times = shard["audio"], shard["letters"], shard["times"]
        for rate, samples, count in shard["index"].tolist():
            part = slice(letter, letter + count)
            found.append(SpeltUtterance(rate, audio[sample : sample + samples], letters[part], times[part]))
            sample, letter = sample + samples, letter + count
    return found

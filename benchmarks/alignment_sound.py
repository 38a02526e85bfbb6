"""Compares word starts inside a phrase with the sound itself, where it changes clearly: no model's opinion.

    python benchmarks/alignment_sound.py FOLDER

`alignment_speech.py` fills FOLDER. After a vowel or a nasal, a word that begins with "s" begins where the level above
3.5 kHz rises, and one that begins with "p", "t" or "k" where the level below 3 kHz falls: the closure of the lips or
the tongue is part of the word. Our times and those of the judges are compared with these places. Prints Markdown, in
ms: a time minus that of the sound.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import torch
from alignment import align
from alignment_speech import SpokenClip, Times, letters, read_clips

from rhapsode.alignment.loading import load_acoustic

HOP_S, WINDOW_S = 0.0025, 0.005
NEAR_S = 0.12
"""The place is looked for so near to the word's start."""
SIDE = 12
"""Hops on both sides of a place whose levels are compared: 30 ms."""
LEAST_DB = 15.0
"""The level must change by so much."""
JOINED_S = 0.06
"""Words in a phrase follow each other within this time."""
OPEN_ENDS = "aeiouyrlwnm"


def levels_db(clip: SpokenClip, low_hz: float, high_hz: float) -> np.ndarray:
    """Returns the level in a band, every 2.5 ms."""
    spectrum = np.fft.rfft(clip.wave)
    hertz = np.fft.rfftfreq(len(clip.wave), 1 / clip.rate)
    spectrum[(hertz < low_hz) | (hertz > high_hz)] = 0
    power = np.square(np.fft.irfft(spectrum, len(clip.wave)))
    total, half = np.cumsum(np.r_[0.0, power]), round(WINDOW_S * clip.rate / 2)
    centres = (np.arange(int(len(power) / clip.rate / HOP_S)) * HOP_S * clip.rate).astype(int)
    low, high = np.maximum(centres - half, 0), np.minimum(centres + half, len(power))
    return 10 * np.log10((total[high] - total[low]) / np.maximum(high - low, 1) + 1e-12)


def change_s(levels: np.ndarray, near_s: float, rises: bool) -> float | None:
    """Returns where the level changes most near a time, if it changes clearly: where it passes the middle."""
    first = max(0, round((near_s - NEAR_S) / HOP_S))
    part = (levels if rises else -levels)[first : round((near_s + NEAR_S) / HOP_S)]
    if len(part) <= 2 * SIDE:
        return None
    total = np.cumsum(np.r_[0.0, part])
    at = np.arange(SIDE, len(part) - SIDE)
    steps = (total[at + SIDE] - 2 * total[at] + total[at - SIDE]) / SIDE
    best = int(at[np.argmax(steps)])
    if steps.max() < LEAST_DB:
        return None
    around = part[best - SIDE : best + SIDE]
    middle = (np.median(around[:SIDE]) + np.median(around[SIDE:])) / 2
    passed = np.flatnonzero((around[:-1] < middle) & (around[1:] >= middle))
    return (first + best - SIDE + int(passed[np.argmin(np.abs(passed - SIDE))])) * HOP_S if len(passed) else None


def clear_starts(clip: SpokenClip, times: Times) -> dict[int, tuple[str, float]]:
    """Returns the words in a phrase whose sound begins clearly: what it begins with, and when."""
    high, low = levels_db(clip, 3500, 7600), levels_db(clip, 200, 3000)
    found: dict[int, tuple[str, float]] = {}
    for index in range(1, len(times)):
        word, before = letters(times[index][0]), letters(times[index - 1][0])
        start = times[index][1]
        if not word or not before or start - times[index - 1][2] > JOINED_S:
            continue
        if word[0] == "s" and word[:2] != "sh" and before[-1] in OPEN_ENDS:
            kind, at = "s", change_s(high, start, rises=True)
        elif word[0] in "ptkc" and word[:2] not in ("th", "ph", "ch", "ce", "ci", "kn") and before[-1] in OPEN_ENDS:
            kind, at = "p, t, k", change_s(low, start, rises=False)
        else:
            continue
        if at is not None:
            found[index] = kind, at
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = load_acoustic()
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for clip in read_clips(options.folder):
        ours = align(model, clip.text, clip.wave, clip.rate).times
        sounds = clear_starts(clip, ours)
        for judge, times in {"ours": ours, **clip.times}.items():
            names = [letters(word) for word, *_ in ours], [letters(word) for word, *_ in times]
            for one, other, size in SequenceMatcher(None, *names, autojunk=False).get_matching_blocks():
                for index in range(size):
                    if one + index in sounds:
                        kind, at = sounds[one + index]
                        found[kind, judge].append(times[other + index][1] - at)
    print("| begins with | judge | words | median | quartiles |\n|---|---|---|---|---|")
    for (kind, judge), seconds in sorted(found.items()):
        low, middle, high = 1000 * np.percentile(seconds, [25, 50, 75])
        print(f"| {kind} | {judge} | {len(seconds)} | {middle:+.0f} | {low:+.0f} to {high:+.0f} |")


if __name__ == "__main__":
    main()

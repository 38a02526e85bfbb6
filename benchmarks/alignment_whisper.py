"""Says where word times differ from Whisper's, and how much of it is Whisper's own error.

    python benchmarks/alignment_whisper.py RECORDED HIBARI

`alignment_speech.py` fills both folders, with Whisper as a judge. For hibari the truth is known: its durations. Their
median difference from Whisper there is Whisper's offset, for starts and for ends. RECORDED is reported as it is, and
with this offset taken off. First words are a group of their own: Whisper begins them at 0, also where the sound begins
later. A pause is part of the word after or before it in Whisper's times; "out of silence" moves starts and ends that
are in silence to its edge, as tools for subtitles do. Prints Markdown, in ms. Differences are ours minus Whisper's.
"""

from __future__ import annotations

import argparse
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from alignment import LEVELS_HZ, PAUSE_S, align, onsets, quiet_windows
from alignment_speech import SpokenClip, Times, letters, read_clips

from rhapsode.alignment.loading import load_acoustic
from rhapsode.alignment.model import Acoustic

NEAR_S = 0.15
"""A word begins after silence if it begins so near to an onset."""


class WordDifference(NamedTuple):
    """One word of two judges, in seconds."""

    start: float
    end: float
    place: str


def differences(clip: SpokenClip, ours: Times, judge: Times) -> list[WordDifference]:
    """Returns the differences of the words that both have, in order."""
    found: list[WordDifference] = []
    begun = onsets(clip.wave, clip.rate)
    matcher = SequenceMatcher(None, [letters(w) for w, *_ in ours], [letters(w) for w, *_ in judge], autojunk=False)
    for one, other, size in matcher.get_matching_blocks():
        for index in range(size):
            (_, start, end), (_, begin, stop) = ours[one + index], judge[other + index]
            after_silence = bool(len(begun)) and float(np.abs(begun - start).min()) < NEAR_S
            place = "first" if other + index == 0 else "after silence" if after_silence else "in a phrase"
            found.append(WordDifference(start - begin, end - stop, place))
    return found


def out_of_silence(clip: SpokenClip, times: Times) -> Times:
    """Moves starts that are in silence to its end, and ends to its beginning."""
    silences = quiet_spans(clip)
    moved: Times = []
    for word, start, end in times:
        start = next((stop for begin, stop in silences if begin <= start < stop), start)
        end = next((begin for begin, stop in silences if begin < end <= stop), end)
        moved.append((word, start, max(start, end)))
    return moved


def quiet_spans(clip: SpokenClip) -> list[tuple[float, float]]:
    """Returns the silences of a clip, in seconds."""
    edges = np.diff(np.r_[0, quiet_windows(clip.wave, clip.rate).astype(int), 0])
    spans = zip(np.flatnonzero(edges > 0) / LEVELS_HZ, np.flatnonzero(edges < 0) / LEVELS_HZ, strict=True)
    return [(start, stop) for start, stop in spans if stop - start >= PAUSE_S]


def row(name: str, seconds: list[float], offset_s: float) -> str:
    plain = 1000 * np.array(seconds)
    low, middle, high = np.percentile(plain, [25, 50, 75])
    size, less = np.abs(plain), np.abs(plain - 1000 * offset_s)
    return (
        f"| {name} | {len(plain)} | {middle:+.0f} | {low:+.0f} to {high:+.0f} | {np.median(size):.0f} | "
        f"{np.percentile(size, 95):.0f} | {middle - 1000 * offset_s:+.0f} | {np.median(less):.0f} | "
        f"{np.percentile(less, 95):.0f} |"
    )


HEADER = """
| | words | signed median | quartiles | median size | p95 | less offset: signed median | median size | p95 |
|---|---|---|---|---|---|---|---|---|"""


def print_rows(name: str, found: list[WordDifference], offsets: tuple[float, float]) -> None:
    later = [one for one in found if one.place != "first"]
    print(row(f"{name}: starts", [one.start for one in found], offsets[0]))
    print(row(f"{name}: starts without first words", [one.start for one in later], offsets[0]))
    for place in ("first", "after silence", "in a phrase"):
        if there := [one.start for one in found if one.place == place]:
            print(row(f"{name}: starts, {place}", there, offsets[0]))
    print(row(f"{name}: ends", [one.end for one in found], offsets[1]), flush=True)


def all_differences(clips: list[SpokenClip], ours: list[Times]) -> list[WordDifference]:
    pairs = zip(clips, ours, strict=True)
    return [one for clip, times in pairs for one in differences(clip, times, clip.times["whisper"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recorded", type=Path)
    parser.add_argument("hibari", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = load_acoustic()
    recorded, hibari = (
        [clip for clip in read_clips(folder) if clip.times.get("whisper")]
        for folder in (options.recorded, options.hibari)
    )
    truth = all_differences(hibari, [clip.times["durations"] for clip in hibari])
    later = [one for one in truth if one.place != "first"]
    offsets = float(np.median([one.start for one in later])), float(np.median([one.end for one in later]))
    print(f"{len(recorded)} recordings, {len(hibari)} clips of hibari")
    print(f"Whisper's offset: starts {1000 * offsets[0]:+.0f} ms, ends {1000 * offsets[1]:+.0f} ms\n{HEADER}")
    print_rows("hibari, its durations", truth, offsets)
    print_rows("hibari, ours", all_differences(hibari, [spoken_times(model, clip) for clip in hibari]), offsets)
    ours = [spoken_times(model, clip) for clip in recorded]
    print_rows("recordings, ours", all_differences(recorded, ours), offsets)
    moved = [clip._replace(times={"whisper": out_of_silence(clip, clip.times["whisper"])}) for clip in recorded]
    print_rows("recordings, ours, Whisper out of silence", all_differences(moved, ours), offsets)
    known = [clip for clip in recorded if clip.times.get("pocketsphinx")]
    print_rows("recordings, pocketsphinx", all_differences(known, [c.times["pocketsphinx"] for c in known]), offsets)
    times = {clip.name: words for clip, words in zip(recorded, ours, strict=True)}
    print_rows("the same recordings, ours", all_differences(known, [times[clip.name] for clip in known]), offsets)


def spoken_times(model: Acoustic, clip: SpokenClip) -> Times:
    return align(model, clip.text, clip.wave, clip.rate).times


if __name__ == "__main__":
    main()

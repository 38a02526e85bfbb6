"""Measures the packaged aligner: errors of word times, and CPU time per second of speech.

    python benchmarks/alignment.py FOLDER [--judge durations|pocketsphinx|whisper] [--table]
    python benchmarks/alignment.py FOLDER --listeners 1,2,4,8,16

`alignment_speech.py` fills FOLDER; `alignment_whisper.py` compares with Whisper in detail. Speech is streamed through
the whole alignment (resampling, acoustic model, search) in pieces of 80 ms, as in a server. Prints Markdown. With
`--table` also at other speeds, in the band of a telephone and with noise. With `--listeners` only the CPU time is
measured, for one listener and for several side by side.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from alignment_speech import LATE_S, SpokenClip, Times, Wave, letters, read_clips

from rhapsode.alignment.loading import load_acoustic
from rhapsode.alignment.model import Acoustic
from rhapsode.alignment.text import WordText
from rhapsode.alignment.track import WordTrack
from rhapsode.alignment.words import BookmarkTime, WordTime
from rhapsode.audio.sinc import resample_sinc
from rhapsode.audio.tempo import Tempo
from rhapsode.errors import RhapsodeError
from rhapsode.text.front_end import TextSettings
from rhapsode.types import SpeechQuality

PIECE_S = 0.08
PAUSE_S = 0.1
"""Silence before a sound that makes it an onset."""
LEVELS_HZ = 200
ONSET_DB = 38.0
"""An onset is louder than the clip's loudest 5% less so much."""


class WordCollector:
    """Keeps the words of one clip."""

    def __init__(self) -> None:
        self.words: list[WordTime] = []
        self.is_due = False
        """Its audio completes a block of the acoustic model, or has ended."""
        self.said_s: float | None = None
        """Where the speech may end."""

    @property
    def times(self) -> Times:
        return [(word.text, word.start_s, word.end_s) for word in self.words if word.is_heard]

    def wake(self, track: WordTrack) -> None:
        self.is_due = True

    def heard(self, seconds: float) -> None: ...

    def found(self, words: tuple[WordTime, ...]) -> None:
        self.words += words

    def reached(self, bookmarks: tuple[BookmarkTime, ...]) -> None: ...

    def said(self, end_s: float, quality: SpeechQuality) -> None:
        self.said_s = end_s if self.said_s is None else self.said_s

    def aligned(self, quality: SpeechQuality) -> None: ...

    def misaligned(self, error: RhapsodeError) -> None:
        raise error


def begin(model: Acoustic, text: str, rate: int, ends: bool = False) -> tuple[WordTrack, WordCollector]:
    written = WordText(TextSettings(language="en"), model.symbols, model.language)
    written.push(text)
    written.close()
    collector = WordCollector()
    return WordTrack(model, written, rate, collector, ends, collector.wake), collector


def align(model: Acoustic, text: str, wave: Wave, rate: int, ends: bool = False) -> WordCollector:
    """Streams a clip through the aligner."""
    track, collector = begin(model, text, rate, ends)
    hear_together(model, [(track, wave)], round(PIECE_S * rate))
    return collector


def hear_together(model: Acoustic, heard: list[tuple[WordTrack, Wave]], piece: int) -> None:
    """Streams clips through the aligner side by side, as a server does with its listeners."""
    for start in range(0, max(len(wave) for _, wave in heard) + piece, piece):
        listening = [(track, wave) for track, wave in heard if start < len(wave) + piece]
        for track, wave in listening:
            if start < len(wave):
                track.hear(wave[None, start : start + piece])
            else:
                track.finish()
        due = [track for track, _ in listening if was_woken(track)]
        taken = [(track, *track.take()) for track in due]
        frames = model.feed_many([(track.stream, samples) for track, samples, _ in taken])
        for (track, _, is_last), log_probs in zip(taken, frames, strict=True):
            track.advance(log_probs)
            if is_last:
                track.advance(track.stream.finish())
                track.end()


def was_woken(track: WordTrack) -> bool:
    collector = track.listener
    assert isinstance(collector, WordCollector)
    woken, collector.is_due = collector.is_due, False
    return woken


def cpu_ms(model: Acoustic, clips: list[SpokenClip], listeners: int) -> float:
    """Returns the CPU time per second of speech, in ms, where so many clips are heard side by side."""
    begun, heard_s = time.process_time(), 0.0
    for first in range(0, len(clips) - listeners + 1, listeners):
        group = clips[first : first + listeners]
        tracks = [(begin(model, clip.text, clip.rate)[0], clip.wave) for clip in group]
        hear_together(model, tracks, round(PIECE_S * group[0].rate))
        heard_s += sum(len(clip.wave) / clip.rate for clip in group)
    return 1000 * (time.process_time() - begun) / heard_s


class Errors(NamedTuple):
    """Differences of word times from a judge's, in seconds: ours minus the judge's."""

    starts: list[float]
    ends: list[float]
    words: int
    """Of the judge."""

    def row(self) -> str:
        starts, ends = 1000 * np.array(self.starts), 1000 * np.array(self.ends)
        size = np.abs(starts)
        return (
            f"{len(starts)} of {self.words} | {np.median(size):.0f} | {np.percentile(size, 95):.0f} | "
            f"{100 * np.mean(size > 120):.1f}% | {np.median(starts):+.0f} | {np.median(np.abs(ends)):.0f} | "
            f"{np.percentile(np.abs(ends), 95):.0f} | {np.median(ends):+.0f}"
        )


HEADER = """
| | words | start: median error, ms | p95 | over 120 ms | signed median | end: median error, ms | p95 | signed median |
|---|---|---|---|---|---|---|---|---|"""


def compare(pairs: list[tuple[Times, Times]]) -> Errors:
    """Compares the words that both have, in order."""
    errors = Errors([], [], sum(len(judge) for _, judge in pairs))
    for ours, judge in pairs:
        matcher = SequenceMatcher(None, [letters(w) for w, *_ in ours], [letters(w) for w, *_ in judge], autojunk=False)
        for one, other, size in matcher.get_matching_blocks():
            for (_, start, end), (_, begin, stop) in zip(
                ours[one : one + size], judge[other : other + size], strict=True
            ):
                errors.starts.append(start - begin)
                errors.ends.append(end - stop)
    return errors


def without_first(times: Times) -> Times:
    """Whisper begins the first word of a clip at 0, also where the sound begins later."""
    return times[1:]


def onsets(wave: Wave, rate: int) -> np.ndarray:
    """Returns where sound begins after silence, in seconds: measured, no model's opinion."""
    loud = ~quiet_windows(wave, rate)
    quiet = round(PAUSE_S * LEVELS_HZ)
    found = [at for at in range(quiet, len(loud)) if loud[at] and not loud[at - quiet : at].any()]
    return np.array(found) / LEVELS_HZ


def quiet_windows(wave: Wave, rate: int) -> np.ndarray:
    """Returns which windows of 5 ms are near silence."""
    hop = rate // LEVELS_HZ
    level = np.sqrt(np.square(wave[: len(wave) // hop * hop].reshape(-1, hop)).mean(1))
    return level <= np.percentile(level, 95) * 10 ** (-ONSET_DB / 20)


def late(clips: list[SpokenClip], times: list[Times]) -> str:
    """Describes how long after the onset of its sound a word begins, for the words that begin near one."""
    found: list[float] = []
    for clip, words in zip(clips, times, strict=True):
        for onset in onsets(clip.wave, clip.rate):
            near = [start - onset for _, start, _ in words if abs(start - onset) < 0.15]
            found += [min(near, key=abs)] if near else []
    low, middle, high = 1000 * np.percentile(found, [10, 50, 90]) if found else (np.nan,) * 3
    return f"{len(found)} | {middle:+.0f} | {low:+.0f} to {high:+.0f}"


def at_speed(speed: float) -> Callable[[Wave, int], Wave]:
    def change(wave: Wave, rate: int) -> Wave:
        tempo = Tempo(speed, rate)
        return np.concatenate([tempo.write(wave[None]), tempo.close()], axis=1)[0]

    return change


def telephone(wave: Wave, rate: int) -> Wave:
    return resample_sinc(resample_sinc(wave[None], rate, 8000), 8000, rate)[0]


def noisy(wave: Wave, rate: int) -> Wave:
    noise = np.random.default_rng(0).standard_normal(len(wave))
    return (wave + noise * np.sqrt(np.square(wave).mean()) * 0.1).astype(np.float32)


CHANGES: dict[str, tuple[float, Callable[[Wave, int], Wave]]] = {
    **{f"speed {speed:g}": (speed, at_speed(speed)) for speed in (0.5, 0.75, 1.25, 1.5, 2.0)},
    "8 kHz": (1.0, telephone),
    "white noise, 20 dB": (1.0, noisy),
}


def changed(model: Acoustic, clips: list[SpokenClip], judged: list[Times], name: str) -> str:
    """Returns the errors for clips that are changed, against times that move with the speed."""
    speed, change = CHANGES[name]
    times = [align(model, clip.text, change(clip.wave, clip.rate), clip.rate).times for clip in clips]
    expected = [[(word, start / speed, end / speed) for word, start, end in words] for words in judged]
    return compare(list(zip(times, expected, strict=True))).row()


def shifted(times: Times, by_s: float) -> Times:
    return [(word, start + by_s, end) for word, start, end in times]


def report(clips: list[SpokenClip], judge: str | None, table: bool) -> None:
    model = load_acoustic()
    ours = [align(model, clip.text, clip.wave, clip.rate).times for clip in clips]
    print(f"{len(clips)} clips, {sum(len(clip.wave) / clip.rate for clip in clips):.0f} s of speech")
    judges = [name for name in ("durations", "pocketsphinx", "whisper") if any(clip.times.get(name) for clip in clips)]
    by_judge = {name: [clip.times.get(name, []) for clip in clips] for name in judges}
    if "durations" in by_judge:
        by_judge["durations, not shifted"] = [shifted(times, LATE_S) for times in by_judge["durations"]]
    if "whisper" in by_judge:
        by_judge["whisper, without first words"] = [without_first(times) for times in by_judge["whisper"]]
    print(HEADER)
    for name, times in by_judge.items():
        print(f"| {name} | {compare(list(zip(ours, times, strict=True))).row()} |")
    if "whisper" in by_judge and "durations" in by_judge:
        pairs = zip(by_judge["durations"], by_judge["whisper, without first words"], strict=True)
        print(f"| durations minus whisper, without first words | {compare(list(pairs)).row()} |")
    print("\n| starts of words after silence | words | median after the onset, ms | 10% to 90% |\n|---|---|---|---|")
    for name, times in {"ours": ours, **by_judge}.items():
        print(f"| {name} | {late(clips, times)} |")
    if table:
        chosen = judge or judges[0]
        print(f"\nAgainst {chosen}:\n{HEADER}")
        for name in CHANGES:
            print(f"| {name} | {changed(model, clips, by_judge[chosen], name)} |", flush=True)


def report_cpu(clips: list[SpokenClip], listeners: list[int]) -> None:
    model = load_acoustic()
    cpu_ms(model, clips[:2], 1)  # warm-up
    print("| listeners | CPU time per second of speech, ms: median of 3 | lowest | highest |\n|---|---|---|---|")
    for count in listeners:
        low, middle, high = sorted(cpu_ms(model, clips, count) for _ in range(3))
        print(f"| {count} | {middle:.1f} | {low:.1f} | {high:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--judge", help="of the table; else the first that the clips have")
    parser.add_argument("--table", action="store_true", help="other speeds, telephone and noise, too")
    parser.add_argument("--listeners", help="measure CPU time instead, for these numbers of listeners: 1,2,4")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.listeners:
        report_cpu(read_clips(options.folder), [int(count) for count in options.listeners.split(",")])
        return
    report(read_clips(options.folder), options.judge, options.table)


if __name__ == "__main__":
    main()

"""Checks that end detection cuts no word: speaks each request with it and, where it ends one, also without.

    python benchmarks/ends.py OUT [--count 500] [--seconds 1500]

The texts are those of `rhapsode bench quality --generate`, spoken by the default voice. What end detection cuts off
must be near silence, or lie after the end of the last word in the speech that is not cut. The voice seldom goes on
after its last word, so the aligner also hears each speech with a second of faint noise behind it, and with another
speech behind it: there it must find an end. Prints every cut of a request and every word that is cut, then the counts.

Speech is kept in OUT, so that a run that was ended by its time goes on where it was.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from alignment import align
from alignment_speech import Times, Wave

from rhapsode import TTS
from rhapsode.alignment.loading import load_acoustic
from rhapsode.alignment.model import Acoustic
from rhapsode.bench.quality.generated import generate

SILENT_DB = -50.0
WINDOW_S = 0.02
FADE_S = 0.01
"""The last of what is kept is faded out: it differs from the speech that is not cut."""
EQUAL = 1e-5
"""Samples of one seed differ less: batches of other sizes round differently."""
AT_ONCE = 8
NOISE_DB = -70.0


@dataclass(frozen=True)
class SpeechCut:
    """What is cut from one speech, in seconds."""

    text: str
    kept_s: float
    whole_s: float
    last_word_s: float
    """Where the last word ends."""
    loudest_db: float
    """Of the windows that are cut off."""

    @property
    def is_cut(self) -> bool:
        return self.kept_s < self.whole_s

    @property
    def is_silent(self) -> bool:
        return self.loudest_db < SILENT_DB

    @property
    def is_after_words(self) -> bool:
        return self.kept_s >= self.last_word_s


class SpokenRequest(NamedTuple):
    """One text, spoken without and with end detection."""

    text: str
    whole: Wave
    kept: Wave
    rate: int

    @classmethod
    def of(cls, path: Path, text: str, seed: int, tts: TTS) -> SpokenRequest:
        """Speaks a text, or reads what was spoken before."""
        if not path.exists():
            with tts.stream(text, seed=seed, end_detection=True) as stream:
                kept = np.concatenate([chunk.samples[0] for chunk in stream])
            quality = stream.outcome.quality
            whole = tts.speak(text, seed=seed).samples[0] if quality is None or quality.ended_early else kept
            new = path.with_suffix(".part.npz")
            np.savez(new, whole=whole, kept=kept, rate=tts.sample_rate)
            new.rename(path)
        with np.load(path) as stored:
            return cls(text, stored["whole"], stored["kept"], int(stored["rate"]))

    @property
    def differs(self) -> bool:
        """Whether what is kept is not the beginning of the whole."""
        count = len(self.kept) - round(FADE_S * self.rate)
        return bool(np.abs(self.kept[:count] - self.whole[:count]).max() > EQUAL)


def cut_at(request: SpokenRequest, words: Times, kept_s: float) -> SpeechCut:
    rest = request.whole[round(kept_s * request.rate) :]
    level = loudest_db(rest, round(WINDOW_S * request.rate))
    last_s = max((end for _, _, end in words), default=0.0)
    return SpeechCut(request.text, kept_s, len(request.whole) / request.rate, last_s, level)


def loudest_db(samples: Wave, window: int) -> float:
    """Returns the level of the loudest window in dB of full scale."""
    padded = np.pad(samples, (0, -len(samples) % window)).reshape(-1, window)
    return float(10 * np.log10(np.square(padded).mean(1).max(initial=0.0) + 1e-12))


def ends(model: Acoustic, request: SpokenRequest, words: Times, after: Wave) -> SpeechCut | None:
    """Returns where speech is ended that goes on like this."""
    found = align(model, request.text, np.concatenate((request.whole, after)), request.rate, ends=True)
    return None if found.said_s is None else cut_at(request, words, found.said_s)


def summary(name: str, cuts: list[SpeechCut], count: int) -> str:
    """Returns a row of the table; also prints the cuts that take a word."""
    wrong = [cut for cut in cuts if cut.is_cut and not (cut.is_silent or cut.is_after_words)]
    for cut in wrong:
        print(f"{name}: {cut}")
    silent = sum(not cut.is_cut or cut.is_silent for cut in cuts)
    late = [cut.kept_s - cut.last_word_s for cut in cuts] or [0.0]
    return f"| {name} | {count} | {len(cuts)} | {silent} | {len(wrong)} | {np.median(late):.2f} | {max(late):.2f} |"


def spoken(folder: Path, count: int, seconds: float) -> list[SpokenRequest]:
    """Speaks the texts, as many as the time allows."""
    prompts, begun = generate(count, seed=0), time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    with TTS(limits={"max_concurrency": AT_ONCE}) as tts, ThreadPoolExecutor(AT_ONCE) as pool:

        def speak(seed: int) -> SpokenRequest | None:
            if time.monotonic() - begun > seconds:
                return None
            return SpokenRequest.of(folder / f"{seed:04}.npz", prompts[seed].text, seed, tts)

        return [one for one in pool.map(speak, range(len(prompts))) if one is not None]


def report(said: list[SpokenRequest]) -> None:
    model = load_acoustic()
    rate = said[0].rate
    noise = (np.random.default_rng(0).standard_normal(rate) * 10 ** (NOISE_DB / 20)).astype(np.float32)
    cuts: dict[str, list[SpeechCut | None]] = {"request": [], "as it is": [], "noise follows": [], "speech follows": []}
    for index, one in enumerate(said):
        words = align(model, one.text, one.whole, rate).times
        kept = cut_at(one, words, len(one.kept) / rate)
        cuts["request"].append(kept if kept.is_cut else None)
        afters = {"as it is": noise[:0], "noise follows": noise, "speech follows": said[index - 1].whole}
        for name, after in afters.items():
            cuts[name].append(ends(model, one, words, after))
    for cut in filter(None, cuts["request"]):
        print(cut)
    rows = [summary(name, [cut for cut in found if cut], len(said)) for name, found in cuts.items()]
    print("\n| speech | spoken | ended | cut only silence | cut a word | median s after the last word | most |")
    print("|---|---|---|---|---|---|---|", *rows, sep="\n")
    print(f"\n{sum(one.differs for one in said)} differ before the cut")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no request after this time")
    options = parser.parse_args()
    report(spoken(options.out, options.count, options.seconds))


if __name__ == "__main__":
    main()

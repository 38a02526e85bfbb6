"""Checks that end detection cuts no word: speaks each request with and without it, with the same seed.

    python benchmarks/ends.py [--count 500] [--seconds 1500]

The texts are those of `rhapsode bench quality --generate`, spoken by the default voice. What end detection cuts off
must be near silence, or lie after the end of the last word in the speech that is not cut. The voice seldom goes on
after its last word, so the aligner also hears each speech with a second of faint noise behind it, and with another
speech behind it: there it must find an end. Prints every cut of a request and every word that is cut, then the counts.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from alignment import align
from alignment_speech import Wave

from rhapsode import TTS
from rhapsode.alignment.loading import load_acoustic
from rhapsode.alignment.model import Acoustic
from rhapsode.bench.quality.generated import generate
from rhapsode.tts import Audio

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


def cut_at(text: str, whole: Audio, kept_s: float) -> SpeechCut:
    rest = whole.samples[0, round(kept_s * whole.sample_rate) :]
    heard = [word.end_s for word in whole.words if word.is_heard]
    level = loudest_db(rest, round(WINDOW_S * whole.sample_rate))
    return SpeechCut(text, kept_s, whole.samples.shape[1] / whole.sample_rate, max(heard, default=0.0), level)


def loudest_db(samples: Wave, window: int) -> float:
    """Returns the level of the loudest window in dB of full scale."""
    padded = np.pad(samples, (0, -len(samples) % window)).reshape(-1, window)
    return float(10 * np.log10(np.square(padded).mean(1).max(initial=0.0) + 1e-12))


def differs(kept: Audio, whole: Audio) -> bool:
    """Says whether what is kept is not the beginning of the whole."""
    count = kept.samples.shape[1] - round(FADE_S * kept.sample_rate)
    return bool(np.abs(kept.samples[:, :count] - whole.samples[:, :count]).max() > EQUAL)


def ends(model: Acoustic, text: str, whole: Audio, after: Wave) -> SpeechCut | None:
    """Returns where speech is ended that goes on like this."""
    found = align(model, text, np.concatenate((whole.samples[0], after)), whole.sample_rate, ends=True)
    return None if found.said_s is None else cut_at(text, whole, found.said_s)


def summary(name: str, cuts: list[SpeechCut], count: int) -> str:
    """Returns a row of the table; also prints the cuts that take a word."""
    wrong = [cut for cut in cuts if cut.is_cut and not (cut.is_silent or cut.is_after_words)]
    for cut in wrong:
        print(f"{name}: {cut}")
    silent = sum(not cut.is_cut or cut.is_silent for cut in cuts)
    late = [cut.kept_s - cut.last_word_s for cut in cuts] or [0.0]
    return f"| {name} | {count} | {len(cuts)} | {silent} | {len(wrong)} | {np.median(late):.2f} | {max(late):.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no request after this time")
    options = parser.parse_args()
    prompts, model, begun = generate(options.count, seed=0), load_acoustic(None), time.monotonic()
    with TTS(limits={"max_concurrency": AT_ONCE}) as tts, ThreadPoolExecutor(AT_ONCE) as pool:

        def speak(seed: int) -> tuple[str, Audio, Audio] | None:
            if time.monotonic() - begun > options.seconds:
                return None
            text = prompts[seed].text
            whole = tts.speak(text, seed=seed, word_timestamps=True, end_detection=False)
            return text, whole, tts.speak(text, seed=seed, end_detection=True)

        said = [one for one in pool.map(speak, range(len(prompts))) if one is not None]
    requests = [cut_at(text, whole, kept.samples.shape[1] / kept.sample_rate) for text, whole, kept in said]
    found = [cut for cut in requests if cut.is_cut]
    for cut in found:
        print(cut)
    rate = said[0][1].sample_rate
    noise = (np.random.default_rng(0).standard_normal(rate) * 10 ** (NOISE_DB / 20)).astype(np.float32)
    quiet = [ends(model, text, whole, noise) for text, whole, _ in said]
    others = [said[index - 1][1].samples[0] for index in range(len(said))]
    spoken = [ends(model, text, whole, other) for (text, whole, _), other in zip(said, others, strict=True)]
    rows = [
        summary("as it is", found, len(said)),
        summary("noise follows", [cut for cut in quiet if cut], len(said)),
        summary("speech follows", [cut for cut in spoken if cut], len(said)),
    ]
    print("\n| speech | spoken | ended | cut only silence | cut a word | median s after the last word | most |")
    print("|---|---|---|---|---|---|---|", *rows, sep="\n")
    print(f"\n{sum(differs(kept, whole) for _, whole, kept in said)} differ before the cut")


if __name__ == "__main__":
    main()

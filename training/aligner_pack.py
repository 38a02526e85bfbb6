"""Makes speech of several engines small enough to carry to the machine that trains: about 3 KB per second.

    python aligner_pack.py make SENTENCES.txt.gz SPEECH --engines espeak-ng-data's folder --seconds 400
    python aligner_pack.py check SPEECH

A plain transform codec: a modified cosine transform of 40 ms windows at 16 kHz, whose coefficients are rounded to a
part of their band's level, compressed by LZMA. It needs numpy alone to decode. Voices keep their spectrum; the
rounding noise is about 10 dB below each band.
"""

from __future__ import annotations

import argparse
import gzip
import lzma
import time
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aligner_engines import ESPEAK_VARIANTS, FLITE_VOICES, EspeakTeacher, FliteTeacher
from aligner_speech import SpeltUtterance, read_utterances, sound, write_utterances
from rhapsode.audio.sinc import resample_sinc

RATE, HOP = 16_000, 320
HELD_OUT = 400
"""The first sentences are never learned from."""
EDGES = np.array([0, 4, 8, 12, 16, 20, 26, 32, 40, 50, 62, 76, 92, 110, 130, 155, 185, 220, 260, 320])
"""Bands of 25 Hz wide bins."""
STEPS = np.where(EDGES[1:] <= 92, 1.1, 1.9).astype(np.float32)
"""The rounding step of each band, as a share of its level."""
_WIDTHS = np.diff(EDGES)
_WINDOW = np.sin(np.pi * (np.arange(2 * HOP) + 0.5) / (2 * HOP)).astype(np.float32)
_BASIS = (
    np.sqrt(2 / HOP)
    * np.cos(np.pi / HOP * (np.arange(2 * HOP)[:, None] + 0.5 + HOP / 2) * (np.arange(HOP) + 0.5))
    * _WINDOW[:, None]
).astype(np.float32)  # [2 HOP, HOP]


def encode(audio: NDArray[np.int16]) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Returns the levels of the bands `[F, bands]` in steps of 3 dB and the rounded coefficients `[F, HOP]`."""
    frames = -(-len(audio) // HOP) + 1
    padded = np.zeros((frames + 1) * HOP, np.float32)
    padded[HOP : HOP + len(audio)] = audio / 32768
    coefficients = np.lib.stride_tricks.sliding_window_view(padded, 2 * HOP)[::HOP] @ _BASIS
    energy = np.add.reduceat(np.square(coefficients), EDGES[:-1], axis=1) / _WIDTHS
    levels = (np.log2(energy + 1e-12)).round().clip(-30, 10).astype(np.int8)
    rounded = (coefficients / _scale(levels)).round().clip(-99, 99).astype(np.int8)
    rounded[np.repeat(levels <= -26, _WIDTHS, axis=1)] = 0
    return levels, rounded


def decode(levels: NDArray[np.int8], rounded: NDArray[np.int8], samples: int) -> NDArray[np.int16]:
    parts = (rounded * _scale(levels)) @ _BASIS.T  # [F, 2 HOP]
    whole = np.zeros((len(parts) + 1) * HOP, np.float32)
    whole[:-HOP] += parts[:, :HOP].reshape(-1)
    whole[HOP:] += parts[:, HOP:].reshape(-1)
    return (whole[HOP : HOP + samples].clip(-1, 1) * 32767).round().astype(np.int16)


def _scale(levels: NDArray[np.int8]) -> NDArray[np.float32]:
    return np.repeat(np.exp2(levels.astype(np.float32) / 2) * STEPS, _WIDTHS, axis=1)


def write_packed(path: Path, made: list[SpeltUtterance]) -> None:
    coded = [encode(said.audio) for said in made]
    head = path.with_suffix(".npz")
    silent = [said._replace(audio=np.zeros(0, np.int16)) for said in made]
    write_utterances(head, silent)
    levels = np.concatenate([one for one, _ in coded])
    rounded = np.concatenate([one for _, one in coded])
    sizes = np.array([(len(one), len(said.audio)) for (one, _), said in zip(coded, made, strict=True)], np.int32)
    content = len(sizes).to_bytes(4, "little") + sizes.tobytes() + levels.tobytes() + rounded.tobytes()
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "lc": 4, "lp": 0, "pb": 0}]
    path.write_bytes(lzma.compress(content, lzma.FORMAT_XZ, filters=filters))


def read_packed(path: Path) -> list[SpeltUtterance]:
    content = lzma.decompress(path.read_bytes())
    count = int.from_bytes(content[:4], "little")
    sizes = np.frombuffer(content, np.int32, 2 * count, 4).reshape(-1, 2)
    frames, bands = int(sizes[:, 0].sum()), len(EDGES) - 1
    levels = np.frombuffer(content, np.int8, frames * bands, 4 + sizes.nbytes).reshape(-1, bands)
    rounded = np.frombuffer(content, np.int8, frames * HOP, 4 + sizes.nbytes + levels.nbytes).reshape(-1, HOP)
    found, at = [], 0
    for said, (length, samples) in zip(read_utterances(path.with_suffix(".npz")), sizes.tolist(), strict=True):
        part = slice(at, at + length)
        found.append(said._replace(rate=RATE, audio=decode(levels[part], rounded[part], samples)))
        at += length
    return found


def _speak(
    sentences: list[str], data: str, voice: str, seconds: float, rng: np.random.Generator
) -> list[SpeltUtterance]:
    flite = FliteTeacher(voice) if voice in FLITE_VOICES else None
    espeak = EspeakTeacher(data) if flite is None else None
    made: list[SpeltUtterance] = []
    while sum(said.seconds for said in made) < seconds:
        text, pace = sentences[rng.integers(len(sentences))], float(np.exp(rng.normal(0.05, 0.2)).clip(0.7, 1.6))
        said = flite.say(text, pace) if flite else espeak.say(text, voice, pace) if espeak else None
        if said is not None and sound(said):
            audio = resample_sinc(said.audio.astype(np.float32)[None], said.rate, RATE)[0]
            made.append(said._replace(rate=RATE, audio=audio.clip(-32768, 32767).astype(np.int16)))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=("make", "check"))
    parser.add_argument("sentences", type=Path)
    parser.add_argument("speech", type=Path)
    parser.add_argument("--engines", default="/usr/lib/x86_64-linux-gnu", help="the folder that has espeak-ng-data")
    parser.add_argument("--seconds", type=float, default=400.0, help="per file; eSpeak's have a third")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if options.job == "check":
        for path in sorted(options.speech.glob("*.xz")):
            found = read_packed(path)
            print(path.name, f"{sum(said.seconds for said in found) / 60:.1f} min", all(map(sound, found)))
        return
    options.speech.mkdir(parents=True, exist_ok=True)
    jobs = [(options, number, voice) for number, voice in enumerate(_plan())]
    with Pool(options.processes) as pool:
        pool.starmap(_pack, jobs, chunksize=1)


def _plan() -> list[str]:
    """Returns the voice of each file, mixed, so that every portion of the files is like the whole."""
    rounds = [[*FLITE_VOICES, *(f"en-us+{name}" for name in ESPEAK_VARIANTS[part::3])] for part in range(3)]
    return [voice for some in rounds for voice in some]


def _pack(options: argparse.Namespace, number: int, voice: str) -> None:
    path, begun = options.speech / f"{number:02}-{voice.replace('+', '-')}.xz", time.time()
    with gzip.open(options.sentences, "rt", encoding="utf-8") as lines:
        sentences = [line.strip() for line in lines][HELD_OUT:]
    if not path.exists():
        seconds = options.seconds if voice in FLITE_VOICES else options.seconds / 3
        write_packed(path, _speak(sentences, options.engines, voice, seconds, np.random.default_rng(number)))
        print(path.name, path.stat().st_size, f"{time.time() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()

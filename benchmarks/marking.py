"""Measures the watermark: survival by transform, false detections, cost, and what a judge of speech hears of it.

    python benchmarks/marking.py                           # 200 clips per transform, 30,000 clean clips
    python benchmarks/marking.py --clean 0 --clips 50      # survival only, quickly
    python benchmarks/marking.py --recordings speech/      # real recordings among the clean clips
    python benchmarks/marking.py --clips 0 --clean 0 --mos 60   # needs the packages distillmos and torchaudio

Speech comes from the packaged voice, and from hibari where it is installed. Prints Markdown.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from numpy.typing import NDArray

from rhapsode import TTS
from rhapsode.audio.clip import Audio
from rhapsode.audio.resample import resample
from rhapsode.audio.tempo import Tempo
from rhapsode.bench.quality.generated import generate
from rhapsode.marking.detect import Detection, detect
from rhapsode.marking.payload import HOUR_BITS, Payload
from rhapsode.marking.watermark import Watermark
from rhapsode.types import Clip

RATE = 24_000
CLEAN_RATE = 16_000  # the detector's own, since there are many clean clips
CLIP_S = 5.0
NOW = datetime(2027, 1, 1, tzinfo=UTC)
Wave = NDArray[np.float32]  # [samples], 24 kHz mono


def through_codec(wave: Wave, container: str, codec: str, sample_format: str, bit_rate: int, rate: int = RATE) -> Wave:
    """Returns what is left of audio after a lossy codec."""
    file = io.BytesIO()
    with av.open(file, "w", format=container) as sink:
        stream = cast("AudioStream", sink.add_stream(codec, rate=rate, layout="mono"))
        stream.codec_context.bit_rate = bit_rate
        stream.codec_context.format = sample_format
        samples = resample(wave[None], RATE, rate)
        frame = AudioFrame.from_ndarray(np.clip(samples, -1, 1), format=sample_format, layout="mono")
        frame.sample_rate, frame.time_base, frame.pts = rate, Fraction(1, rate), 0
        sink.mux(stream.encode(frame))
        sink.mux(stream.encode(None))
    file.seek(0)
    with av.open(file) as source:
        found = np.concatenate([frame.to_ndarray() for frame in source.decode(audio=0)], axis=1)
        return resample(found.astype(np.float32), source.streams.audio[0].rate, RATE)[0]


def through_rate(wave: Wave, rate: int) -> Wave:
    return resample(resample(wave[None], RATE, rate), rate, RATE)[0]


def stretched(wave: Wave, speed: float) -> Wave:
    """Returns the audio at another speed and the same pitch, as `speed` in a request makes it."""
    tempo = Tempo(speed, RATE)
    return np.concatenate((tempo.write(wave[None]), tempo.close()), axis=1)[0]


def played(wave: Wave, speed: float) -> Wave:
    """Returns the audio at another speed and pitch, as a tape plays it."""
    return resample(wave[None], round(RATE * speed), RATE)[0]


TRANSFORMS: dict[str, Callable[[Wave], Wave]] = {
    "opus, 24 kb/s": lambda wave: through_codec(wave, "ogg", "libopus", "flt", 24_000),
    "mp3, 64 kb/s": lambda wave: through_codec(wave, "mp3", "libmp3lame", "fltp", 64_000),
    "aac, 64 kb/s": lambda wave: through_codec(wave, "adts", "aac", "fltp", 64_000),
    "speed 0.9, same pitch": lambda wave: stretched(wave, 0.9),
    "speed 1.1, same pitch": lambda wave: stretched(wave, 1.1),
    "speed 0.9, lower pitch": lambda wave: played(wave, 0.9),
    "speed 1.1, higher pitch": lambda wave: played(wave, 1.1),
    "16 kHz and back": lambda wave: through_rate(wave, 16_000),
    "44.1 kHz and back": lambda wave: through_rate(wave, 44_100),
    "gain -20 dB, 16 bits": lambda wave: (np.round(wave * 3276.8) / 32768).astype(np.float32),
    "none": lambda wave: wave,
    "mp3, 32 kb/s": lambda wave: through_codec(wave, "mp3", "libmp3lame", "fltp", 32_000),
    "opus, 16 kb/s": lambda wave: through_codec(wave, "ogg", "libopus", "flt", 16_000),
    "8 kHz and back": lambda wave: through_rate(wave, 8_000),
    "speed 1.1, then opus, 24 kb/s": lambda wave: TRANSFORMS["opus, 24 kb/s"](stretched(wave, 1.1)),
}
"""Those that the watermark must survive come first; the last four are harder."""


def speech(model: str, minutes: float, cache: Path | None) -> Wave:
    """Returns speech of one voice, sentence after sentence; what was made before is read from the cache."""
    kept = cache / f"{model}-{minutes:g}.npy" if cache else None
    if kept and kept.exists():
        return cast("Wave", np.load(kept))
    found: list[Wave] = []
    with TTS(model) as tts:
        assert tts.sample_rate == RATE
        for seed, prompt in enumerate(generate(10_000, 5)):
            found.append(tts.speak(prompt.text, seed=seed).samples[0])
            if sum(map(len, found)) >= minutes * 60 * RATE:
                break
    wave = np.concatenate(found)
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.save(kept, wave)
    return wave


def recordings(folder: Path) -> Wave:
    files = [file for file in sorted(folder.rglob("*")) if file.suffix in (".wav", ".flac", ".mp3", ".ogg")]
    return np.concatenate([Audio.open(file, sample_rate=RATE).samples.mean(axis=0) for file in files])


def cut(wave: Wave, seconds: float, chance: np.random.Generator, rate: int = RATE) -> Wave:
    length = round(seconds * rate)
    start = int(chance.integers(0, len(wave) - length))
    return wave[start : start + length]


def found_in(wave: Wave, rate: int = RATE) -> Detection:
    return detect(Clip(wave[None], rate), NOW)


def measure_survival(voices: dict[str, Wave], clips: int, seed: int) -> None:
    print(f"\n| transform | {' | '.join(f'{voice}: found, payload right, score' for voice in voices)} |")
    print(f"|---|{'---|' * len(voices)}")
    for name, transform in TRANSFORMS.items():
        cells = [f"{name}"]
        for wave in voices.values():
            chance = np.random.default_rng(seed)
            found = right = 0
            scores = []
            for _ in range(clips):
                hour = int(chance.integers(0, 24 * 365))
                payload = Payload(int(chance.integers(0, 2**16)), min(hour, 2**HOUR_BITS - 1))
                marked = Watermark(payload, RATE).write(cut(wave, CLIP_S * 1.3, chance)[None])[0]
                detection = found_in(cut(transform(marked), CLIP_S, chance))
                found += detection.found
                right += detection.payload == payload
                scores.append(detection.score)
            cells.append(f"{found / clips:.1%}, {right / clips:.1%}, {np.mean(scores):.1f} (least {min(scores):.1f})")
        print(f"| {' | '.join(cells)} |", flush=True)


def clean_clips(sources: dict[str, Wave], count: int, seed: int) -> Iterator[tuple[str, Wave]]:
    """Yields clips without a watermark, from each source in turn: cut anywhere, at any speed and gain, with noise."""
    chance = np.random.default_rng(seed)
    hiss = chance.normal(size=4 * 60 * CLEAN_RATE).astype(np.float32)
    names = list(sources)
    for index in range(count):
        name = names[index % len(names)]
        clip = played(cut(sources[name], CLIP_S * 1.4, chance, CLEAN_RATE), float(chance.uniform(0.8, 1.25)))
        clip = clip[: round(CLIP_S * CLEAN_RATE)]
        clip = clip + cut(hiss, CLIP_S, chance, CLEAN_RATE)[: len(clip)] * np.float32(10 ** chance.uniform(-5, -2))
        yield name, np.clip(clip * np.float32(10 ** chance.uniform(-1, 0.3)), -1, 1)


def in_a_room(wave: Wave, chance: np.random.Generator) -> Wave:
    """Returns the audio with random echoes for 100 ms, other ones every ten seconds."""
    blocks = []
    for start in range(0, len(wave), 10 * CLEAN_RATE):
        block = wave[start : start + 10 * CLEAN_RATE]
        taps = np.arange(CLEAN_RATE // 10)
        room = chance.normal(size=len(taps)) * np.exp(-taps / len(taps) * 4) * chance.uniform(0.01, 0.1)
        size = 2 ** (len(block) + len(room)).bit_length()
        blocks.append(block + np.fft.irfft(np.fft.rfft(block, size) * np.fft.rfft(room, size))[: len(block)])
    return np.concatenate(blocks).astype(np.float32)


def noise(seconds: float, chance: np.random.Generator) -> Wave:
    """Returns noise whose spectrum has another slope, and another level, every second."""
    blocks = []
    for _ in range(round(seconds)):
        spectrum = np.fft.rfft(chance.normal(size=RATE))
        spectrum[1:] *= np.arange(1, len(spectrum)) ** chance.uniform(-1, 0.3)
        wave = np.fft.irfft(spectrum, RATE)
        blocks.append(chance.uniform(0.01, 0.5) * wave / np.abs(wave).max())
    return np.concatenate(blocks).astype(np.float32)


def tones(seconds: float, chance: np.random.Generator) -> Wave:
    """Returns decaying notes with harmonics, four a second and some at once, as music has them."""
    wave = 1e-4 * chance.normal(size=round((seconds + 2) * RATE))
    note_s = np.arange(2 * RATE) / RATE
    for _ in range(round(4 * seconds)):
        hz = 55 * 2 ** (chance.integers(0, 48) / 12)
        harmonics = np.arange(1, int(chance.integers(2, 12)))[:, None]
        note = (np.sin(2 * np.pi * hz * harmonics * note_s) / harmonics).sum(axis=0)
        start = int(chance.uniform(0, seconds) * RATE)
        wave[start : start + len(note)] += note * np.exp(-note_s * chance.uniform(0.5, 5))
    return (0.5 * wave / np.abs(wave).max()).astype(np.float32)


def measure_clean(sources: dict[str, Wave], count: int, seed: int) -> None:
    scores: dict[str, list[float]] = {}
    false = 0
    started_s = time.monotonic()
    for index, (name, wave) in enumerate(clean_clips(sources, count, seed)):
        detection = found_in(wave, CLEAN_RATE)
        false += detection.found
        scores.setdefault(name, []).append(detection.score)
        if index % 1000 == 999:
            print(f"{index + 1} clean clips, {false} found, {time.monotonic() - started_s:.0f} s", file=sys.stderr)
    print("\n| clean clips | number | mean score | 99.9% | largest |\n|---|---|---|---|---|")
    for name, found in scores.items():
        high = np.quantile(found, 0.999)
        print(f"| {name} | {len(found)} | {np.mean(found):.2f} | {high:.2f} | {max(found):.2f} |")
    print(f"\nFalse detections: {false} of {count}.", flush=True)


def measure_cost(wave: Wave) -> None:
    payload = Payload.at("benchmark", NOW - timedelta(days=1))
    minute = wave[None, : 60 * RATE]
    mark = Watermark(payload, RATE)
    started_s = time.process_time()
    for start in range(0, minute.shape[1], 1920):
        mark.write(minute[:, start : start + 1920])
    mark_ms = (time.process_time() - started_s) / 60 * 1000
    started_s = time.process_time()
    for start in range(10):
        found_in(wave[start * 5 * RATE : (start + 1) * 5 * RATE])
    detect_ms = (time.process_time() - started_s) / 50 * 1000
    print(
        f"\nCPU time per second of 24 kHz audio: {mark_ms:.2f} ms to mark (80 ms chunks), {detect_ms:.1f} ms to detect."
    )


def measure_mos(voices: dict[str, Wave], clips: int, seed: int) -> None:
    """Prints the difference that the watermark makes to DistillMOS, a judge of naturalness from 1 to 5."""
    import distillmos
    import torch

    torch.set_num_threads(1)
    judge = distillmos.ConvTransformerSQAModel()
    judge.eval()

    def mos(wave: Wave) -> float:
        with torch.no_grad():
            return float(judge(torch.from_numpy(resample(wave[None], RATE, 16_000))))

    print("\n| voice | clips | DistillMOS | with watermark | difference |\n|---|---|---|---|---|")
    for voice, wave in voices.items():
        chance = np.random.default_rng(seed)
        plain, marked = [], []
        for _ in range(clips):
            payload = Payload(int(chance.integers(0, 2**16)), int(chance.integers(0, 2**15)))
            clip = cut(wave, 6.0, chance)
            plain.append(mos(clip))
            marked.append(mos(Watermark(payload, RATE).write(clip[None])[0]))
        difference = np.subtract(marked, plain)
        error = difference.std() / clips**0.5
        print(
            f"| {voice} | {clips} | {np.mean(plain):.3f} | {np.mean(marked):.3f} "
            f"| {difference.mean():+.3f} ± {error:.3f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=200, help="marked clips per transform and voice")
    parser.add_argument("--clean", type=int, default=30_000, help="clips without a watermark")
    parser.add_argument("--mos", type=int, default=0, help="clips per voice for DistillMOS")
    parser.add_argument("--minutes", type=float, default=6, help="speech of each voice")
    parser.add_argument("--recordings", type=Path, help="a folder of real speech, as further clean audio")
    parser.add_argument("--cache", type=Path, help="a folder to keep the speech in, for the next time")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    models = ["rhapsode-nano", *(["hibari"] if find_spec("hibari") else [])]
    voices = {model: speech(model, asked.minutes, asked.cache) for model in models}
    measure_cost(voices["rhapsode-nano"])
    if asked.clips:
        measure_survival(voices, asked.clips, asked.seed)
    if asked.mos:
        measure_mos(voices, asked.mos, asked.seed)
    if asked.clean:
        chance = np.random.default_rng(asked.seed)
        others = {"noise": noise(120, chance), "tones": tones(120, chance)}
        if asked.recordings:
            others["recordings"] = recordings(asked.recordings)
        sources = {name: resample(wave[None], RATE, CLEAN_RATE)[0] for name, wave in (voices | others).items()}
        rooms = {f"{name}, in a room": in_a_room(sources[name], chance) for name in sources if name != "noise"}
        measure_clean(sources | rooms, asked.clean, asked.seed)


if __name__ == "__main__":
    main()

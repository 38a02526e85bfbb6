"""Makes the speech that `alignment.py` measures, and asks others when its words are said.

    python benchmarks/alignment_speech.py hibari OUT --teacher teacher.onnx --whisper FOLDER
    python benchmarks/alignment_speech.py nano OUT --whisper FOLDER
    python benchmarks/alignment_speech.py recorded OUT --whisper FOLDER --sounds SOUNDS --transcripts core-sounds-en.txt

Each clip becomes `OUT/NAME.npy` (mono samples) and `OUT/NAME.json`: its text as it is spoken, and times of its words
by each judge. What exists is kept. The judges are hibari's own durations (`teacher.onnx`: see training/README.md),
Whisper (a CTranslate2 folder for the package faster-whisper) and the forced alignment of pocketsphinx.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
from numpy.typing import NDArray

from rhapsode import TTS
from rhapsode.audio.sinc import resample_sinc
from rhapsode.bench.quality.prompts import read_prompts
from rhapsode.text.front_end import FrontEnd, TextSettings
from rhapsode.text.spoken import SpokenRun

Wave = NDArray[np.float32]  # [samples], mono
Times = list[tuple[str, float, float]]
"""Words with their start and end in seconds."""
JUDGE_RATE = 16_000
LATE_S = 0.05
"""What training takes from hibari's durations, `aligner_voices.LATE_S`: the report has the plain ones, too."""


class SpokenClip(NamedTuple):
    """Speech, its text in spoken words, and when they are said by each judge."""

    name: str
    text: str
    wave: Wave
    rate: int
    times: dict[str, Times]


def spoken(text: str) -> str:
    """Returns a text with its numbers in words, without hyphens and brackets."""
    front_end = FrontEnd(TextSettings(language="en", normalise=True))
    events = [*front_end.push(text), *front_end.close()]
    said = "".join(event.text for event in events if isinstance(event, SpokenRun))
    said = said.replace("’", "'").replace("-", " ").replace("–", ", ").replace("—", ", ").replace(" o'clock", " oclock")
    return " ".join(re.sub(r"[\"“”()]", "", said).split())


def letters(word: str) -> str:
    """Returns how a word is compared with another judge's."""
    return re.sub(r"[^a-z]", "", word.lower())


def prompts(count: int) -> list[tuple[str, str]]:
    """Returns texts that no voice and no aligner was trained on, of all kinds."""
    found = read_prompts()
    return [(one.id, spoken(one.text)) for one in found[:: max(1, len(found) // count)][:count]]


def hibari_clips(count: int, teacher: str) -> Iterator[SpokenClip]:
    """Speaks prompts with hibari; its words have the durations that its network predicts."""
    sys.path.append(str(Path(__file__).parents[1] / "training"))
    from aligner_voices import HibariTeacher, Tract

    voice = HibariTeacher(teacher, seed=0)
    for name, text in prompts(count):
        said = voice.say(re.sub(r"[^a-zA-Z' ,.;:!?]", "", text), Tract())
        if said is None:
            print(f"no durations: {text}")
            continue
        spans: list[tuple[float, float]] = []
        for start, end in said.times[:, 2:].tolist():
            if not spans or spans[-1][0] != start:
                spans.append((start, end))
        words = [word for word in text.split() if letters(word)]
        times = [(word, start, end) for word, (start, end) in zip(words, spans, strict=True)]
        yield SpokenClip(name, text, said.audio.astype(np.float32) / 32768, said.rate, {"durations": times})


def nano_clips(count: int) -> Iterator[SpokenClip]:
    """Speaks prompts with the packaged voice."""
    with TTS(limits={"max_concurrency": 1}) as tts:
        for seed, (name, text) in enumerate(prompts(count)):
            audio = tts.speak(text, seed=seed)
            yield SpokenClip(name, text, audio.samples[0], audio.sample_rate, {})


def recorded_clips(count: int, sounds: Path, transcripts: Path) -> Iterator[SpokenClip]:
    """Reads real recordings: `path: text` per line, and files of that path with the ending g722."""
    lines = re.findall(r"^([\w/.-]+):\s*(.+)$", transcripts.read_text("utf-8"), re.MULTILINE)
    found = [(name, spoken(text)) for name, text in lines if re.fullmatch(r"[\w',.!?;: -]+", text)]
    found = [(name, text) for name, text in found if len(text.split()) >= 4 and (sounds / f"{name}.g722").exists()]
    for name, text in found[:: max(1, len(found) // count)][:count]:
        with av.open(str(sounds / f"{name}.g722"), format="g722") as file:
            pieces = [frame.to_ndarray().reshape(-1) for frame in file.decode(audio=0)]
        yield SpokenClip(name.replace("/", "-"), text, np.concatenate(pieces).astype(np.float32) / 32768, 16_000, {})


class WhisperJudge:
    """Recognises the words, and says when they are by its attention: rough, and often early at pauses."""

    def __init__(self, folder: str) -> None:
        from faster_whisper import WhisperModel

        self._model = WhisperModel(folder, device="cpu", compute_type="int8", cpu_threads=1)

    def __call__(self, wave: Wave, text: str) -> Times:
        segments, _ = self._model.transcribe(wave, language="en", beam_size=1, temperature=0.0, word_timestamps=True)
        return [(word.word, float(word.start), float(word.end)) for segment in segments for word in segment.words or ()]


class SphinxJudge:
    """Aligns the known text by hidden Markov models of phonemes, in steps of 10 ms. Unknown words: no times."""

    def __init__(self) -> None:
        from pocketsphinx import Decoder

        self._decoder = Decoder(samprate=JUDGE_RATE, loglevel="FATAL", bestpath=False)

    def __call__(self, wave: Wave, text: str) -> Times:
        words = [re.sub(r"[^a-z']", "", word.lower()) for word in text.split()]
        words = [word for word in words if word]
        decoder: Any = self._decoder
        if any(decoder.lookup_word(word) is None for word in words):
            return []
        decoder.set_align_text(" ".join(words))
        decoder.start_utt()
        decoder.process_raw((wave.clip(-1, 1) * 32767).astype(np.int16).tobytes(), full_utt=True)
        decoder.end_utt()
        found = [(one.word, one.start_frame / 100, (one.end_frame + 1) / 100) for one in decoder.seg() or ()]
        said = [(re.sub(r"\(\d+\)$", "", word), start, end) for word, start, end in found if word[0] not in "<[+"]
        return said if [word for word, _, _ in said] == words else []


def read_clips(folder: Path) -> list[SpokenClip]:
    found = []
    for path in sorted(folder.glob("*.json")):
        body = json.loads(path.read_text("utf-8"))
        times = {judge: [(word, start, end) for word, start, end in said] for judge, said in body["times"].items()}
        found.append(SpokenClip(path.stem, body["text"], np.load(path.with_suffix(".npy")), body["rate"], times))
    return found


def write_clip(folder: Path, clip: SpokenClip) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{clip.name}.npy", clip.wave)
    body = {"text": clip.text, "rate": clip.rate, "times": clip.times}
    (folder / f"{clip.name}.json").write_text(json.dumps(body), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", choices=("hibari", "nano", "recorded"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--teacher", default="teacher.onnx")
    parser.add_argument("--whisper", help="without it, Whisper is not asked")
    parser.add_argument("--sounds", type=Path)
    parser.add_argument("--transcripts", type=Path)
    options = parser.parse_args()
    if not list(options.out.glob("*.json")):
        makers = {
            "hibari": lambda: hibari_clips(options.count, options.teacher),
            "nano": lambda: nano_clips(options.count),
            "recorded": lambda: recorded_clips(options.count, options.sounds, options.transcripts),
        }
        for clip in makers[options.source]():
            write_clip(options.out, clip)
    judges: dict[str, Any] = {"pocketsphinx": SphinxJudge()}
    if options.whisper:
        judges["whisper"] = WhisperJudge(options.whisper)
    for clip in read_clips(options.out):
        wave = resample_sinc(clip.wave[None], clip.rate, JUDGE_RATE)[0]
        missing = {judge: ask(wave, clip.text) for judge, ask in judges.items() if judge not in clip.times}
        write_clip(options.out, clip._replace(times={**clip.times, **missing}))


if __name__ == "__main__":
    main()

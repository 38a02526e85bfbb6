"""Evaluates every preset of a voice: words, naturalness and likeness, over 200 written and 500 generated prompts.

    python evaluate.py VOICE WORK --recogniser path/to/ctranslate2-whisper --minutes 10

Run it again until nothing is left. `--steps speak` needs no recogniser, `--steps hear` no voice; WORK has the speech
(FLAC) and a line for each measured clip. The table at the end is of what is known so far.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from records import Records, Task, tasks
from report import present
from rhapsode import TTS, Audio
from rhapsode.bench.quality import sound
from rhapsode.bench.quality.judges import judges
from rhapsode.bench.quality.normalise import normalise
from rhapsode.bench.quality.recogniser import make_recogniser
from rhapsode.errors import RhapsodeError
from rhapsode.models.registry import find
from rhapsode.types import Clip, SpeechRequest, Voice

STEPS = ("speak", "hear", "report")


class Clock:
    """Ends a step when its minutes are over."""

    def __init__(self, minutes: float) -> None:
        self._end_s = time.monotonic() + 60 * minutes

    def while_there_is_time(self, some: Iterable[Task], name: str) -> Iterable[Task]:
        left = list(some)
        for done, task in enumerate(left):
            if time.monotonic() > self._end_s:
                print(f"{name}: {len(left) - done} left", file=sys.stderr)
                return
            yield task
        print(f"{name}: complete", file=sys.stderr)


def path_of(work: Path, task: Task) -> Path:
    return work / task.voice / f"{task.set}-{task.prompt.id}.flac"


def speak(model: str, work: Path, wanted: list[Task], clock: Clock) -> None:
    spoken = Records(work / "spoken.jsonl")
    left = [task for task in wanted if task.key not in spoken]
    if not left:
        print("speech: complete", file=sys.stderr)
        return
    with TTS(model) as tts:
        for task in clock.while_there_is_time(left, "speech"):
            request = SpeechRequest(task.prompt.text, Voice(name=task.voice), seed=task.seed)
            spoken.add(task.key, **_spoken(tts, request, path_of(work, task)))


def _spoken(tts: TTS, request: SpeechRequest, path: Path) -> dict[str, Any]:
    """Speaks and saves one prompt; returns its times and what is wrong with it."""
    started_s, first_s, chunks = time.perf_counter(), 0.0, []
    try:
        with tts.stream(request) as stream:
            for chunk in stream:
                first_s = first_s or time.perf_counter() - started_s
                chunks.append(chunk.samples)
        clip = Clip(np.concatenate(chunks, axis=1), tts.sample_rate)
        total_s = time.perf_counter() - started_s
        path.parent.mkdir(parents=True, exist_ok=True)
        Audio(clip.samples, clip.sample_rate).save(path)
        sound.check(clip, normalise(request.text, "en"))
    except sound.Unsound as error:
        return {"error": error.kind}
    except RhapsodeError as error:
        return {"error": error.code}
    return {"error": None, "audio_s": clip.duration_s, "rtf": total_s / clip.duration_s, "first_audio_s": first_s}


def hear(work: Path, wanted: list[Task], recogniser: str | None, clock: Clock) -> None:
    """Measures what is spoken. Each measure has a file of its own, so that one can be added later."""
    spoken = Records(work / "spoken.jsonl").found
    sounding = [task for task in wanted if task.key in spoken and spoken[task.key]["error"] is None]
    for name, measure in _measures(recogniser):
        known = Records(work / f"{name}.jsonl")
        for task in clock.while_there_is_time([task for task in sounding if task.key not in known], name):
            known.add(task.key, value=measure(Audio.open(path_of(work, task))))


def _measures(recogniser: str | None) -> list[tuple[str, Callable[[Clip], Any]]]:
    found: list[tuple[str, Callable[[Clip], Any]]] = []
    if recogniser is not None:
        listener = make_recogniser(recogniser)
        assert listener is not None, "none hears nothing"
        found.append(("words", lambda clip: listener.transcribe(clip, "en")))
    known, notes = judges()
    print(*notes, sep="\n", end="\n" if notes else "", file=sys.stderr)
    for judge in known:
        if judge.metric == "similarity":
            found.append(("likeness", _listen()))
        else:
            found.append((judge.metric, lambda clip, judge=judge: judge.score(clip, None)))
    return found


def _listen() -> Callable[[Clip], Any]:
    from likeness import Listener

    ear = Listener()
    return lambda clip: np.round(ear.embed([clip])[0], 4).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="the voice's folder")
    parser.add_argument("work", type=Path)
    parser.add_argument("--recogniser", help="without it, words are not heard")
    parser.add_argument("--minutes", type=float, default=1e6, help="for all steps together")
    parser.add_argument("--steps", default=",".join(STEPS), help=f"some of {', '.join(STEPS)}")
    parser.add_argument("--voices", help="all, unless some are named")
    parser.add_argument("--most", type=int, help="prompts of each set")
    parser.add_argument("--generated", type=int, default=500, help="generated prompts")
    options = parser.parse_args()
    steps = options.steps.split(",")
    if unknown := set(steps) - set(STEPS):
        parser.error(f"--steps takes some of {', '.join(STEPS)}, not {', '.join(sorted(unknown))}")
    voices = options.voices.split(",") if options.voices else list(find(options.model).info().voices)
    wanted, clock = tasks(voices, options.most, options.generated), Clock(options.minutes)
    if "speak" in steps:
        speak(options.model, options.work, wanted, clock)
    if "hear" in steps:
        hear(options.work, wanted, options.recogniser, clock)
    if "report" in steps:
        print(present(options.work, wanted))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    main()

"""Speaks a few texts with another implementation, or from another folder, and compares."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rhapsode.bench.quality import comparable
from rhapsode.bench.quality.recogniser import Recogniser
from rhapsode.bench.stats import rounded
from rhapsode.config import resolve
from rhapsode.errors import InvalidRequest, MissingDependency, RhapsodeError
from rhapsode.models.registry import Model, find
from rhapsode.published.differences import compare
from rhapsode.published.trace import FRAMES, FrameRecorder, SpeechTrace
from rhapsode.published.voices import DESCRIPTION, ModeVoices
from rhapsode.tts import TTS
from rhapsode.types import Clip, Reference, Sampling, SpeechRequest, Voice
from rhapsode.verify.modes import SENTENCES, sentence_for

ADAPTERS = Path(__file__).parent / "upstream"
MORE_SENTENCES = ("Where did you put the keys?", "It rained all morning, and nobody came.")
WITHOUT_CHANCE: Mapping[str, Mapping[str, Any]] = {"higgs-v2": {"ras_limit": 0}}
"""Options with which a greedy request of a family draws nothing."""
SEED = 7


class UpstreamFailed(RhapsodeError):
    """Upstream's package could not be run."""

    code = "upstream_failed"


@dataclass(frozen=True)
class Beside:
    """The other side of a comparison."""

    python: str | None = None
    """The Python of an environment with upstream's package; None: ours speaks both."""
    checkpoint: str | None = None
    """Another folder for the other side: the original of a copy."""


def adapter_of(family: str) -> Path:
    """Returns the script that runs a family's own package."""
    script = ADAPTERS / f"speak_{family.replace('-', '_')}.py"
    if not script.is_file():
        known = sorted(p.stem.removeprefix("speak_").replace("_", "-") for p in ADAPTERS.glob("speak_*.py"))
        raise InvalidRequest(f"there is no adapter for {family}'s own package: there is one for {', '.join(known)}.")
    return script


def measure_beside(
    name: str, model: Model, voices: ModeVoices, beside: Beside, recogniser: Recogniser | None, device: str = "cpu"
) -> dict[str, Any]:
    """Returns how our speech differs from the other side's, text by text."""
    with tempfile.TemporaryDirectory(prefix="rhapsode-beside-") as temporary:
        folder = Path(temporary)
        items = list(_items(voices, folder))
        ours = our_traces(name, model, voices, items, device)
        spoken = [{**item, "text": ours[item["id"]][0]} for item in items if item["id"] in ours]
        if beside.python is None:
            other = beside.checkpoint or name
            package, theirs = f"rhapsode on {Path(other).name}", our_traces(other, find(other), voices, items, device)
            there = {key: trace for key, (_, trace) in theirs.items()}
        else:
            package, there = upstream_traces(model, beside, spoken, folder, device)
    language, _ = sentence_for(voices.info)
    samples = [
        _sample(item, ours[item["id"]][1], there[item["id"]], recogniser, language)
        for item in spoken
        if item["id"] in there
    ]
    if not samples:
        raise UpstreamFailed(f"{package} spoke none of {len(items)} texts.")
    return {
        "upstream": package,
        "texts": len(samples),
        "ours_rtf": _rtf([ours[one["id"]][1] for one in samples]),
        "theirs_rtf": _rtf([there[one["id"]] for one in samples]),
        "samples": samples,
    }


def _items(voices: ModeVoices, folder: Path) -> Iterator[dict[str, Any]]:
    """Yields what is spoken: each mode with each sentence."""
    _, sentence = sentence_for(voices.info)
    texts = (sentence, *MORE_SENTENCES) if sentence == SENTENCES["en"] else (sentence,)
    for mode in voices.modes():
        if mode == "dialogue":
            continue
        item: dict[str, Any] = {"mode": mode, "seed": SEED}
        if mode == "presets":
            item["voice"] = voices.info.voices[0] if voices.info.voices else None
        elif mode == "clone" and voices.reference is not None:
            from rhapsode.audio.clip import Audio

            clip = voices.reference.audio
            item["reference"] = str(folder / "reference.wav")
            Audio(clip.samples, clip.sample_rate).save(item["reference"])
        elif mode == "design":
            item["description"] = DESCRIPTION
        for number, text in enumerate(texts):
            yield {**item, "id": f"{mode}-{number}", "text": text}


def our_traces(
    name: str, model: Model, voices: ModeVoices, items: Sequence[Mapping[str, Any]], device: str
) -> dict[str, tuple[str, SpeechTrace]]:
    """Returns for each item the text after our front end, and what was made of it: greedily, in float32, without
    graphs."""
    flags = {"model": name, "device": device, "dtype": "float32", "graphs": False, "limits": {"max_concurrency": 1}}
    found = {}
    with TTS.opened(model, resolve(env={}, flags=flags)) as tts:
        recorder = FrameRecorder(tts, model)
        for item in items:
            try:
                request = _request(item, voices, model)
                text = _spoken_text(tts, request)
                found[item["id"]] = (text, recorder.speak(tts, request))
            except RhapsodeError:
                continue  # `verify` has told
    return found


def _request(item: Mapping[str, Any], voices: ModeVoices, model: Model) -> SpeechRequest:
    voice = voices.voice(item["mode"])
    if voice.references:
        voice = Voice(references=(Reference(_as_stored(voice.references[0].audio)),))  # the sound alone
    greedy = Sampling(temperature=0.0) if "temperature" in model.spec.sampling else Sampling()
    options = dict(WITHOUT_CHANCE.get(model.spec.name, {}))
    most = FRAMES if any(stage.kind == "frame" for stage in model.spec.pipeline) else None
    return SpeechRequest(item["text"], voice, seed=item["seed"], sampling=greedy, max_frames=most, options=options)


def _as_stored(clip: Clip) -> Clip:
    """Returns a clip with the rounding of the 16-bit file that the other side reads."""
    from rhapsode.audio.samples import from_pcm16, pcm16

    stored = from_pcm16(pcm16(clip.samples.mean(axis=0)))
    return Clip(stored.reshape(1, -1), clip.sample_rate)


def _spoken_text(tts: TTS, request: SpeechRequest) -> str:
    """Returns what our front end writes of a text: upstream has none, and is given the same."""
    prompt = tts.engine.read(request).first()
    return request.text if prompt is None else str(prompt.text)


def upstream_traces(
    model: Model, beside: Beside, items: Sequence[Mapping[str, Any]], folder: Path, device: str
) -> tuple[str, dict[str, SpeechTrace]]:
    """Runs upstream's package in its own Python. Returns its name and version, and what it spoke."""
    script = adapter_of(model.spec.name)
    checkpoint = beside.checkpoint or (str(model.checkpoint) if model.checkpoint else "")
    job = {"checkpoint": checkpoint, "device": device, "frames": FRAMES, "items": list(items), "out": str(folder)}
    try:
        done = subprocess.run(
            [str(beside.python), str(script)], input=json.dumps(job), capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise MissingDependency(
            f"{beside.python} cannot be run: {error.strerror}. Give the Python of an environment that has the package "
            f"of {model.spec.name}: --beside upstream PATH/bin/python."
        ) from None
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    ready = next((answer["ready"] for answer in answers if "ready" in answer), None)
    if ready is None:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UpstreamFailed(f"upstream's package of {model.spec.name} does not start in {beside.python}: {last}")
    found = {}
    for answer in answers:
        if "took_s" in answer:
            with np.load(folder / f"{answer['id']}.npz") as arrays:
                frames = arrays["frames"] if "frames" in arrays.files else None
                rate = int(arrays["sample_rate"])
                found[answer["id"]] = SpeechTrace(arrays["wave"], rate, frames, answer["took_s"])
    return ready, found


def _sample(
    item: Mapping[str, Any], ours: SpeechTrace, theirs: SpeechTrace, recogniser: Recogniser | None, language: str
) -> dict[str, Any]:
    found = compare(ours, theirs)
    rates = [None if recogniser is None else _wer(item, trace, recogniser, language) for trace in (ours, theirs)]
    return {
        "id": item["id"],
        "frames": found.frames,
        "equal_frames": found.equal_frames,
        "ours_s": rounded(ours.duration_s),
        "theirs_s": rounded(theirs.duration_s),
        "mel_db": None if found.mel_db is None else rounded(found.mel_db),
        "gain": None if found.gain is None else rounded(found.gain),
        "snr_db": None if found.snr_db is None else rounded(found.snr_db),
        "ours_wer": rates[0],
        "theirs_wer": rates[1],
        "findings": list(found.findings),
    }


def _wer(item: Mapping[str, Any], trace: SpeechTrace, recogniser: Recogniser, language: str) -> float | None:
    heard = recogniser.transcribe(Clip(trace.wave[None], trace.sample_rate), language)
    rate = comparable.rate([(item["text"], heard)], language)
    return None if rate is None else rounded(rate)


def _rtf(traces: Sequence[SpeechTrace]) -> float:
    return rounded(sum(trace.took_s for trace in traces) / max(sum(trace.duration_s for trace in traces), 1e-3))

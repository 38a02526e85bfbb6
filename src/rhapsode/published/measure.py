"""Measures one checkpoint step by step: verified first, then spoken, then timed, then beside upstream."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from rhapsode.bench.machine import revision, versions
from rhapsode.bench.progress import progress
from rhapsode.bench.quality.measure import QualityPlan
from rhapsode.config import resolve
from rhapsode.device.place import pick_device
from rhapsode.errors import RhapsodeError
from rhapsode.models.registry import Model, find
from rhapsode.published.beside import adapter_of, measure_beside
from rhapsode.published.identity import Identity, identify, slug
from rhapsode.published.plan import MOST_DIALOGUES, PublishedPlan
from rhapsode.published.precision import PRECISIONS, precisions
from rhapsode.published.progress import KeptResults
from rhapsode.published.row import compose
from rhapsode.published.sample import ModeSpeaker, measure_sample
from rhapsode.published.speed import measure_speed
from rhapsode.published.steps import MeasuringPace, MeasuringStep, fitting, sample_steps, speed_steps
from rhapsode.published.voices import ModeVoices, spoken_references
from rhapsode.tts import TTS
from rhapsode.types import Clip
from rhapsode.verify.checks import checks
from rhapsode.verify.finding import CheckResult
from rhapsode.verify.modes import SENTENCES
from rhapsode.verify.report import verdict

Tell = Callable[[str], None]
EVERY_S = 30.0
"""How often a line says what is left, where there is no progress bar."""


class NotVerified(RhapsodeError):
    """The checkpoint fails `rhapsode verify`: measuring it would say nothing."""

    code = "not_verified"


@dataclass
class CheckpointMeasurement:
    """One checkpoint while it is measured."""

    name: str
    model: Model
    plan: PublishedPlan
    identity: Identity
    progress: KeptResults
    voices: ModeVoices
    device: str
    verified: list[CheckResult] = field(default_factory=list)
    """What `verify` found in this run."""

    @classmethod
    def begin(cls, name: str, plan: PublishedPlan) -> CheckpointMeasurement:
        model = find(name)
        model.check_checkpoint()
        if plan.beside is not None and plan.beside.python is not None:
            adapter_of(model.spec.name)
        identity = identify(name, model)
        recogniser = plan.heard_by.recogniser
        device = str(pick_device(plan.device))
        about = {
            "checkpoint": asdict(identity),
            "code": {"version": versions()["rhapsode"], "revision": revision()},
            "seed": plan.seed,
            "prompts": plan.prompts_from,
            "recogniser": recogniser.name if recogniser else "none",
            "judges": [judge.name for judge in plan.heard_by.judges],
            "device": device,
        }
        plan.output.mkdir(parents=True, exist_ok=True)
        kept = KeptResults(plan.output / f"{slug(identity.name)}.progress.jsonl", about)
        info, reference, answering = model.info(), plan.reference, None
        if info.takes_recordings:
            first, answering = spoken_references()
            reference = reference or first
        found = cls(name, model, plan, identity, kept, ModeVoices(model.spec, info, reference, answering), device)
        found.steps()  # raises where the plan asks for what the checkpoint has not
        return found

    # --- the steps ---

    def run(self, tell: Tell) -> dict[str, Any]:
        """Makes every step that is not made yet, and returns the row."""
        self._verify(tell)
        pace = self._pace()
        chosen, left = fitting(self.steps(), pace, self.plan.budget_s)
        todo = [step for step in chosen if step.key not in self.progress.results]
        left = [step for step in left if step.key not in self.progress.results]
        expected_s = sum(pace.cost_s(step) for step in todo)
        tell(
            f"{self.identity.name}: {len(chosen) - len(todo)} of {len(chosen)} steps are done, "
            f"about {_minutes(expected_s)} left{f'; {len(left)} do not fit into the budget' if left else ''}"
        )
        self._make(todo, pace, tell)
        row = compose(self.identity, self.plan, self.progress.results, len(left))
        if not left:
            self.progress.delete()
        return row

    def steps(self) -> list[MeasuringStep]:
        names = [one.name for one in precisions(self.plan.precision, pick_device(self.device).type, self.model.spec)]
        modes = self.voices.chosen(self.plan.mode)
        spoken = [mode for mode in modes if mode != "dialogue"]
        talks = {split: prompts[:MOST_DIALOGUES] for split, prompts in self.plan.splits.items()}
        talks = talks if "dialogue" in modes else {}
        found = sample_steps(names, spoken, self.plan.splits, talks, self.plan.seed)
        found += speed_steps(names, self.plan.listeners)
        if self.plan.beside is not None:
            found.append(MeasuringStep("beside", "beside", "float32", audio_s=10.0))
        return found

    def _verify(self, tell: Tell) -> None:
        if "verify" not in self.progress.results:
            flags = {"model": self.name, "device": self.device, "limits": {"max_concurrency": 1}}
            for result in checks(self.model, resolve(env={}, flags=flags), self.voices.reference):
                tell(f"{self.identity.name}: {result.verdict}: {result.subject}: {result.detail}")
                self.verified.append(result)
            said = [vars(result) for result in self.verified]
            self.progress.put("verify", {"verdict": verdict(self.verified), "results": said})
        found = self.progress.results["verify"]
        self.verified = [CheckResult(**{**one, "more": tuple(one["more"])}) for one in found["results"]]
        if found["verdict"].startswith("verdict: failed") and not self.plan.anyway:
            self.progress.delete()  # another try may be with another checkpoint in the same folder
            failed = [one["subject"] for one in found["results"] if one["verdict"] == "failed"]
            raise NotVerified(
                f"{self.identity.name} fails `rhapsode verify` ({', '.join(failed)}), so that it is not measured. "
                "--report FILE packs what a bug report needs; --anyway measures what can be."
            )

    def _pace(self) -> MeasuringPace:
        """Measures what a sentence costs, and to hear it."""
        if "pace" not in self.progress.results:
            precision = precisions(self.plan.precision, pick_device(self.device).type, self.model.spec)[0].name
            step = next(step for step in self.steps() if step.kind == "sample")
            with self._speaking(precision) as speak:
                speak(step)  # the first one finds caches cold
                started_s = time.perf_counter()
                found = speak(step)
            took_s = time.perf_counter() - started_s
            audio_s = found["audio_s"] or 1.0
            rtf = found["scores"].get("rtf", took_s / audio_s)
            self.progress.put("pace", {"rtf": rtf, "heard_s": max(0.0, took_s - rtf * audio_s)})
        return MeasuringPace(**self.progress.results["pace"])

    def _make(self, todo: list[MeasuringStep], pace: MeasuringPace, tell: Tell) -> None:
        left_s, said_s = sum(pace.cost_s(step) for step in todo), time.monotonic()
        with progress(self.identity.name, len(todo)) as advance:
            for precision in dict.fromkeys(step.precision for step in todo):
                mine = [step for step in todo if step.precision == precision]
                for step, result in self._results(precision, mine):
                    self.progress.put(step.key, result)
                    advance(step.key)
                    left_s -= pace.cost_s(step)
                    if time.monotonic() - said_s > EVERY_S and not sys.stderr.isatty():
                        said_s = time.monotonic()
                        tell(f"{self.identity.name}: {step.key}; about {_minutes(left_s)} left")

    def _results(self, precision: str, steps: list[MeasuringStep]) -> Iterator[tuple[MeasuringStep, Any]]:
        samples = [step for step in steps if step.kind == "sample"]
        if samples:
            with self._speaking(precision) as speak:
                for step in samples:
                    yield step, speak(step)
        for step in steps:
            if step.kind == "speed":
                yield step, self._speed(step)
            elif step.kind == "beside" and self.plan.beside is not None:
                recogniser = self.plan.heard_by.recogniser
                yield (
                    step,
                    measure_beside(self.name, self.model, self.voices, self.plan.beside, recogniser, self.device),
                )

    def _speed(self, step: MeasuringStep) -> dict[str, Any]:
        given = (self.name, self.model, PRECISIONS[step.precision], step.listeners)
        return measure_speed(*given, self.voices.usual(), self.device, self.plan.seed)

    @contextmanager
    def _speaking(self, precision: str) -> Iterator[Callable[[MeasuringStep], dict[str, Any]]]:
        """Yields a function that speaks and measures a step's prompt with one open model."""
        flags = {"model": self.name, "device": self.device, "limits": {"max_concurrency": 1}}
        flags |= PRECISIONS[precision].flags()
        answers = {
            prompt.id: prompts[(i + 1) % len(prompts)].text
            for prompts in self.plan.splits.values()
            for i, prompt in enumerate(prompts)
        }
        with TTS.opened(self.model, resolve(env={}, flags=flags)) as tts:
            speaker, references = ModeSpeaker(tts, self.voices, answers), dict[str, Clip]()

            def speak(step: MeasuringStep) -> dict[str, Any]:
                assert step.prompt is not None
                reference = self._compared_with(tts, step, references)
                language = self.plan.languages[step.split]
                plan = QualityPlan((step.prompt,), "", language, step.seed)
                return measure_sample(speaker, step.prompt, step.mode, plan, self.plan.heard_by, reference)

            yield speak

    def _compared_with(self, tts: TTS, step: MeasuringStep, known: dict[str, Clip]) -> Clip | None:
        """Returns the recording that a voice should sound like: for presets a sentence of their own."""
        if step.mode == "clone":
            reference = self.voices.reference_of(step.prompt)
            return None if reference is None else reference.audio
        if step.mode != "presets" or not any(j.metric == "similarity" for j in self.plan.heard_by.judges):
            return None
        if step.mode not in known:
            language = self.plan.languages[step.split]
            known[step.mode] = tts.speak(SENTENCES.get(language, SENTENCES["en"]), self.voices.usual(), seed=1)
        return known[step.mode]


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"

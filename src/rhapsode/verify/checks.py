"""All checks of one checkpoint; those that can explain later failures come first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rhapsode.bench.quality.recogniser import Recogniser
from rhapsode.checkpoints.audit import Audit, auditing
from rhapsode.config import Deployment
from rhapsode.errors import CheckpointError
from rhapsode.models.abilities import VERBS
from rhapsode.models.registry import Model
from rhapsode.tts import TTS
from rhapsode.types import ModelInfo, Reference
from rhapsode.verify.files import check_audit, check_files, check_tokenizer
from rhapsode.verify.finding import CheckResult
from rhapsode.verify.modes import needs_reference, spoken_reference
from rhapsode.verify.speech import check_speech

Opened = tuple[TTS, Audit]


def checks(
    model: Model,
    deployment: Deployment,
    reference: Reference | None = None,
    recogniser: Recogniser | None = None,
    *,
    speaks: bool = True,
    load: Callable[[Callable[[], Opened]], Opened] = lambda open_model: open_model(),
) -> Iterator[CheckResult]:
    """Yields every result as soon as it is known; `load` calls the function that opens the model."""
    yield from check_files(model)
    yield from check_tokenizer(model)

    def opened() -> Opened:
        with auditing() as audit:
            return TTS.opened(model, deployment), audit

    try:
        tts, audit = load(opened)
    except CheckpointError as error:
        yield CheckResult("load", "failed", error.message, error.details[1:])
        return
    with tts:
        yield from check_audit(audit)
        yield from check_abilities(tts.engine.info)
        if speaks:
            if reference is None and needs_reference(tts.engine.info):
                reference = spoken_reference()
            yield from check_speech(tts, reference, recogniser, seed=1)


def check_abilities(info: ModelInfo) -> Iterator[CheckResult]:
    """Reports the abilities of the family that this checkpoint lacks because a file or a package is missing."""
    for ability, hint in info.instead.items():
        yield CheckResult(ability, "warning", f"it cannot {VERBS[ability]}. {hint}")

"""`rhapsode verify`: checks a checkpoint before it is used, with a report to paste into a bug report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rhapsode.bench.quality.recogniser import Recogniser
    from rhapsode.models.registry import Model
    from rhapsode.types import Reference
    from rhapsode.verify.finding import CheckResult

Checkpoint = Annotated[str, typer.Argument(help="A checkpoint's folder or Hugging Face id.")]
Config = Annotated[Path | None, typer.Option("-c", "--config", help="A deployment file.")]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N.")]
ReferenceFile = Annotated[
    Path | None, typer.Option("--reference", help="A recording to clone; by default the packaged voice speaks one.")
]
ReferenceText = Annotated[str | None, typer.Option("--reference-text", help="The words of the recording.")]
RecogniserName = Annotated[
    str, typer.Option("--recogniser", help="auto (pocketsphinx where installed), none, or what faster-whisper takes.")
]
Silent = Annotated[bool, typer.Option("--no-speech", help="Check files, tensors and tokenizer; speak nothing.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings, too.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def verify(
    checkpoint: Checkpoint,
    config: Config = None,
    device: Device = None,
    reference: ReferenceFile = None,
    reference_text: ReferenceText = None,
    recogniser: RecogniserName = "auto",
    no_speech: Silent = False,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Check a checkpoint: files, configuration, tensors, tokenizer, and a sentence in every mode."""
    from rhapsode.cli.loading import load
    from rhapsode.config import resolve
    from rhapsode.models.placement import describe_places
    from rhapsode.models.registry import find
    from rhapsode.verify import report
    from rhapsode.verify.checks import checks

    flags = {"model": checkpoint, "device": device, "limits": {"max_concurrency": 1}}
    deployment = resolve(config, flags={name: value for name, value in flags.items() if value is not None})
    model = find(deployment.model)
    sample = _reference(reference, reference_text)
    listener = _recogniser(recogniser, model)
    head = report.header(checkpoint, model, describe_places(model.spec, deployment))
    if not as_json:
        typer.echo("\n".join(head))
    results: list[CheckResult] = []
    for result in checks(model, deployment, sample, listener, speaks=not no_speech, load=load):
        results.append(result)
        if not as_json:
            typer.echo(report.line(result))
    typer.echo(json.dumps(report.as_dict(head, results), indent=2) if as_json else report.verdict(results))
    bad = ("failed", "warning") if strict else ("failed",)
    if any(result.verdict in bad for result in results):
        raise typer.Exit(1)


def _reference(file: Path | None, text: str | None) -> Reference | None:
    from rhapsode.cli.references import voice_of

    return voice_of(None, [(file, text)]).references[0] if file is not None else None


def _recogniser(name: str, model: Model) -> Recogniser | None:
    from importlib.util import find_spec

    from rhapsode.bench.quality.recogniser import make_recogniser
    from rhapsode.verify.modes import sentence_for

    if name != "auto":
        return make_recogniser(name)
    language, _ = sentence_for(model.info())
    return make_recogniser("pocketsphinx") if language == "en" and find_spec("pocketsphinx") else None

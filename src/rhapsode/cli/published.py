"""`rhapsode bench published`: published checkpoints verified and measured, as rows of one table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rhapsode.cli.bench import Seed, bench, numbers, require
from rhapsode.errors import InvalidRequest, RhapsodeError

if TYPE_CHECKING:
    from rhapsode.published.beside import Beside
    from rhapsode.published.measure import CheckpointMeasurement
    from rhapsode.published.plan import PublishedPlan
    from rhapsode.published.sample import SpeechJudges
    from rhapsode.types import Reference


@bench.command()
def published(
    checkpoints: Annotated[
        list[str], typer.Argument(help="Folders or Hugging Face ids of checkpoints, or names of families.")
    ],
    seed_tts: Annotated[Path | None, typer.Option(help="The folder of Seed-TTS-eval: en/meta.lst ...")] = None,
    split: Annotated[str, typer.Option(help="Lists of Seed-TTS-eval: some of en, zh, hard.")] = "en,zh,hard",
    prompts: Annotated[Path | None, typer.Option(help="Other texts: a text file or a meta.lst.")] = None,
    language: Annotated[str, typer.Option(help="Language of the prompts.")] = "en",
    most: Annotated[int | None, typer.Option(min=1, help="Use at most this many prompts of each list.")] = None,
    mode: Annotated[str, typer.Option(help="auto, or a list of presets, clone, design, dialogue.")] = "auto",
    precision: Annotated[str, typer.Option(help="auto, or a list of float32, bfloat16, fp8, int8.")] = "auto",
    listeners: Annotated[str, typer.Option(help="Listeners at once for the speed, a list.")] = "1,8,32",
    recogniser: Annotated[
        str, typer.Option(help="An id or a folder for faster-whisper, a URL, ctc:FOLDER, module:function, or none.")
    ] = "base",
    recogniser_model: Annotated[str | None, typer.Option(help="`model` in requests to a transcription URL.")] = None,
    reference: Annotated[Path | None, typer.Option(help="A recording to clone where the prompts bring none.")] = None,
    reference_text: Annotated[str | None, typer.Option(help="The transcript of that recording.")] = None,
    beside: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="upstream PYTHON", help="Compare with the family's own package, in that Python."),
    ] = None,
    original: Annotated[
        str | None, typer.Option(help="Compare with the checkpoint in this folder: the original of a copy.")
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Time for a checkpoint, such as 30m: measure what fits.")] = None,
    report: Annotated[Path | None, typer.Option(help="Also pack what a bug report needs into this zip file.")] = None,
    report_texts: Annotated[bool, typer.Option("--report-texts", help="Put the prompts into the bug report.")] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Measure a checkpoint that fails verify; docs/published takes no such row.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    seed: Seed = 1,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="A folder: a JSON file for each checkpoint, and table.md.")
    ] = Path("published"),
) -> None:
    """Verify checkpoints and measure how they sound and how fast they are. A run that was cut off goes on."""
    require("jiwer")
    from rhapsode.published.plan import PublishedPlan, read_splits, seconds

    splits, languages, prompts_from = read_splits(seed_tts, split, prompts, language, most)
    plan = PublishedPlan(
        splits=splits,
        languages=languages,
        prompts_from=prompts_from,
        listeners=numbers(listeners, "--listeners"),
        precision=precision,
        mode=mode,
        device=device,
        seed=seed,
        budget_s=None if budget is None else seconds(budget),
        reference=None if reference is None else _recording(reference, reference_text),
        heard_by=_speech_judges(recogniser, recogniser_model, language, languages),
        beside=_other_side(beside, original),
        anyway=anyway,
        output=output,
    )
    _measure(checkpoints, plan, report, report_texts)


def _measure(checkpoints: Sequence[str], plan: PublishedPlan, report: Path | None, report_texts: bool) -> None:
    """Measures checkpoints one after the other, and writes the row of each as soon as it is known."""
    from rhapsode.published import row as rows
    from rhapsode.published.identity import slug
    from rhapsode.published.measure import CheckpointMeasurement
    from rhapsode.published.table import markdown

    made = []
    for name in checkpoints:
        measurement = CheckpointMeasurement.begin(name, plan)
        try:
            made.append(measurement.run(lambda line: typer.echo(line, err=True)))
        except RhapsodeError:
            if report is not None:
                _pack(measurement, report, report_texts)
            raise
        if report is not None:
            _pack(measurement, report, report_texts)
        rows.write(made[-1], plan.output / f"{slug(measurement.identity.name)}.json")
        (plan.output / "table.md").write_text(markdown(made), "utf-8")
    typer.echo(markdown(made))
    typer.echo(f"written: {plan.output / 'table.md'} and {len(made)} JSON files", err=True)


def _speech_judges(name: str, model: str | None, language: str, languages: Mapping[str, str]) -> SpeechJudges:
    """Returns the recogniser, which must know the languages of all prompts, and the judges that are installed."""
    from rhapsode.bench.quality.judges import judges
    from rhapsode.bench.quality.recogniser import make_recogniser
    from rhapsode.published.sample import SpeechJudges

    others = sorted({code for code in languages.values() if not code.startswith("en")})
    if name.endswith(".en") and others:
        raise InvalidRequest(
            f"--recogniser {name} knows English alone, and prompts are in {', '.join(others)}, too: give one of "
            "several languages, such as base or large-v3, or --split en."
        )
    found, notes = judges()
    for note in notes:
        typer.echo(note, err=True)
    return SpeechJudges(make_recogniser(name, model, os.environ.get("OPENAI_API_KEY"), language), tuple(found))


def _recording(path: Path, text: str | None) -> Reference:
    from rhapsode.cli.references import voice_of

    return voice_of(None, [(path, text)]).references[0]


def _other_side(beside: tuple[str, str] | None, original: str | None) -> Beside | None:
    """Returns what the checkpoint is compared with: another implementation, another folder, or both."""
    from rhapsode.published.beside import Beside

    if beside is None:
        return None if original is None else Beside(None, original)
    kind, python = beside
    if kind != "upstream":
        raise InvalidRequest(f"--beside takes `upstream` and a Python executable, not '{kind}'.")
    return Beside(python, original)


def _pack(measurement: CheckpointMeasurement, path: Path, texts: bool) -> None:
    """Writes the bundle for a bug report, and says what it found."""
    from rhapsode.published.bundle import pack

    for finding in pack(measurement, path, texts=texts) or ["nothing was found"]:
        typer.echo(f"report: {finding}", err=True)
    typer.echo(f"written: {path}", err=True)

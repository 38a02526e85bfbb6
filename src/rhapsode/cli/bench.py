"""`rhapsode bench`: how fast the engine is, how a server holds up under load, and how well speech is understood."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from rhapsode.errors import InvalidRequest, MissingDependency

bench = typer.Typer(name="bench", help="Measure speed and quality; compare two measurements.", no_args_is_help=True)

Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="Where the JSON goes; by default bench-KIND.json here.")
]
Plot = Annotated[bool, typer.Option("--plot", help="Also draw PNGs beside the JSON.")]
Seed = Annotated[int, typer.Option(help="Of texts, arrivals and draws.")]
Voice = Annotated[str | None, typer.Option("-v", "--voice", help="A preset voice.")]
Model = Annotated[str | None, typer.Option("-m", "--model", help="A family's name or a checkpoint's folder.")]
Config = Annotated[Path | None, typer.Option("-c", "--config", help="A deployment file.")]


@bench.command()
def engine(
    model: Model = None,
    random_weights: Annotated[
        str | None,
        typer.Option(help="Random weights in this shape: qwen3-tts-nano, qwen3-tts-1.7b, a folder or a config.json."),
    ] = None,
    batch: Annotated[str, typer.Option(help="Listeners at once, a list.")] = "1,8,32",
    frames: Annotated[int, typer.Option(min=2, help="Frames of every request.")] = 52,
    eager_frames: Annotated[int | None, typer.Option(min=2, help="The same for eager rounds on a GPU (8).")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each batch; eager and graphs take turns.")] = 3,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16, float16 or float64.")] = "auto",
    weights: Annotated[str | None, typer.Option(help="auto (as dtype says) or fp8, of the talker's layers.")] = None,
    mode: Annotated[str, typer.Option(help="auto, graphs, eager or both.")] = "auto",
    max_positions: Annotated[int | None, typer.Option(min=1, help="Positions of a slot: prompt and frames.")] = None,
    bandwidth: Annotated[float | None, typer.Option(help="GB/s of the device's memory, instead of a copy.")] = None,
    voice: Voice = None,
    reference: Annotated[Path | None, typer.Option(help="Audio of the voice, for models that clone.")] = None,
    reference_text: Annotated[str | None, typer.Option(help="What is said in it.")] = None,
    language: Annotated[str | None, typer.Option(help="The language of the text.")] = None,
    config: Config = None,
    seed: Seed = 0,
    output: Output = None,
    plot: Plot = False,
) -> None:
    """Time per frame and per part, first audio, throughput and memory of the engine itself: no HTTP."""
    from rhapsode.bench.report import check_writable

    path = output or Path("bench-engine.json")
    check_writable(path)
    if mode not in ("auto", "graphs", "eager", "both"):
        raise InvalidRequest(f"--mode is auto, graphs, eager or both, not '{mode}'.")
    if model and random_weights:
        raise InvalidRequest("give a --model or --random-weights, not both.")
    from rhapsode.bench.engine.measure import measure
    from rhapsode.bench.engine.plan import EnginePlan
    from rhapsode.bench.engine.present import present
    from rhapsode.bench.engine.subject import subject

    plan = EnginePlan(
        batches=numbers(batch, "--batch"),
        frames=frames,
        eager_frames=eager_frames,
        rounds=rounds,
        seed=seed,
        device=device,
        dtype=dtype,
        weights=weights,
        mode=mode,
        max_positions=max_positions,
        bandwidth=bandwidth * 1e9 if bandwidth else None,
        voice=make_voice(voice, reference, reference_text),
        language=language,
        config=config,
    )
    with subject(model, random_weights) as chosen:
        finish(measure(chosen, plan), path, plot, present)


def numbers(text: str, flag: str) -> tuple[int, ...]:
    """`1,8,32`, in the order given, each once."""
    try:
        found = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise InvalidRequest(f"{flag} takes whole numbers with commas between them, not '{text}'.")
    return found


def make_voice(name: str | None, reference: Path | None, reference_text: str | None) -> Any:
    from rhapsode.types import Reference, Voice

    if reference is None:
        return Voice(name=name)
    from rhapsode.audio.decode import decode

    return Voice(name=name, references=(Reference(decode(reference), reference_text),))


def finish(report: dict[str, Any], path: Path, plot: bool, present: Any) -> None:
    """Keep the report, show it, draw it."""
    from rhapsode.bench.report import write

    write(report, path)
    present(report)
    written = [path]
    if plot:
        from rhapsode.bench.plots import draw

        written += draw(report, path)
    typer.echo(f"written: {', '.join(map(str, written))}", err=True)


@bench.command()
def serve(
    url: Annotated[str, typer.Argument(help="A speech server: http://host:port.")],
    target: Annotated[str, typer.Option(help="rhapsode, vllm-omni, sglang-omni or openai.")] = "rhapsode",
    closed: Annotated[str, typer.Option(help="Listeners at once who ask again at once: a list, or empty.")] = "1,8",
    open_loop: Annotated[str, typer.Option("--open", help="Poisson arrivals per second: a list, or empty.")] = "",
    burst: Annotated[str, typer.Option(help="Listeners who all ask at the same moment: a list, or empty.")] = "",
    requests: Annotated[int | None, typer.Option(min=1, help="Requests of every load (4 per listener).")] = None,
    warm_up: Annotated[int, typer.Option(min=0, help="Requests nobody counts.")] = 2,
    prompts: Annotated[Path | None, typer.Option(help="What to say: a text file or a meta.lst.")] = None,
    text: Annotated[str | None, typer.Option(help="One text instead of a list.")] = None,
    model: Annotated[str | None, typer.Option("-m", "--model", help="The body's `model`.")] = None,
    voice: Voice = None,
    body: Annotated[list[str] | None, typer.Option(help="A field of the body: name=value.")] = None,
    sample_rate: Annotated[int | None, typer.Option(help="Of raw pcm, where the server does not say (24000).")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds a request may take.")] = 120.0,
    seed: Seed = 0,
    output: Output = None,
    plot: Plot = False,
) -> None:
    """Put load on a speech server and measure what its listeners hear."""
    from rhapsode.bench.report import check_writable

    path = output or Path("bench-serve.json")
    check_writable(path)
    require("aiohttp")
    from rhapsode.bench.quality.prompts import OURS, read_prompts
    from rhapsode.bench.serve.measure import ServePlan, measure
    from rhapsode.bench.serve.present import present
    from rhapsode.bench.serve.schedule import Load
    from rhapsode.bench.serve.target import make_target
    from rhapsode.cli.say import parse_options

    loads = [
        Load(kind, level)
        for kind, given in (("closed", closed), ("open", open_loop), ("burst", burst))
        for level in levels(given, f"--{kind}", whole=kind != "open")
    ]
    if not loads:
        raise InvalidRequest("there is no load: give --closed, --open or --burst.")
    plan = ServePlan(
        target=make_target(url, target, model, voice, parse_options(body or [])),
        loads=tuple(loads),
        texts=(text,) if text else tuple(prompt.text for prompt in read_prompts(prompts or OURS)),
        requests=requests,
        warm_up=warm_up,
        seed=seed,
        sample_rate=sample_rate,
        timeout_s=timeout,
    )
    finish(measure(plan), path, plot, present)


@bench.command()
def quality(
    model: Model = None,
    recogniser: Annotated[
        str, typer.Option(help="What faster-whisper takes (a folder or an id), a transcription URL, or none.")
    ] = "base.en",
    recogniser_model: Annotated[str | None, typer.Option(help="The `model` a transcription URL is asked for.")] = None,
    prompts: Annotated[Path | None, typer.Option(help="What to say: a text file or a meta.lst.")] = None,
    generate: Annotated[int | None, typer.Option(min=1, help="So many prompts made from --seed instead.")] = None,
    most: Annotated[int | None, typer.Option(min=1, help="No more prompts than this.")] = None,
    mode: Annotated[str, typer.Option(help="A list of one-shot, streamed, batched, appended.")] = "streamed",
    at_once: Annotated[int, typer.Option(min=1, help="Prompts spoken at once when batched.")] = 8,
    url: Annotated[str | None, typer.Option(help="A speech server instead of a model in this process.")] = None,
    target: Annotated[str, typer.Option(help="rhapsode, vllm-omni, sglang-omni or openai.")] = "rhapsode",
    voice: Voice = None,
    language: Annotated[str, typer.Option(help="Of the prompts: what the recogniser is told.")] = "en",
    body: Annotated[list[str] | None, typer.Option(help="A field of a server's body: name=value.")] = None,
    save: Annotated[Path | None, typer.Option(help="A folder for the audio, to be listened to.")] = None,
    config: Config = None,
    seed: Seed = 0,
    output: Output = None,
    plot: Plot = False,
) -> None:
    """Speak a list of prompts, transcribe them, and score words, voice and sound."""
    from rhapsode.bench.report import check_writable

    path = output or Path("bench-quality.json")
    check_writable(path)
    require("jiwer")
    from rhapsode.bench.quality import generated
    from rhapsode.bench.quality.judges import judges
    from rhapsode.bench.quality.measure import QualityPlan, measure
    from rhapsode.bench.quality.present import present
    from rhapsode.bench.quality.prompts import OURS, read_prompts
    from rhapsode.bench.quality.recogniser import make_recogniser
    from rhapsode.bench.quality.speaker import EngineSpeaker, ServerSpeaker, Speaker, parse_modes
    from rhapsode.bench.serve.target import make_target
    from rhapsode.cli.say import parse_options

    spoken = generated.generate(generate, seed) if generate else read_prompts(prompts or OURS)
    prompts_from = f"{generate} generated prompts" if generate else (prompts or OURS).name
    listener = make_recogniser(recogniser, recogniser_model, os.environ.get("OPENAI_API_KEY"))
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
    speaker: Speaker
    if url is not None:
        require("aiohttp")
        speaker = ServerSpeaker(make_target(url, target, model, voice, parse_options(body or [])), None, 120.0)
    else:
        speaker = EngineSpeaker(model, voice, None, config)
    found, notes = judges()
    try:
        modes = parse_modes(mode, speaker)
        plan = QualityPlan(spoken[:most], prompts_from, language, seed, save, modes, at_once)
        finish(measure(plan, speaker, listener, found, notes), path, plot, present)
    finally:
        speaker.close()


@bench.command()
def compare(
    first: Annotated[Path, typer.Argument(help="A report, A.")],
    second: Annotated[Path, typer.Argument(help="Another, B.")],
) -> None:
    """How many times A is B, with the spread, for everything both measured."""
    from rhapsode.bench.compare import present
    from rhapsode.bench.report import read

    present(read(first), read(second), (first, second))


@bench.command()
def shape(
    name: Annotated[str, typer.Argument(help="qwen3-tts-0.6b, qwen3-tts-1.7b, a folder or a config.json.")],
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
) -> None:
    """Write a checkpoint without weights: `serve` it with its deployment.yaml, and put load on it."""
    from rhapsode.bench.engine.subject import write_shape

    if folder.exists():
        raise InvalidRequest(f"{folder} exists already.")
    folder.mkdir(parents=True)
    write_shape(name, folder)
    deployment = f"model: {folder.absolute()}\nrandom_weights: true\n"
    (folder / "deployment.yaml").write_text(deployment, encoding="utf-8")
    typer.echo(f"rhapsode serve --config {folder / 'deployment.yaml'}")


def levels(text: str, flag: str, *, whole: bool) -> tuple[float, ...]:
    """A list that may be empty; rates may be fractions."""
    if not text.strip():
        return ()
    if whole:
        return numbers(text, flag)
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) <= 0:
        raise InvalidRequest(f"{flag} takes numbers above zero with commas between them, not '{text}'.")
    return found


def require(module: str) -> None:
    """What `rhapsode[bench]` installs."""
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise MissingDependency(f'this needs {module}: pip install "rhapsode[bench]"')

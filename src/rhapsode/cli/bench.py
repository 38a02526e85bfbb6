"""`rhapsode bench`: measures the speed of the engine, a server under load, and the quality of speech."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from rhapsode.cli import references
from rhapsode.cli.wish import parse_options
from rhapsode.errors import InvalidRequest, MissingDependency
from rhapsode.extras import how_to_install

bench = typer.Typer(name="bench", help="Measure speed and quality; compare two measurements.", no_args_is_help=True)

Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="The report, JSON; by default bench-KIND.json here.")
]
Plot = Annotated[bool, typer.Option("--plot", help="Also write plots as PNGs next to the report.")]
Seed = Annotated[int, typer.Option(help="Seed of texts, arrivals and sampling.")]
Voice = Annotated[str | None, typer.Option("-v", "--voice", help="A preset voice.")]
Model = Annotated[
    str | None, typer.Option("-m", "--model", help="A checkpoint's folder or Hugging Face id, or a family's name.")
]
Config = Annotated[Path | None, typer.Option("-c", "--config", help="A deployment file.")]


@bench.command()
def engine(
    model: Model = None,
    random_weights: Annotated[
        str | None,
        typer.Option(help="Random weights in this shape: qwen3-tts-nano, qwen3-tts-1.7b, a folder or a config.json."),
    ] = None,
    batch: Annotated[str, typer.Option(help="Batch sizes, a list.")] = "1,8,32",
    frames: Annotated[int, typer.Option(min=2, help="Frames of every request.")] = 52,
    eager_frames: Annotated[int | None, typer.Option(min=2, help="Frames of eager rounds on a GPU (8).")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each batch; eager and graphs take turns.")] = 3,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16, float16 or float64.")] = "auto",
    weights: Annotated[str | None, typer.Option(help="auto (as dtype), fp8 or int8: the talker's layers.")] = None,
    mode: Annotated[str, typer.Option(help="auto, graphs, eager or both.")] = "auto",
    max_positions: Annotated[int | None, typer.Option(min=1, help="Positions of a slot: prompt and frames.")] = None,
    bandwidth: Annotated[
        float | None, typer.Option(help="Memory bandwidth in GB/s; by default it is measured.")
    ] = None,
    voice: Voice = None,
    reference: Annotated[Path | None, typer.Option(help="Audio of the voice, for models that clone.")] = None,
    reference_text: Annotated[str | None, typer.Option(help="The transcript of that audio.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="An option of the family: name=value.")] = None,
    language: Annotated[str | None, typer.Option(help="The language of the text.")] = None,
    config: Config = None,
    seed: Seed = 0,
    output: Output = None,
    plot: Plot = False,
) -> None:
    """Measure the engine without HTTP: time per frame and section, first audio, throughput, memory."""
    from rhapsode.bench.report import check_writable

    path = output or Path("bench-engine.json")
    check_writable(path)
    check_flags(mode, model, random_weights)
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
        voice=references.voice_of(voice, [(reference, reference_text)] if reference else []),
        options=parse_options(option or []),
        language=language,
        config=config,
    )
    with subject(model, random_weights) as chosen:
        finish(measure(chosen, plan), path, plot, present)


def check_flags(mode: str, model: str | None, random_weights: str | None) -> None:
    if mode not in ("auto", "graphs", "eager", "both"):
        raise InvalidRequest(f"--mode must be auto, graphs, eager or both, not '{mode}'.")
    if model and random_weights:
        raise InvalidRequest("give a --model or --random-weights, not both.")


def numbers(text: str, flag: str) -> tuple[int, ...]:
    """Parses a list such as `1,8,32`: whole numbers above zero, duplicates removed."""
    try:
        found = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise InvalidRequest(f"{flag} takes whole numbers above zero with commas between them, not '{text}'.")
    return found


def finish(report: dict[str, Any], path: Path, plot: bool, present: Any) -> None:
    """Writes the report, prints it, and plots it if asked to."""
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
    closed: Annotated[str | None, typer.Option(help="Clients that each wait for their last response: a list.")] = None,
    pause: Annotated[float, typer.Option(min=0, help="Such a client waits at random, up to so many ms.")] = 0.0,
    open_loop: Annotated[str | None, typer.Option("--open", help="Poisson arrivals per second: a list.")] = None,
    burst: Annotated[str | None, typer.Option(help="Requests sent at the same moment: a list.")] = None,
    requests: Annotated[int | None, typer.Option(min=1, help="Requests of every load (4 per client).")] = None,
    warm_up: Annotated[int, typer.Option(min=0, help="Requests before the measurement; 0 for a cold server.")] = 2,
    prompts: Annotated[Path | None, typer.Option(help="The texts: a text file or a meta.lst.")] = None,
    text: Annotated[str | None, typer.Option(help="One text instead of a list.")] = None,
    model: Annotated[str | None, typer.Option("-m", "--model", help="`model` in the request body.")] = None,
    voice: Voice = None,
    body: Annotated[list[str] | None, typer.Option(help="A field of the request body: name=value.")] = None,
    sample_rate: Annotated[
        int | None, typer.Option(help="Of raw pcm, if the server does not state it (24000).")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds a request may take.")] = 120.0,
    retries: Annotated[int, typer.Option(min=0, help="Ask again so often, as late as Retry-After says.")] = 0,
    processes: Annotated[int, typer.Option(min=1, help="Client processes that share every load.")] = 1,
    seed: Seed = 0,
    output: Output = None,
    plot: Plot = False,
) -> None:
    """Apply load to a speech server and measure what its clients get. By default: closed loops of 1 and 8 clients."""
    from rhapsode.bench.report import check_writable

    path = output or Path("bench-serve.json")
    check_writable(path)
    require("aiohttp")
    from rhapsode.bench.quality.prompts import OURS, read_prompts
    from rhapsode.bench.serve.load_level import LoadLevel
    from rhapsode.bench.serve.measure import ServePlan, measure
    from rhapsode.bench.serve.present import present
    from rhapsode.bench.serve.server import speech_server

    if closed is None and open_loop is None and burst is None:
        closed = "1,8"
    loads = [
        LoadLevel(kind, level, pause / 1e3 if kind == "closed" else 0.0, retries)
        for kind, given in (("closed", closed), ("open", open_loop), ("burst", burst))
        for level in levels(given or "", f"--{kind}", whole=kind != "open")
    ]
    if not loads:
        raise InvalidRequest("there is no load: give --closed, --open or --burst.")
    plan = ServePlan(
        server=speech_server(url, target, model, voice, parse_options(body or [])),
        loads=tuple(loads),
        texts=(text,) if text else tuple(prompt.text for prompt in read_prompts(prompts or OURS)),
        requests=requests,
        warm_up=warm_up,
        seed=seed,
        sample_rate=sample_rate,
        timeout_s=timeout,
        processes=processes,
    )
    finish(measure(plan), path, plot, present)


@bench.command()
def quality(
    model: Model = None,
    recogniser: Annotated[
        str, typer.Option(help="An id or a folder for faster-whisper, a URL, ctc:FOLDER, module:function, or none.")
    ] = "base.en",
    recogniser_model: Annotated[str | None, typer.Option(help="`model` in requests to a transcription URL.")] = None,
    prompts: Annotated[Path | None, typer.Option(help="The texts: a text file or a meta.lst.")] = None,
    generate: Annotated[int | None, typer.Option(min=1, help="Generate this many prompts from --seed.")] = None,
    most: Annotated[int | None, typer.Option(min=1, help="Use at most this many prompts.")] = None,
    mode: Annotated[str, typer.Option(help="A list of one-shot, streamed, batched, appended.")] = "streamed",
    at_once: Annotated[int, typer.Option(min=1, help="Concurrent prompts of the mode batched.")] = 8,
    url: Annotated[str | None, typer.Option(help="A speech server instead of a model in this process.")] = None,
    target: Annotated[str, typer.Option(help="rhapsode, vllm-omni, sglang-omni or openai.")] = "rhapsode",
    voice: Voice = None,
    language: Annotated[str, typer.Option(help="Language of the prompts, for the recogniser.")] = "en",
    body: Annotated[list[str] | None, typer.Option(help="A field of a server's request body: name=value.")] = None,
    save: Annotated[Path | None, typer.Option(help="A folder for the audio files.")] = None,
    config: Config = None,
    seed: Seed = 0,
    output: Output = None,
    plot: Plot = False,
) -> None:
    """Speak a list of prompts, transcribe the audio, and score words, voice and sound."""
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
    from rhapsode.bench.quality.synthesizer import EngineSynthesizer, ServerSynthesizer, Synthesizer, parse_modes
    from rhapsode.bench.serve.server import speech_server

    spoken = generated.generate(generate, seed) if generate else read_prompts(prompts or OURS)
    prompts_from = f"{generate} generated prompts" if generate else (prompts or OURS).name
    transcriber = make_recogniser(recogniser, recogniser_model, os.environ.get("OPENAI_API_KEY"), language)
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
    synthesizer: Synthesizer
    if url is not None:
        require("aiohttp")
        synthesizer = ServerSynthesizer(
            speech_server(url, target, model, voice, parse_options(body or [])), None, 120.0
        )
    else:
        synthesizer = EngineSynthesizer(model, voice, None, config)
    found, notes = judges()
    try:
        modes = parse_modes(mode, synthesizer)
        plan = QualityPlan(spoken[:most], prompts_from, language, seed, save, modes, at_once)
        finish(measure(plan, synthesizer, transcriber, found, notes), path, plot, present)
    finally:
        synthesizer.close()


@bench.command()
def compare(
    first: Annotated[Path, typer.Argument(help="Report A.")],
    second: Annotated[Path, typer.Argument(help="Report B.")],
) -> None:
    """Print the ratio B / A, with its confidence interval, for everything both reports measured."""
    from rhapsode.bench.compare import present
    from rhapsode.bench.report import read

    present(read(first), read(second), (first, second))


@bench.command()
def shape(
    name: Annotated[str, typer.Argument(help="qwen3-tts-0.6b, qwen3-tts-1.7b, a folder or a config.json.")],
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
) -> None:
    """Write a checkpoint without weights. `serve` it with its deployment.yaml to measure a server under load."""
    from rhapsode.bench.engine.subject import write_shape

    if folder.exists():
        raise InvalidRequest(f"{folder} exists already: give a new folder.")
    folder.mkdir(parents=True)
    write_shape(name, folder)
    deployment = f"model: {folder.absolute()}\nrandom_weights: true\n"
    (folder / "deployment.yaml").write_text(deployment, encoding="utf-8")
    typer.echo(f"rhapsode serve --config {folder / 'deployment.yaml'}")


def levels(text: str, flag: str, *, whole: bool) -> tuple[float, ...]:
    """Parses a list that may be empty. Rates may be fractions."""
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
    """Raises if a module of `rhapsode[bench]` is not installed."""
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise MissingDependency(f"this needs {module}: {how_to_install('bench')}")

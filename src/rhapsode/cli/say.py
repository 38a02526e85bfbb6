"""`rhapsode say`: text to a file, and to the speakers where there are any."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rhapsode.cli import references
from rhapsode.cli.output import check_output, save
from rhapsode.cli.progress import spoken_progress
from rhapsode.errors import EmptyAudio, InvalidRequest
from rhapsode.text.clean import is_speakable
from rhapsode.text.duration import estimate_s

if TYPE_CHECKING:
    from rhapsode.audio.clip import Audio
    from rhapsode.cli.remote import RemoteStream
    from rhapsode.tts import Stream
    from rhapsode.types import SpeechRequest

Text = Annotated[
    str | None, typer.Argument(help="What to say; without it, standard input is read.", show_default=False)
]
File = Annotated[Path | None, typer.Option("-f", "--file", help="Read the text from this file.")]
Output = Annotated[
    str, typer.Option("-o", "--output", help="wav, mp3, flac, opus, aac or pcm; '-' is standard output.")
]
Model = Annotated[
    str | None, typer.Option("-m", "--model", help="A checkpoint's folder or Hugging Face id, or a family's name.")
]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")]
VoiceName = Annotated[str | None, typer.Option("-v", "--voice", help="A preset voice.")]
ReferenceFiles = Annotated[
    list[Path] | None, typer.Option("--reference", help="A recording of a voice to clone; give several for several.")
]
ReferenceTexts = Annotated[list[str] | None, typer.Option("--reference-text", help="The words of each recording.")]
Format = Annotated[str | None, typer.Option("--format", help="The format, where the file's name does not say it.")]
Speed = Annotated[float, typer.Option(help="0.25 to 4, at the same pitch.")]
Channels = Annotated[int | None, typer.Option(min=1, max=2, help="1 is mono, 2 is stereo.", show_default="the model's")]
Seed = Annotated[int | None, typer.Option(help="The same seed says it the same way again.")]
Language = Annotated[str | None, typer.Option(help="The language of the text, where the model asks for it.")]
Instructions = Annotated[str | None, typer.Option(help="How to say it, for models that take instructions.")]
Options = Annotated[list[str] | None, typer.Option("--option", help="An option of the family: name=value.")]
Normalise = Annotated[
    bool | None,
    typer.Option(
        "--normalise/--no-normalise",
        help="Write numbers, dates and the like out as words.",
        show_default="as the model wants it",
    ),
]
Ssml = Annotated[bool, typer.Option("--ssml", help="The text is an SSML document.")]
LexiconFile = Annotated[Path | None, typer.Option("--lexicon", help="A YAML file of words and their respellings.")]
Config = Annotated[Path | None, typer.Option("-c", "--config", help="A deployment file.")]
Live = Annotated[bool, typer.Option("--stream", help="Play, or write to standard output, while it is spoken.")]
ServerUrl = Annotated[
    str | None, typer.Option("--server", help="Have this server speak, instead of a model here.", show_default=False)
]
ApiKey = Annotated[str | None, typer.Option(envvar="RHAPSODE_API_KEY", help="The server's key.", show_default=False)]
Play = Annotated[bool, typer.Option("--play/--no-play", help="Play the result where a player exists.")]


def say(
    text: Text = None,
    file: File = None,
    output: Output = "speech.wav",
    model: Model = None,
    voice: VoiceName = None,
    reference: ReferenceFiles = None,
    reference_text: ReferenceTexts = None,
    format: Format = None,
    speed: Speed = 1.0,
    channels: Channels = None,
    seed: Seed = None,
    language: Language = None,
    instructions: Instructions = None,
    normalise: Normalise = None,
    ssml: Ssml = False,
    lexicon: LexiconFile = None,
    option: Options = None,
    config: Config = None,
    device: Device = None,
    stream: Live = False,
    play: Play = True,
    server: ServerUrl = None,
    api_key: ApiKey = None,
    quiet: Quiet = False,
) -> None:
    """Say something: writes speech.wav, and plays it."""
    words = read_text(text, file)
    if words.strip() and not is_speakable(words):
        raise InvalidRequest("the text has no letter and no digit: there is nothing to say.")
    check_output(output, format)
    cloned = references.paired(reference or [], reference_text or [])
    reading: dict[str, Any] = {
        "normalise": normalise,
        "input_type": "ssml" if ssml else None,
        "lexicon": respellings(lexicon),
    }
    listened = Listened(output, format, live=stream, play=play, quiet=quiet)
    if server is not None:
        wishes = {"model": model, "voice": voice, "speed": speed, "seed": seed, "language": language}
        wishes |= {"channels": channels, "instructions": instructions}
        body = {**wishes, **reading, "references": references.as_fields(cloned), **parse_options(option or [])}
        say_from(server, {"input": words, **body}, api_key, replace(listened, live=True))
        return
    from rhapsode.types import SpeechRequest

    request = SpeechRequest(
        words,
        references.voice_of(voice, cloned),
        language=language,
        instructions=instructions,
        speed=speed,
        channels=channels,
        seed=seed,
        options=parse_options(option or []),
        **{name: value for name, value in reading.items() if value is not None},
    )
    flags = {"model": model, "device": device}
    say_here(request, config, {name: value for name, value in flags.items() if value is not None}, listened)


def say_here(request: SpeechRequest, config: Path | None, flags: dict[str, Any], listened: Listened) -> None:
    """Speaks with a model in this process. What is wrong with the request is found before the model is loaded."""
    from rhapsode.cli.loading import load
    from rhapsode.config import resolve
    from rhapsode.models.registry import find
    from rhapsode.tts import TTS, check

    # One slot: nothing is made ready for anybody else.
    deployment = resolve(config, flags={**flags, "limits": {"max_concurrency": 1}})
    found = find(deployment.model)
    check(found, deployment, request)
    started_s = time.perf_counter()
    with load(lambda: TTS.opened(found, deployment), listened.quiet) as tts:
        loaded_s = time.perf_counter() - started_s
        expected_s = estimate_s(request.text) / request.speed
        audio, timing = speak(lambda: tts.stream(request), listened, expected_s)
    report(audio, timing, listened, f"model loaded in {loaded_s:.2f} s")


def respellings(file: Path | None) -> dict[str, str] | None:
    if file is None:
        return None
    from rhapsode.text.lexicon import Lexicon

    return Lexicon.read(file).entries


def say_from(server: str, body: dict[str, Any], api_key: str | None, listened: Listened) -> None:
    """Listens to a server: heard while it comes, saved once it is whole."""
    from rhapsode.cli.remote import RemoteStream

    wish = {name: value for name, value in body.items() if value is not None}
    expected_s = estimate_s(body["input"]) / float(body["speed"])
    audio, timing = speak(lambda: RemoteStream(server, wish, api_key), listened, expected_s)
    report(audio, timing, listened, f"from {server}")


def report(audio: Audio, timing: Timing, listened: Listened, how: str) -> None:
    if listened.quiet:
        return
    where = "standard output" if listened.output == "-" else listened.output
    print(
        f"{where}: {audio.duration_s:.2f} s of speech; "
        f"first audio after {timing.first_audio_s * 1000:.0f} ms, real-time factor {timing.rtf(audio):.3f} ({how})",
        file=sys.stderr,
    )


@dataclass(frozen=True)
class Listened:
    """What becomes of the audio."""

    output: str
    format: str | None
    live: bool
    play: bool
    quiet: bool


class Timing:
    """When the first audio came, and how long all of it took."""

    def __init__(self) -> None:
        self._started_s = time.perf_counter()
        self.first_audio_s = 0.0
        self.total_s = 0.0

    def heard(self) -> None:
        self.total_s = time.perf_counter() - self._started_s
        self.first_audio_s = self.first_audio_s or self.total_s

    def rtf(self, audio: Audio) -> float:
        return self.total_s / audio.duration_s


def speak(listen: Callable[[], Stream | RemoteStream], listened: Listened, expected_s: float) -> tuple[Audio, Timing]:
    """Speaks into memory, and on the way to whoever listens live; saves only what is whole."""
    import numpy as np

    from rhapsode.audio.clip import Audio
    from rhapsode.cli.player import LivePlayer, StdoutWriter, play_file

    timing = Timing()
    with ExitStack() as stack:
        stream = listen()
        stack.enter_context(stream)
        sinks: list[Any] = []
        if listened.output == "-":
            fmt = listened.format or "wav"
            sinks.append(stack.enter_context(StdoutWriter(fmt, stream.sample_rate, stream.channels, stream.marks)))
        elif listened.live and listened.play:
            sinks.append(stack.enter_context(LivePlayer(stream.sample_rate, stream.channels)))
        pieces = []
        show = stack.enter_context(spoken_progress(expected_s, listened.quiet))
        for chunk in stream:
            timing.heard()
            pieces.append(chunk.samples)
            for sink in sinks:
                sink.write(chunk.samples)
            show(chunk.duration_s)
        timing.heard()
    if not pieces:
        raise EmptyAudio("nothing was said.")
    audio = Audio(np.concatenate(pieces, axis=1), stream.sample_rate, stream.marks)
    if listened.output != "-":
        save(audio, listened.output, listened.format)
        if listened.play and not listened.live:
            play_file(Path(listened.output))
    return audio, timing


def read_text(text: str | None, file: Path | None) -> str:
    if text is not None and file is not None:
        raise InvalidRequest("give the text or a file, not both.")
    if file is not None:
        try:
            return file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise InvalidRequest(f"cannot read {file}: {reason}.") from None
    if text is None or text == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise InvalidRequest('nothing to say: try  rhapsode say "Hello there."')
        try:
            return sys.stdin.buffer.read().decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidRequest("standard input is not UTF-8 text.") from None
    return text


def parse_options(pairs: list[str]) -> dict[str, Any]:
    from rhapsode.config import parse_yaml

    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise InvalidRequest(f"--option takes name=value, not '{pair}'.")
        options[name.strip().replace("-", "_")] = parse_yaml(value, f"the value of --option {name.strip()}")
    return options

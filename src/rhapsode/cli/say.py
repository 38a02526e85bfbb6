"""`rhapsode say`: text to a file, and to the speakers where there are any."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rhapsode.cli import references
from rhapsode.cli import say_options as given
from rhapsode.cli.output import Listened, check_output, save, save_subtitles
from rhapsode.cli.progress import spoken_progress
from rhapsode.cli.script_file import ScriptLine, naming_voices, read_script
from rhapsode.cli.wish import SpeakingPlace, Wish, parse_options, without_none
from rhapsode.errors import EmptyAudio, IgnoredWarning, InvalidRequest
from rhapsode.text.clean import is_speakable
from rhapsode.text.duration import estimate_s
from rhapsode.text.markup import SUFFIXES, InputType

if TYPE_CHECKING:
    from rhapsode.alignment.words import WordTime
    from rhapsode.audio.clip import Audio
    from rhapsode.cli.remote import RemoteStream
    from rhapsode.tts import Stream
    from rhapsode.types import Samples


def say(
    text: given.Text = None,
    file: given.File = None,
    script: given.ScriptFile = None,
    output: given.Output = "speech.wav",
    book: given.Book = False,
    chapter_pattern: given.ChapterPattern = None,
    model: given.Model = None,
    voice: given.VoiceNames = None,
    reference: given.ReferenceFiles = None,
    reference_text: given.ReferenceTexts = None,
    format: given.Format = None,
    speed: given.Speed = 1.0,
    loudness: given.Loudness = None,
    channels: given.Channels = None,
    seed: given.Seed = None,
    language: given.Language = None,
    instructions: given.Instructions = None,
    normalise: given.Normalise = None,
    input_type: given.TextKind = None,
    ssml: given.Ssml = False,
    lexicon: given.LexiconFile = None,
    subtitles: given.Subtitles = None,
    option: given.Options = None,
    config: given.Config = None,
    device: given.Device = None,
    stream: given.Live = False,
    play: given.Play = True,
    server: given.ServerUrl = None,
    api_key: given.ApiKey = None,
    quiet: given.Quiet = False,
) -> None:
    """Say something: writes speech.wav, and plays it."""
    if quiet:
        warnings.simplefilter("ignore", IgnoredWarning)
    names, recordings = references.parted(voice or [])
    cloned = references.paired([*recordings, *(reference or [])], reference_text or [])
    fields: dict[str, Any] = {"speed": speed, "loudness": loudness, "channels": channels, "seed": seed}
    kind = "ssml" if ssml else input_type or kind_of(file)
    fields |= {"language": language, "instructions": instructions, **reading_of(normalise, kind, lexicon, subtitles)}
    place = SpeakingPlace(config, {"model": model, "device": device}, server, api_key)
    wish = Wish(without_none(fields), names, cloned, parse_options(option or []), place)
    listened = Listened(output, format, live=stream, play=play, quiet=quiet, subtitles=subtitles)
    if is_book(output, file, book, chapter_pattern):
        if subtitles is not None:
            raise InvalidRequest("--subtitles are written for one text, not for a book.")
        from rhapsode.cli.book import say_book

        say_book(text, file, chapter_pattern, wish, listened)
        return
    segments = read_script(script, wish.voices, text, file) if script is not None else None
    words = "\n".join(segment.text for segment in segments) if segments else read_text(text, file)
    if words.strip() and not is_speakable(words):
        raise InvalidRequest("the text has no letter and no digit: there is nothing to say.")
    check_output(output, format, subtitles)
    with naming_voices(segments or [], wish.voices):
        if server is not None:
            say_from(wish, words, segments, replace(listened, live=True))
        else:
            say_here(wish, words, segments, listened)


def kind_of(file: Path | None) -> InputType | None:
    """Returns what a file holds, by its name; `None`: plain text."""
    return SUFFIXES.get(file.suffix.lower()) if file is not None else None


def reading_of(
    normalise: bool | None, kind: str | None, lexicon: Path | None, subtitles: Path | None
) -> dict[str, Any]:
    """Returns the fields of a request that say how its text is read."""
    return {
        "normalise": normalise,
        "input_type": kind,
        "lexicon": respellings(lexicon),
        "word_timestamps": True if subtitles else None,
    }


def is_book(output: str, file: Path | None, book: bool, chapter_pattern: str | None) -> bool:
    is_epub = file is not None and file.suffix.lower() == ".epub"
    return book or chapter_pattern is not None or is_epub or output.lower().endswith((".m4b", ".m4a"))


def say_here(wish: Wish, words: str, segments: list[ScriptLine] | None, listened: Listened) -> None:
    """Speaks with a model in this process. An invalid request fails before the model is loaded."""
    from rhapsode.tts import check

    request = wish.request(words, segments)
    found, deployment = wish.place.model()
    check(found, deployment, request)
    started_s = time.perf_counter()
    with wish.place.load(found, deployment, listened.quiet) as tts:
        loaded_s = time.perf_counter() - started_s
        expected_s = estimate_s(words) / request.speed
        audio, timing = speak(lambda: tts.stream(request), listened, expected_s)
    if listened.subtitles is not None:
        save_subtitles(audio, request.text, request.input_type, listened.subtitles)
    report(audio, timing, listened, f"model loaded in {loaded_s:.2f} s")


def respellings(file: Path | None) -> dict[str, str] | None:
    if file is None:
        return None
    from rhapsode.text.lexicon import Lexicon

    return dict(Lexicon.read(file).entries)


def say_from(wish: Wish, words: str, segments: list[ScriptLine] | None, listened: Listened) -> None:
    """Speaks with a server: plays the audio while it arrives, and saves it once it is complete."""
    expected_s = estimate_s(words) / float(wish.fields["speed"])
    audio, timing = speak(lambda: wish.remote(words, segments), listened, expected_s)
    if listened.subtitles is not None:
        save_subtitles(audio, words, wish.fields.get("input_type", "text"), listened.subtitles)
    report(audio, timing, listened, f"from {wish.place.server}")


def report(audio: Audio, timing: Timing, listened: Listened, how: str) -> None:
    if listened.quiet:
        return
    where = "standard output" if listened.output == "-" else listened.output
    print(
        f"{where}: {audio.duration_s:.2f} s of speech; "
        f"first audio after {timing.first_audio_s * 1000:.0f} ms, real-time factor {timing.rtf(audio):.3f} ({how})",
        file=sys.stderr,
    )


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
    """Speaks into memory and, at the same time, to live outputs. Saves only complete audio."""
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
        pieces: list[Samples] = []
        words: list[WordTime] = []
        show = stack.enter_context(spoken_progress(expected_s, listened.quiet))
        for chunk in stream:
            timing.heard()
            pieces.append(chunk.samples)
            words += chunk.words
            for sink in sinks:
                sink.write(chunk.samples)
            show(chunk.duration_s)
        timing.heard()
    if not pieces:
        raise EmptyAudio("nothing was said.")
    audio = Audio(np.concatenate(pieces, axis=1), stream.sample_rate, stream.marks, tuple(words))
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

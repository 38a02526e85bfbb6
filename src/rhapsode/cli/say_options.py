"""The options of `rhapsode say`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Text = Annotated[
    str | None, typer.Argument(help="What to say; without it, standard input is read.", show_default=False)
]
File = Annotated[Path | None, typer.Option("-f", "--file", help="Read the text from this file: txt, md, html or epub.")]
ScriptFile = Annotated[
    Path | None, typer.Option("--script", help="Read a dialogue from this file: lines like '\\[anna]: Hello.'")
]
Book = Annotated[
    bool,
    typer.Option("--book", help="Speak in parts, with chapter marks; goes on after an interruption. Implied by m4b."),
]
ChapterPattern = Annotated[
    str | None, typer.Option("--chapter-pattern", help="A regular expression for lines that begin a chapter.")
]
Output = Annotated[
    str,
    typer.Option("-o", "--output", help="wav, mp3, flac, opus, aac, pcm, ulaw, alaw, m4b; '-' is standard output."),
]
Model = Annotated[
    str | None, typer.Option("-m", "--model", help="A checkpoint's folder or Hugging Face id, or a family's name.")
]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")]
VoiceNames = Annotated[
    list[str] | None,
    typer.Option(
        "-v", "--voice", help="A preset, or a recording to clone (my.wav); for a --script, name=voice for every name."
    ),
]
ReferenceFiles = Annotated[
    list[Path] | None, typer.Option("--reference", help="A recording of a voice to clone; give several for several.")
]
ReferenceTexts = Annotated[list[str] | None, typer.Option("--reference-text", help="The words of each recording.")]
Format = Annotated[str | None, typer.Option("--format", help="The format, where the file's name does not say it.")]
Speed = Annotated[float, typer.Option(help="0.25 to 4, at the same pitch.")]
Loudness = Annotated[float | None, typer.Option(help="In LUFS, such as -16.", show_default="the model's")]
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
Ssml = Annotated[bool, typer.Option("--ssml", help="The same as --input-type ssml.")]
TextKind = Annotated[
    str | None,
    typer.Option("--input-type", help="text, ssml, markdown or html.", show_default="by the file's name, else text"),
]
LexiconFile = Annotated[Path | None, typer.Option("--lexicon", help="A YAML file of words and their respellings.")]
Subtitles = Annotated[
    Path | None, typer.Option("--subtitles", help="Also write subtitles, with measured times: a .srt or .vtt file.")
]
Config = Annotated[Path | None, typer.Option("-c", "--config", help="A deployment file.")]
Live = Annotated[bool, typer.Option("--stream", help="Play, or write to standard output, while it is spoken.")]
ServerUrl = Annotated[
    str | None, typer.Option("--server", help="Have this server speak, instead of a model here.", show_default=False)
]
ApiKey = Annotated[str | None, typer.Option(envvar="RHAPSODE_API_KEY", help="The server's key.", show_default=False)]
Play = Annotated[bool, typer.Option("--play/--no-play", help="Play the result where a player exists.")]

"""What a user of `rhapsode say` asks for, and where it is spoken: by a model in this process, or by a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rhapsode.cli import references
from rhapsode.errors import InvalidRequest

if TYPE_CHECKING:
    from rhapsode.cli.remote import RemoteStream
    from rhapsode.cli.script_file import ScriptLine
    from rhapsode.config import Deployment
    from rhapsode.models.registry import Model
    from rhapsode.tts import TTS
    from rhapsode.types import SpeechRequest


@dataclass(frozen=True)
class SpeakingPlace:
    """Where speech is made: by a model in this process, or by a server."""

    config: Path | None
    flags: dict[str, Any]
    server: str | None
    api_key: str | None

    def model(self) -> tuple[Model, Deployment]:
        """Returns the model for this process, not loaded yet, and its deployment."""
        from rhapsode.config import resolve
        from rhapsode.models.registry import find

        # One slot is enough: there is one request at a time.
        deployment = resolve(self.config, flags={**without_none(self.flags), "limits": {"max_concurrency": 1}})
        return find(deployment.model), deployment

    def load(self, found: Model, deployment: Deployment, quiet: bool) -> TTS:
        from rhapsode.cli.loading import load
        from rhapsode.tts import TTS

        return load(lambda: TTS.opened(found, deployment), quiet)


@dataclass(frozen=True)
class Wish:
    """What `say` was asked for, apart from the text: voices, options, request fields, and where to speak."""

    fields: dict[str, Any]
    """Request fields that have the same name in the SDK and on a server."""
    voices: list[str]
    cloned: list[tuple[Path, str | None]]
    options: dict[str, Any]
    place: SpeakingPlace

    @property
    def voice(self) -> str | None:
        """The voice for text that names no voice of its own."""
        plain = [name for name in self.voices if "=" not in name]
        if len(plain) > 1:
            raise InvalidRequest(f"give one --voice, not {len(plain)}; of a --script, name=voice for every name.")
        return plain[0] if plain else None

    def request(self, words: str, lines: Sequence[ScriptLine] | None = None) -> SpeechRequest:
        """Returns the request for a model in this process."""
        from rhapsode.types import Segment, SpeechRequest, Voice

        voice = references.voice_of(self.voice, self.cloned)
        segments = tuple(
            Segment(line.text, Voice(name=line.voice) if line.voice else voice, line.pause_s) for line in lines or ()
        )
        return SpeechRequest(words, voice, segments=segments, options=self.options, **self.fields)

    def remote(self, words: str, lines: Sequence[ScriptLine] | None = None) -> RemoteStream:
        """Sends the request to the server, and returns the stream of its answer."""
        from rhapsode.cli.remote import RemoteStream

        assert self.place.server is not None
        said: dict[str, Any] = {"segments": [line.body() for line in lines]} if lines else {"input": words}
        body = {**self.fields, **said, **self.options, "model": self.place.flags.get("model"), "voice": self.voice}
        body["references"] = references.as_fields(self.cloned)
        return RemoteStream(self.place.server, without_none(body), self.place.api_key)


def without_none(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the values that are not `None`."""
    return {name: value for name, value in values.items() if value is not None}


def parse_options(pairs: list[str]) -> dict[str, Any]:
    """Returns the options of a family that were given as name=value."""
    from rhapsode.config import parse_yaml

    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise InvalidRequest(f"--option takes name=value, not '{pair}'.")
        options[name.strip().replace("-", "_")] = parse_yaml(value, f"the value of --option {name.strip()}")
    return options

"""Speech recognisers: faster-whisper, pocketsphinx, or any OpenAI-compatible transcription URL."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import uuid
from importlib import import_module
from typing import Protocol

from rhapsode.bench.quality.sound import at_16khz
from rhapsode.errors import GenerationFailed, MissingDependency, Unavailable
from rhapsode.extras import how_to_add, how_to_install
from rhapsode.types import Clip

TIMEOUT_S = 120.0


class Recogniser(Protocol):
    name: str

    def transcribe(self, clip: Clip, language: str) -> str: ...


class Whisper:
    """faster-whisper on the CPU in int8; `model` is a CTranslate2 folder or an id. Decodes greedily: results repeat."""

    def __init__(self, model: str) -> None:
        try:
            package = import_module("faster_whisper")
        except ImportError:
            raise MissingDependency(f"Whisper needs faster-whisper: {how_to_install('judges')}") from None
        self.name = f"faster-whisper:{model}"
        try:
            self._model = package.WhisperModel(model, device="cpu", compute_type="int8", cpu_threads=2)
        except Exception as error:  # the package raises whatever its loaders do
            raise Unavailable(f"the recogniser {model} cannot be loaded: {error}") from error

    def transcribe(self, clip: Clip, language: str) -> str:
        segments, _ = self._model.transcribe(
            at_16khz(clip), language=language, beam_size=1, temperature=0.0, condition_on_previous_text=False
        )
        return " ".join(segment.text.strip() for segment in segments)


class PocketSphinx:
    """A small recogniser of English that needs no download. It mishears about one word in ten of a clear voice."""

    name = "pocketsphinx"

    def __init__(self) -> None:
        try:
            package = import_module("pocketsphinx")
        except ImportError:
            raise MissingDependency(f"this recogniser needs pocketsphinx: {how_to_add('pocketsphinx')}") from None
        self._decoder = package.Decoder(samprate=16_000, loglevel="FATAL")

    def transcribe(self, clip: Clip, language: str) -> str:
        from rhapsode.audio.samples import pcm16

        self._decoder.start_utt()
        self._decoder.process_raw(pcm16(at_16khz(clip)).tobytes(), full_utt=True)
        self._decoder.end_utt()
        found = self._decoder.hyp()
        return str(found.hypstr) if found else ""


class TranscriptionUrl:
    """Sends a WAV file to `POST /v1/audio/transcriptions`."""

    def __init__(self, url: str, model: str = "whisper-1", api_key: str | None = None) -> None:
        base = url.rstrip("/")
        self._url = base if base.endswith("/transcriptions") else f"{base.removesuffix('/v1')}/v1/audio/transcriptions"
        self._model, self._api_key = model, api_key
        self.name = f"{self._url} ({model})"

    def transcribe(self, clip: Clip, language: str) -> str:
        from rhapsode.audio.encode import encode

        fields = {"model": self._model, "language": language, "response_format": "json", "temperature": "0"}
        boundary, body = multipart(fields, encode(clip, "wav"))
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        request = urllib.request.Request(self._url, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                return str(json.loads(response.read())["text"])
        except urllib.error.HTTPError as error:
            with error:
                detail = error.read(300).decode("utf-8", "replace")
            raise GenerationFailed(f"the recogniser answered {error.code}: {detail}") from None
        except (OSError, ValueError, KeyError) as error:
            raise Unavailable(f"the recogniser at {self._url} does not answer: {error}") from None


def make_recogniser(name: str, model: str | None = None, api_key: str | None = None) -> Recogniser | None:
    """Returns the recogniser for a URL, `pocketsphinx`, or a model of faster-whisper; None for `none`."""
    if name == "none":
        return None
    if name.startswith(("http://", "https://")):
        return TranscriptionUrl(name, model or "whisper-1", api_key)
    return PocketSphinx() if name == PocketSphinx.name else Whisper(name)


def multipart(fields: dict[str, str], audio: bytes) -> tuple[str, bytes]:
    """Returns the boundary and the body of a form with one WAV file."""
    boundary = uuid.uuid4().hex
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="speech.wav"\r\n'
    parts += [head.encode(), b"Content-Type: audio/wav\r\n\r\n", audio, f"\r\n--{boundary}--\r\n".encode()]
    return boundary, b"".join(parts)

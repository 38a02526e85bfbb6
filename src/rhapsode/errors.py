"""All errors that users can see. Each class has its HTTP status, OpenAI error type and code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import ClassVar


class IgnoredWarning(UserWarning):
    """Something that a request asked for was ignored, because the model cannot do it."""


class RhapsodeError(Exception):
    """The base class: an error whose message, one sentence, is shown to the user."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param

    def body(self) -> dict[str, dict[str, str | None]]:
        """Returns the JSON body in OpenAI's form."""
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "code": self.code,
            }
        }


class InvalidRequest(RhapsodeError):
    """The request is wrong: a value, a combination of fields or its size."""

    status, type, code = 400, "invalid_request_error", "invalid_value"


class UnknownOption(InvalidRequest):
    """The request has an option, field or key that does not exist."""

    code = "unknown_parameter"


class UnknownVoice(InvalidRequest):
    """There is no voice of this name."""

    code = "unknown_voice"


class UnknownModel(InvalidRequest):
    """There is no model of this name, or no family here runs it."""

    status, code = 404, "model_not_found"


class TextTooLong(InvalidRequest):
    """The text is longer than the deployment or the model allows."""

    status, code = 413, "text_too_long"


class BadAudio(InvalidRequest):
    """Audio from the user cannot be decoded within the limits."""

    code = "invalid_audio"


class Busy(RhapsodeError):
    """The queue is full; the client may try again after `retry_after_s`."""

    status, type, code = 429, "rate_limit_error", "queue_full"

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Unavailable(RhapsodeError):
    """The engine is not running: it is starting or stopping."""

    status, code = 503, "unavailable"


class TimedOut(RhapsodeError):
    """The request took longer than the deployment allows."""

    status, code = 504, "timeout"


class Aborted(RhapsodeError):
    """The client disconnected or cancelled the request."""

    status, type, code = 499, "request_aborted", "aborted"


class GenerationFailed(RhapsodeError):
    """A stage failed while it worked on this request."""

    code = "generation_failed"


class Runaway(GenerationFailed):
    """The model did not stop within the longest duration the text can need, so the speech was cut."""

    code = "runaway"


class EmptyAudio(GenerationFailed):
    """The model stopped before it produced any audio."""

    code = "empty_audio"


class ConfigError(RhapsodeError):
    """A configuration file, environment variable or flag is wrong."""

    status, type, code = 400, "invalid_request_error", "invalid_config"


class NoMemory(ConfigError):
    """The memory of the machine or of its GPU is not enough for the model."""

    status, type, code = 503, "server_error", "no_memory"


class CheckpointError(RhapsodeError):
    """A checkpoint is missing or incomplete, or its tensors do not match its configuration."""

    code = "invalid_checkpoint"

    def __init__(self, message: str, *, param: str | None = None, details: Sequence[str] = ()) -> None:
        super().__init__(message, param=param)
        self.details = tuple(details)
        """All problems; the message names only the first."""


class MissingDependency(RhapsodeError):
    """An optional package that this family or feature needs is not installed."""

    status, code = 501, "missing_dependency"


class OutputError(RhapsodeError):
    """The result cannot be written to the given path."""

    status, type, code = 400, "invalid_request_error", "unwritable_output"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns the end of an error message about an unknown name: the most similar known name, or all of them."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"known: {', '.join(names)}." if names else "there are none."

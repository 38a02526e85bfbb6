"""One hierarchy of errors; each knows its HTTP status and its OpenAI error type and code."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar


class RhapsodeError(Exception):
    """Something went wrong that a user can be told about in one sentence."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param

    def body(self) -> dict[str, dict[str, str | None]]:
        """The OpenAI-shaped JSON body."""
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "code": self.code,
            }
        }


class InvalidRequest(RhapsodeError):
    """What was asked for cannot be asked for."""

    status, type, code = 400, "invalid_request_error", "invalid_value"


class UnknownOption(InvalidRequest):
    """An option, field or key that does not exist."""

    code = "unknown_parameter"


class UnknownVoice(InvalidRequest):
    code = "unknown_voice"


class UnknownModel(InvalidRequest):
    status, code = 404, "model_not_found"


class TextTooLong(InvalidRequest):
    status, code = 413, "text_too_long"


class BadAudio(InvalidRequest):
    """User audio that cannot be decoded within the limits."""

    code = "invalid_audio"


class Busy(RhapsodeError):
    """The queue is full; try again after `retry_after_s`."""

    status, type, code = 429, "rate_limit_error", "queue_full"

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Unavailable(RhapsodeError):
    """The engine is not running (yet, or any more)."""

    status, code = 503, "unavailable"


class TimedOut(RhapsodeError):
    status, code = 504, "timeout"


class Aborted(RhapsodeError):
    """The listener went away or cancelled."""

    status, type, code = 499, "request_aborted", "aborted"


class GenerationFailed(RhapsodeError):
    """A stage raised while it worked on this request."""

    code = "generation_failed"


class Runaway(GenerationFailed):
    """No stop within the length the text can need; what was spoken was cut."""

    code = "runaway"


class EmptyAudio(GenerationFailed):
    """The model ended without having said anything."""

    code = "empty_audio"


class ConfigError(RhapsodeError):
    """A configuration file, variable or flag that makes no sense."""

    status, type, code = 400, "invalid_request_error", "invalid_config"


class CheckpointError(RhapsodeError):
    """A checkpoint that is missing, incomplete or of another shape than its config says."""

    code = "invalid_checkpoint"


class MissingDependency(RhapsodeError):
    """An optional package this family or feature needs is not installed."""

    status, code = 501, "missing_dependency"


class OutputError(RhapsodeError):
    """The result cannot be written where it was asked to go."""

    status, type, code = 400, "invalid_request_error", "unwritable_output"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the nearest known one, or all of them."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"known: {', '.join(names)}." if names else "there are none."

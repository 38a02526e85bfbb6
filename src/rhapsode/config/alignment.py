"""How produced audio is aligned to its text."""

from __future__ import annotations

from pathlib import Path

from rhapsode.config.section import Section


class AlignmentConfig(Section):
    """Word timestamps, and the end of speech after its last word."""

    model: Path | None = None
    """A folder with a CTC acoustic model, for another language than English: the package contains one for English."""
    language: str | None = None
    """The code of that model's language, such as `de`. A published checkpoint does not say it; our own models do."""
    at_start: bool | None = None
    """Loads the acoustic model as soon as a server is ready, beside its requests. By default it is loaded once somebody
    has opened the page of a server on a CPU, and with the model from then on; with false, or on a GPU, the first
    request that needs it waits for it."""
    end_detection: bool = False
    """End speech that goes on after its last word, in every request that does not say otherwise. Text in a language
    that the acoustic model does not know is spoken as without it."""

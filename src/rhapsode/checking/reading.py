"""How a model reads the text of a request."""

from __future__ import annotations

from rhapsode.errors import InvalidRequest
from rhapsode.text.front_end import TextSettings
from rhapsode.text.lexicon import Lexicon
from rhapsode.text.markup import input_type_of
from rhapsode.text.normalise.language import LANGUAGES
from rhapsode.types import ModelInfo, SpeechRequest


def settings_of(request: SpeechRequest, info: ModelInfo, lexicon: Lexicon) -> TextSettings:
    """Returns how the text of a request is read by a model."""
    language = request.language or (info.languages[0] if len(info.languages) == 1 else None)
    wanted = info.normalise if request.normalise is None else request.normalise
    if request.normalise and language is not None and language not in LANGUAGES:
        known = ", ".join(LANGUAGES)
        raise InvalidRequest(f"'normalise' works for {known}; not for '{language}'.", param="normalise")
    phonemes = info.phonemes and language == "en"
    return TextSettings(
        input_type_of(request.input_type), language, wanted, lexicon.with_more(request.lexicon), phonemes
    )

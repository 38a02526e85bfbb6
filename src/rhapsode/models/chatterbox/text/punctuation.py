"""Changes the punctuation of a text to what the model has heard in training."""

from __future__ import annotations

EMPTY = "You need to add some text for me to talk."
REPLACED = (
    ("...", ", "),
    ("…", ", "),
    (":", ","),
    (" - ", ", "),
    (";", ", "),
    ("—", "-"),
    ("–", "-"),
    (" ,", ","),
    ("“", '"'),
    ("”", '"'),
    ("‘", "'"),
    ("’", "'"),
)
"""One after the other, in this order."""
NOT_OF_TURBO = ("...", " - ", ";")
ENDS = (".", "!", "?", "-", ",")
MORE_ENDS = ("、", "，", "。", "？", "！")
"""What else a text of a multilingual model may end with."""


def punctuated(text: str, *, turbo: bool = False, multilingual: bool = False) -> str:
    """Returns a text as a variant wants it: one space between words, simple signs, an end."""
    if not text:
        return EMPTY
    if text[0].islower():
        text = text[0].upper() + text[1:]
    text = " ".join(text.split())
    for before, after in REPLACED:
        if not (turbo and before in NOT_OF_TURBO):
            text = text.replace(before, after)
    text = text.rstrip(" ")
    ends = (*ENDS, *MORE_ENDS) if multilingual else ENDS
    return text if text.endswith(ends) else f"{text}."

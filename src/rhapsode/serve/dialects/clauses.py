"""Where the clauses of a text end."""

from __future__ import annotations

import re
from collections.abc import Iterator

MARKS, FULL_MARKS = frozenset(",;"), frozenset("\uff0c\uff1b\u3001\u060c\u061b")
"""What ends a clause if a blank follows, and what ends one in any case."""
RUN = re.compile(r"[,;\uff0c\uff1b\u3001\u060c\u061b\"')\]}\u2019\u201d\u00bb\u300d\u300f\uff09\u3011]+")
"""A mark with those beside it, and with the quotes and brackets that end there."""
LETTER = re.compile(r"[^\W_]")
MOST_CLAUSE_CHARS = 2**15
"""A longer text is cut at sentences only, in one piece: no server takes one."""


def clause_ends(text: str) -> Iterator[int]:
    """Yields where clauses with something to say end; the end of the text may be that of one, too."""
    said, at = False, 0
    for run in RUN.finditer(text):
        said = said or LETTER.search(text, at, run.start()) is not None
        at = run.end()
        mark = next((char for char in run[0] if char in MARKS or char in FULL_MARKS), "")
        if said and (mark in FULL_MARKS or (mark and text[at : at + 1].isspace())):
            said = False
            yield at

"""Which bytes the tokens of an unknown vocabulary stand for, as far as texts with their ids tell."""

from collections.abc import Mapping, Sequence

Found = dict[int, set[bytes]]
"""By id, the byte strings that it can stand for."""


def align(words: Sequence[bytes], ids: Sequence[int], known: Mapping[int, set[bytes]]) -> Found | None:
    """Returns what each id can stand for if the ids spell the words and none crosses the border of two words.

    `None`: they cannot. Ids that are not in `known` may stand for anything.
    """
    text, borders, at = b"".join(words), [], 0
    for word in words:
        borders += [at + len(word)] * len(word)
        at += len(word)
    reached = [{0}]
    steps: list[list[tuple[int, int]]] = []
    for one in ids:
        starts = (start for start in reached[-1] if start < len(text))
        spans = [(start, end) for start in starts for end in range(start + 1, borders[start] + 1)]
        steps.append([(a, b) for a, b in spans if one not in known or text[a:b] in known[one]])
        reached.append({end for _, end in steps[-1]})
    found: Found = {}
    ends = {len(text)} & reached[-1]
    for one, spans in zip(reversed(ids), reversed(steps), strict=True):
        spans = [(a, b) for a, b in spans if b in ends]
        meanings = {text[a:b] for a, b in spans}
        found[one] = found[one] & meanings if one in found else meanings
        ends = {a for a, _ in spans}
    return found if ends else None


def align_all(texts: Sequence[tuple[Sequence[bytes], Sequence[int]]], known: Found) -> list[int]:
    """Returns the indices of texts whose ids cannot spell their words, if each id means the same everywhere.

    Adds to `known` what the others tell.
    """
    while True:
        before = {one: len(meanings) for one, meanings in known.items()}
        failed = []
        for i, (words, ids) in enumerate(texts):
            found = align(words, ids, known)
            if found is None or not all(found.values()):
                failed.append(i)
            else:
                known.update(found)
        if {one: len(meanings) for one, meanings in known.items()} == before:
            return failed

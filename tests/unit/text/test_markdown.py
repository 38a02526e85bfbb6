"""Markdown and HTML are read as speech, whole or in pieces, in time that grows with their length."""

import gc
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rhapsode.text.events import Pause, TextEvent
from rhapsode.text.front_end import FrontEnd, TextSettings
from rhapsode.text.markup import InputType
from rhapsode.text.spoken import SpokenRun

MARKDOWN = """# The *Lighthouse*

## Chapter 1 ##
It was **very** _cold_, ~~so~~ and snake_case or 2*3 or 2 * 3 stay; see [the docs](http://x.y/a_(b)c "t (x")
and ![a lamp](l.png)![](x.png) `co*de` &amp; \\*stars\\*, un**believ**able ~5 km.

- first item
- second **item**!
  1. nested one
* [x] done

```python
print("no # heading")
```
> A quote
> goes on.

| Name | Cost |
|------|-----:|
| Tea \\| milk | $5 |
| | 6 |

a - b
1984. was a year, [^1] [ref][1] and [laugh] too

* * *

Under
=====
Text<br>here <b>bold</b> <https://example.com> <!-- no
way --> end [![badge](b.svg)](http://ci) and a `` `x` `` b.

    code here

[^1]: A note.
[1]: http://x
"""
SAID = (
    "The Lighthouse.|Chapter 1.|It was very cold, so and snake_case or 2*3 or 2 * 3 stay; see the docs and a lamp "
    "co*de & *stars*, unbelievable ~5 km. first item. second item! 1. nested one. done.|A quote goes on. Name, Cost. "
    "Tea | milk, $5. 6. a - b 1984. was a year, ref and [laugh] too.|Under.|Text here bold https://example.com end "
    "badge and a `x` b."
)
HTML = """<!DOCTYPE html><html><head><title>no</title><style>p {a<b}</style></head><body><H1>Less &lt; More</h1>
<p class="a > b">1 < 2 <b>and</B> 3<br/>&nbsp;4 &amp; 5 &amp</p><!-- <p>no</p> --><script>if (a<b) {"<p>no"}</script>
<p title=it's>yes<svg><text>no</text></svg> <img src="x>y" alt='A &amp; lamp'> ok</p><pre>code <b>x</b></pre>
<table><tr><th>Name</th><th>Cost</th></tr><tr><td>Tea</td><td></td><td>$5</td></tr></table>
<ul><li>One<li>Two</ul><hr>end <a href="x">of it</a>"""
HTML_SAID = (
    "Less < More.|1 < 2 and 3. 4 & 5 &. yes A & lamp ok.|Name, Cost. Tea, $5. One. Two.|end of it."
)  # fmt: skip
DOCUMENTS: dict[InputType, tuple[str, str]] = {"markdown": (MARKDOWN, SAID), "html": (HTML, HTML_SAID)}
SIGNS = st.text(st.sampled_from([*"ab1 \n\n\t#*_`~[]()!<>|-=+\\&;:.\"'/^", "\ud83d", "é", "好"]), max_size=80)


def events(text: str, kind: InputType, cuts: list[int] | None = None, **more) -> list[TextEvent]:
    front_end = FrontEnd(TextSettings(kind, "en", **more))
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts or ()), len(text)]
    found = [event for a, b in pairwise(edges) for event in front_end.push(text[a:b])]
    return [*found, *front_end.close()]


def characters(found: list[TextEvent]) -> list[TextEvent]:
    return [
        part
        for event in found
        for part in (
            [event.part(i, i + 1) for i in range(len(event.text))] if isinstance(event, SpokenRun) else [event]
        )
    ]


def said(found: list[TextEvent]) -> str:
    """The words, with `|` for every pause."""
    return "".join(event.text if isinstance(event, SpokenRun) else "|" for event in found)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_is_said_without_its_marks(kind: InputType) -> None:
    document, spoken = DOCUMENTS[kind]
    assert said(events(document, kind)) == spoken


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_may_be_cut_anywhere(kind: InputType) -> None:
    document, _ = DOCUMENTS[kind]
    whole = characters(events(document, kind))
    assert characters(events(document, kind, list(range(len(document))))) == whole
    for cut in range(len(document)):
        assert characters(events(document, kind, [cut])) == whole, document[cut - 20 : cut + 20]


@pytest.mark.parametrize("kind", DOCUMENTS)
@settings(max_examples=400, deadline=None)
@given(text=SIGNS, cuts=st.lists(st.integers(0, 80), max_size=9))
@example("`a`\n\nb", [2])
@example("~~~~\na\n~~~\nb", [3])
@example("<a b='>'>c", [7])
def test_any_signs_say_the_same_in_pieces(kind: InputType, text: str, cuts: list[int]) -> None:
    whole = characters(events(text, kind))
    assert characters(events(text, kind, cuts)) == whole
    assert characters(events(text, kind, list(range(len(text))))) == whole
    for event in whole:
        if isinstance(event, SpokenRun):
            assert 0 <= event.start <= event.stop <= len(text)
            assert not event.copied or text[event.start : event.stop] == event.text


@pytest.mark.parametrize("kind", DOCUMENTS)
@settings(max_examples=100, deadline=None)
@given(cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_numbers_are_written_out_the_same_in_pieces(kind: InputType, cuts: list[int]) -> None:
    document, _ = DOCUMENTS[kind]
    spoken = said(events(document, kind, cuts, normalise=True))
    assert spoken == said(events(document, kind, normalise=True))
    assert "five dollars" in spoken


def test_pauses_never_add_up_to_more_than_a_request_may_have() -> None:
    text = "word\n" + "# !\n\n---\n\n```\ncode\n```\n" * 500 + "end"
    assert sum(event.seconds for event in events(text, "markdown") if isinstance(event, Pause)) < 3


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("**Note**: 5*3 and a*b", "Note: 5*3 and a*b."),
        ("* star\n*not* a list", "star not a list."),
        ("#tag and #1", "#tag and #1."),
        ("#tag", "#tag."),
        ("so ##1 it is", "so ##1 it is."),
        ("##Chapter 1\nIt rained.", "Chapter 1.|It rained."),
        ("##", ""),
        ("##!", "##!"),
        ("####### seven", "####### seven."),
        ("---\nafter", "after."),
        ("-" * 80 + "\nafter", "after."),
        ("a `b and **c**", "a b and c."),
        ("a [b and **c**", "a [b and c."),
        ("[a](b c\nd", "a d."),
        ("[anna]: Hello.", "[anna]: Hello."),
        ("He said \"Hi.\"\n\nShe: 'Yes'", "He said \"Hi.\" She: 'Yes'."),
        ("1. **One** two\n2. three", "1. One two. 2. three."),
        ("H<sub>2</sub>O < 3 & x &nope; y", "H2O < 3 & x &nope; y."),
        ("~~~\n```\nno\n~~~\nyes", "yes."),
        ("```\nnever closed\n\n# at all", ""),
        ("> - > # deep\n> text", "deep.|text."),
        ("a\\\nb  \nc", "a b c."),
        ("a_b_ _c_d __e__", "a_b c_d e."),
    ],
)
def test_what_is_no_markup_is_text(text: str, spoken: str) -> None:
    assert said(events(text, "markdown")) == spoken


ATTACKS: dict[str, tuple[InputType, str]] = {
    **{sign: ("markdown", sign * (25_000 // len(sign))) for sign in "*_`~[]!<>|#-=\\&\n "},
    **{
        f"many {part!r}": ("markdown", part * (25_000 // len(part)))
        for part in ("[a](", "![", "[[][][]", "`a``b```", "*a ", "_a", "- ", "> ", "- a\n", "|a", "<a", "<!--", "&#1")
    },
    "lists 10,000 deep": ("markdown", "\n".join("  " * (depth % 40) + "- " * 250 + "a" for depth in range(40))),
    "quotes 10,000 deep": ("markdown", ">" * 10_000 + "a"),
    **{
        f"html {part!r}": ("html", part * (25_000 // len(part)))
        for part in ("<", "<a", "<a b='", "<!--", "<![CDATA[", "<script>", "<div>", "&#1", "<img alt='")
    },
    "a tag without an end": ("html", "<a b='" + "x" * 25_000),
}


@pytest.fixture
def no_collections() -> Iterator[None]:
    """No garbage collection of all that other tests have left may fall into a measured piece."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("cut", [25_000, 128, 1])
def test_text_made_to_be_slow_is_read_in_linear_time(name: str, cut: int, no_collections: None) -> None:
    kind, text = ATTACKS[name]
    text = text[: 5_000 if cut == 1 else None]
    front_end = FrontEnd(TextSettings(kind, "en"))
    slowest_s, started_s = 0.0, time.thread_time()
    for start in range(0, len(text), cut):
        begun_s = time.thread_time()
        front_end.push(text[start : start + cut])
        slowest_s = max(slowest_s, time.thread_time() - begun_s)
    front_end.close()
    assert time.thread_time() - started_s < 3  # 0.5 s on a slow core; a reader that goes back takes minutes
    assert cut > 128 or slowest_s < 0.1

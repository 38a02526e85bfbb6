"""How long a text is, before it is spoken."""

import pytest

from rhapsode.text.duration import estimate_s


@pytest.mark.parametrize(
    ("text", "low_s", "high_s"),
    [
        ("The quick brown fox jumps over the lazy dog.", 2.0, 4.0),
        ("今天天气很好，我们去公园散步吧。", 2.0, 4.5),
        ("안녕하세요, 만나서 반갑습니다.", 1.5, 4.0),
        ("a \n\n\n b", 0.1, 0.3),
        ("", 0.0, 0.0),
    ],
)
def test_an_estimate_is_near_what_people_take(text: str, low_s: float, high_s: float) -> None:
    assert low_s <= estimate_s(text) <= high_s

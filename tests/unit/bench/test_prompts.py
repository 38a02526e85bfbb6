from collections import Counter

import pytest

from rhapsode.bench.quality.generated import generate
from rhapsode.bench.quality.prompts import read_prompts
from rhapsode.errors import InvalidRequest

KINDS = {"everyday": 50, "names": 30, "numbers": 40, "questions": 25, "exclamations": 15, "lists": 15, "long": 25}


def test_our_own_list_has_two_hundred_prompts_of_seven_kinds():
    found = read_prompts()
    assert Counter(prompt.kind for prompt in found) == KINDS
    assert len({prompt.text for prompt in found}) == len({prompt.id for prompt in found}) == 200
    assert all(prompt.text[0].isupper() and prompt.text[-1] in ".?!" for prompt in found)
    for prompt in found:
        assert any(char.isdigit() for char in prompt.text) == (prompt.kind == "numbers"), prompt.text
        assert 20 <= len(prompt.text.split()) <= 45 or prompt.kind != "long", prompt.text


def test_generated_prompts_repeat_with_their_seed_and_are_whole():
    found = generate(500, seed=1)
    assert found == generate(500, seed=1)
    assert found != generate(500, seed=2)
    assert len({prompt.id for prompt in found}) == 500
    assert len({prompt.text for prompt in found}) > 400
    assert not any(set("{}") & set(prompt.text) for prompt in found)
    assert set(Counter(prompt.kind for prompt in found).values()) == {71, 72}


def test_seed_tts_evals_meta_lst(tmp_path):
    path = tmp_path / "meta.lst"
    path.write_text("u1|What was said.|prompt-wavs/a.wav|What to say.\nu2|Ref.|prompt-wavs/b.wav|More.|wavs/u2.wav\n")
    one, two = read_prompts(path)
    assert (one.id, one.text, one.reference_text) == ("u1", "What to say.", "What was said.")
    assert one.reference == tmp_path / "prompt-wavs" / "a.wav"
    assert two.text == "More."


def test_plain_text_with_comments_and_kinds(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("# a comment\n\nOne.\n Two. \nThree.\n[more]\nFour.\n")
    assert [(prompt.kind, prompt.id) for prompt in read_prompts(path)][-2:] == [("", "list-5"), ("more", "more-7")]
    assert [prompt.text for prompt in read_prompts(path, most=2)] == ["One.", "Two."]


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"a|b|c\n", b"\xff\xfe\xff"])
def test_a_file_without_prompts_is_an_error(tmp_path, content):
    path = tmp_path / "list.txt"
    path.write_bytes(content)
    with pytest.raises(InvalidRequest):
        read_prompts(path)

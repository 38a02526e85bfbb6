import pytest

from rhapsode.bench.quality.prompts import read_prompts
from rhapsode.errors import InvalidRequest


def test_our_own_list_has_fifty_plain_sentences():
    found = read_prompts()
    assert len({prompt.text for prompt in found}) == len({prompt.id for prompt in found}) == 50
    assert all(prompt.text[0].isupper() and prompt.text[-1] in ".?" for prompt in found)
    assert not any(char.isdigit() for prompt in found for char in prompt.text)


def test_seed_tts_evals_meta_lst(tmp_path):
    path = tmp_path / "meta.lst"
    path.write_text("u1|What was said.|prompt-wavs/a.wav|What to say.\nu2|Ref.|prompt-wavs/b.wav|More.|wavs/u2.wav\n")
    one, two = read_prompts(path)
    assert (one.id, one.text, one.reference_text) == ("u1", "What to say.", "What was said.")
    assert one.reference == tmp_path / "prompt-wavs" / "a.wav"
    assert two.text == "More."


def test_plain_text_and_no_more_than_asked_for(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("# a comment\n\nOne.\n Two. \nThree.\n")
    assert [prompt.text for prompt in read_prompts(path, most=2)] == ["One.", "Two."]


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"a|b|c\n", b"\xff\xfe\xff"])
def test_a_list_that_is_none(tmp_path, content):
    path = tmp_path / "list.txt"
    path.write_bytes(content)
    with pytest.raises(InvalidRequest):
        read_prompts(path)

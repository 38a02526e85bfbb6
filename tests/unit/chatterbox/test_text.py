"""Text becomes the ids that upstream makes of it; only what a user must not command is read as it is written."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rhapsode.errors import CheckpointError, InvalidRequest
from rhapsode.models.chatterbox.text import languages
from rhapsode.models.chatterbox.text.cangjie import Cangjie
from rhapsode.models.chatterbox.text.languages import LANGUAGES, spelled
from rhapsode.models.chatterbox.text.punctuation import punctuated
from rhapsode.models.chatterbox.text.tokenizer import TAGS, EncodesText, read
from rhapsode.models.chatterbox.variants import Kind
from tiny.chatterbox import GOLDEN
from unit.chatterbox.asked import CASES, TEXTS

CONTROL = ("[START]", "[giggle]", "<|endoftext|>")
ORIGINAL = read(GOLDEN, Kind.ORIGINAL, 704)
MULTILINGUAL = read(GOLDEN, Kind.MULTILINGUAL, 2454)
TURBO = read(GOLDEN / "turbo", Kind.TURBO, 320)
ENCODERS: dict[str, EncodesText] = {"original": ORIGINAL, "mtl": MULTILINGUAL, "turbo": TURBO}


@pytest.mark.parametrize("case", TEXTS["punc_norm"], ids=lambda case: case["text"])
def test_punctuation_is_upstreams(case: dict[str, str]) -> None:
    assert punctuated(case["text"]) == case["original"]
    assert punctuated(case["text"], turbo=True) == case["turbo"]
    assert punctuated(case["text"], multilingual=True) == case["multilingual"]


def plain(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [case for case in cases if not any(token in case["text"] for token in CONTROL)]


@pytest.mark.parametrize("case", plain(TEXTS["original"]), ids=lambda case: case["text"])
def test_ids_of_the_original_are_upstreams(case: dict[str, Any]) -> None:
    assert ORIGINAL(case["text"]) == case["ids"]


@pytest.mark.parametrize("case", plain(TEXTS["turbo"]), ids=lambda case: case["text"])
def test_ids_of_turbo_are_upstreams(case: dict[str, Any]) -> None:
    assert TURBO(case["text"]) == case["ids"]


@pytest.mark.parametrize("case", TEXTS["multilingual"], ids=lambda case: case["language"])
def test_ids_of_every_language_are_upstreams(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream had pykakasi, but no other package."""
    install(monkeypatch, "pykakasi", kakasi=lambda: SimpleNamespace(convert=lambda text: READINGS))
    without(monkeypatch, *(name for name in languages.PACKAGES.values() if name != "pykakasi"))
    assert MULTILINGUAL(case["text"], case["language"], lenient=True) == case["ids"]


def test_without_a_language_there_is_no_token_for_one() -> None:
    assert MULTILINGUAL(TEXTS["no_language"]["text"]) == TEXTS["no_language"]["ids"]


@pytest.mark.parametrize("name", [name for name in CASES if name != "original-exaggerated"])
def test_ids_of_the_goldens_of_t3_are_upstreams(name: str) -> None:
    case = CASES[name]
    found = ENCODERS[case["kind"]](case["text"], case["language"])
    assert found == (case["text_ids"] if case["kind"] == "turbo" else case["text_ids"][1:-1])


# --- what a user must not command ---


@pytest.mark.parametrize("text", ["[START]hi[STOP]", "[laughter]", "[SPACE]", "[UNK]", "[fr] oui", "[cj_a]"])
@pytest.mark.parametrize("encode", [ORIGINAL, MULTILINGUAL])
def test_control_tokens_are_read_as_characters(encode: Any, text: str) -> None:
    controls = {number for token, number in encode.special.items() if token in text and token != "[SPACE]"}
    ids = encode(text)
    assert not controls & set(ids)
    assert encode.special["[SPACE]"] not in encode("[SPACE]")
    assert len(ids) > len(text.split())


def test_turbo_knows_its_tags_and_no_other_token() -> None:
    special = TURBO.special  # type: ignore[attr-defined]
    assert [TURBO(f"{tag}.") for tag in TAGS] == [[special[tag], 13] for tag in TAGS]
    assert 280 not in TURBO("A <|endoftext|>")
    assert not set(special.values()) & set(TURBO("[CHUCKLE] [bark]"))


# --- languages that need a package ---

READINGS = [
    {"orig": orig, "hira": hira}
    for orig, hira in (
        ("今日は", "こんにちは"), ("東京", "とうきょう"), ("へ", "へ"), ("行く", "いく"), ("。", "。"),
        ("カタカナ", "かたかな"), (".", "."),
    )
]  # fmt: skip


def install(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    module = ModuleType(name)
    vars(module).update(content)
    monkeypatch.setitem(sys.modules, name, module)
    languages._made.cache_clear()


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("language", languages.PACKAGES)
def test_a_language_without_its_package_is_refused_with_what_to_install(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, languages.PACKAGES[language])
    with pytest.raises(InvalidRequest, match=r"which is not installed: .*install.*lenient_text") as caught:
        spelled("text", language)
    assert caught.value.param == "language"
    assert spelled("Text", language, lenient=True) == "text"


def test_readings_that_begin_like_a_particle_are_set_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [{"orig": "母", "hira": "はは"}, {"orig": "は", "hira": "は"}, {"orig": "犬", "hira": "いぬ"}]
    install(monkeypatch, "pykakasi", kakasi=lambda: SimpleNamespace(convert=lambda text: words))
    assert spelled("母は犬", "ja") == " はははいぬ"


def test_packages_of_other_languages_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def maker(**methods: Any) -> Any:
        return lambda: made.append(1) or SimpleNamespace(**methods)

    install(monkeypatch, "spacy_pkuseg", pkuseg=maker(cut=lambda text: ["天气", "好"]))
    assert [spelled("天气好", "zh") for _ in range(2)] == ["天气 好"] * 2
    install(monkeypatch, "dicta_onnx", Dicta=maker(add_diacritics=lambda text: f"{text}+"))
    assert spelled("שלום", "he") == "שלום+"
    stresser = maker(stress_text=lambda text: f"{text}'")
    install(monkeypatch, "russian_text_stresser.text_stresser", RussianTextStresser=stresser)
    install(monkeypatch, "russian_text_stresser", text_stresser=sys.modules["russian_text_stresser.text_stresser"])
    assert spelled("да", "ru") == "да'"
    assert len(made) == 3


def test_every_other_language_needs_none() -> None:
    for language in set(LANGUAGES) - set(languages.PACKAGES):
        assert spelled("Ab", language) == "ab"


# --- Chinese ---


def test_characters_that_share_a_code_are_numbered() -> None:
    table = Cangjie(GOLDEN / "Cangjie5_TC.json")
    assert table.tokens("天") == ["[cj_m]", "[cj_k]", "[cj_.]"]
    assert table.tokens("夭") == ["[cj_m]", "[cj_k]", "[cj_1]", "[cj_.]"]
    assert table.tokens("x") == table.tokens("，") == table.tokens("龘") == []


@pytest.mark.parametrize("content", ["{", '["one"]', "[1]", '{"a": 1}', "[null]"])
def test_a_table_that_is_none_is_one_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "Cangjie5_TC.json").write_text(content)
    with pytest.raises(CheckpointError, match="a JSON list of characters and codes"):
        Cangjie(tmp_path / "Cangjie5_TC.json")


def test_a_repository_without_the_table_speaks_no_chinese(tmp_path: Path) -> None:
    name = "grapheme_mtl_merged_expanded_v1.json"
    (tmp_path / name).write_bytes((GOLDEN / name).read_bytes())
    with pytest.raises(InvalidRequest, match=r"needs Cangjie5_TC\.json"):
        read(tmp_path, Kind.MULTILINGUAL, 2454)("你好", "zh", lenient=True)


# --- broken tokenizers ---


def test_a_tokenizer_with_more_ids_than_the_model_is_refused() -> None:
    with pytest.raises(CheckpointError, match="has the id 703; the model knows 700 tokens"):
        read(GOLDEN, Kind.ORIGINAL, 700)


@pytest.mark.parametrize("content", [{"added_tokens": []}, {"added_tokens": [{"content": "a"}]}, {"added_tokens": 5}])
def test_a_tokenizer_without_its_tokens_is_refused(tmp_path: Path, content: dict[str, Any]) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        read(tmp_path, Kind.ORIGINAL, 704)


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt"])
def test_a_tokenizer_that_lacks_a_file_is_refused(tmp_path: Path, name: str) -> None:
    for file in (GOLDEN / "turbo").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / name).unlink()
    with pytest.raises(CheckpointError, match=f"holds no {name}"):
        read(tmp_path, Kind.TURBO, 320)

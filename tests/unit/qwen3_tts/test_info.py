"""What a checkpoint can do is known before it is loaded, and is the checkpoint's own."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from rhapsode.checking.reading import settings_of
from rhapsode.config import resolve
from rhapsode.engine import Engine, Source, SpeechScript
from rhapsode.errors import InvalidRequest
from rhapsode.models.dummy.spec import SPEC as DUMMY
from rhapsode.models.registry import find
from rhapsode.text.lexicon import Lexicon
from rhapsode.text.phonemes.sounds import respelled
from rhapsode.types import Capabilities, Clip, SpeechRequest, Voice
from tiny.qwen3_tts import HIDDEN, reference_audio
from unit.command import python
from unit.qwen3_tts.asked import Family

CUSTOM, DESIGN, BASE = "custom_voice_proj", "voice_design_proj", "base_proj"
CLIP = Clip(reference_audio(30_000)[None], 24_000)
Checkpoints = Callable[[str], Path]


def test_a_base_model_clones_and_has_no_presets(checkpoint: Checkpoints) -> None:
    info = find(str(checkpoint(BASE))).info()
    assert info.can == Capabilities(clone=True, embedding=True, text_stream=True)
    assert (info.title, info.voices, info.embedding_size) == ("qwen3-tts Base", (), HIDDEN)


def test_a_custom_voice_model_has_presets_and_does_not_clone(checkpoint: Checkpoints) -> None:
    info = find(str(checkpoint(CUSTOM))).info()
    assert info.can == Capabilities(presets=True, instructions=True, text_stream=True)
    assert info.voices[0] == "aiden"
    assert info.embedding_size is None


def test_what_a_checkpoint_declares_of_its_presets_is_known_and_nothing_else(
    checkpoint: Checkpoints, tmp_path: Path
) -> None:
    assert find(str(checkpoint(CUSTOM))).info().voice_facts == {
        "eric": {"accent": "sichuan dialect"},
        "dylan": {"accent": "beijing dialect"},
    }
    folder = shutil.copytree(checkpoint(CUSTOM), tmp_path / "declared")
    declared = {"aiden": {"gender": "male", "shoes": "brown"}, "eric": {"gender": 1}, "dylan": "male", "no one": {}}
    (folder / "generation_config.json").write_text(json.dumps({"voice_facts": declared}))
    assert find(str(folder)).info().voice_facts == {
        "aiden": {"gender": "male"},
        "eric": {"accent": "sichuan dialect"},
        "dylan": {"accent": "beijing dialect"},
    }
    own = find("rhapsode-nano").info()
    assert set(own.voice_facts) == set(own.voices)
    assert own.voice_facts["heart"] == {"gender": "female"}


def test_a_custom_voice_model_with_encoders_has_presets_and_clones(checkpoint: Checkpoints, tmp_path: Path) -> None:
    """As the packaged voice may be: upstream ignores the encoders of such a checkpoint."""
    folder = shutil.copytree(checkpoint(BASE), tmp_path / "both")
    config = json.loads((folder / "config.json").read_text())
    config |= {"tts_model_type": "custom_voice", "tts_model_size": "0b6"}
    config["talker_config"] |= {"spk_id": {"ann": 1100, "bob": 1101}, "spk_is_dialect": {"ann": False, "bob": False}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"clones": True}))
    info = find(str(folder)).info()
    assert info.can == Capabilities(presets=True, clone=True, embedding=True, text_stream=True)
    assert (info.voices, info.embedding_size, info.default_voice) == (("ann", "bob"), HIDDEN, True)
    family = Family.open(folder)
    preset = family.prompt(SpeechRequest("Hello there.", Voice(name="bob")))
    assert preset.speaker is None
    assert 1101 in preset.content[:, 1]
    clone = family.prompt(SpeechRequest("Hello there.", Voice.cloned(CLIP)))
    assert clone.speaker is not None
    assert not {1100, 1101} & set(clone.content[:, 1].tolist())


def test_a_voice_design_model_takes_descriptions_alone(checkpoint: Checkpoints) -> None:
    info = find(str(checkpoint(DESIGN))).info()
    assert info.can == Capabilities(design=True, instructions=True, text_stream=True)


def test_languages_are_the_checkpoints_without_its_dialects(checkpoint: Checkpoints) -> None:
    info = find(str(checkpoint(CUSTOM))).info()
    assert {"en", "zh", "de"} <= set(info.languages)
    assert not any("dialect" in language for language in info.languages)


def test_the_packaged_voice_speaks_english_only() -> None:
    info = find("rhapsode-nano").info()
    assert (info.languages, info.voices) == (("en",), ("heart", "michael", "emma", "kore", "fenrir", "george"))
    assert info.can == Capabilities(presets=True, clone=True, embedding=True, text_stream=True)
    assert info.summary == "English, 6 preset voices, cloning; 24 kHz"
    assert (info.normalise, info.phonemes) == (True, True)


def test_a_family_without_a_checkpoint_is_what_its_spec_says() -> None:
    assert find("qwen3-tts").info() == find("qwen3-tts").spec.info()
    assert find("dummy").info() == DUMMY.info()


def test_it_is_asked_without_torch(checkpoint: Checkpoints, tmp_path: Path) -> None:
    code = f"import sys; from rhapsode.models.registry import find; print(find({str(checkpoint(BASE))!r}).info().title)"
    assert python(f"{code}; print('torch' in sys.modules)", tmp_path).split() == ["qwen3-tts", "Base", "False"]


# --- the engine ---


@pytest.fixture(scope="module")
def base(checkpoint: Checkpoints):
    found = find(str(checkpoint(BASE)))
    flags = {"model": str(found.checkpoint), "device": "cpu", "limits": {"max_concurrency": 1, "max_positions": 256}}
    with Engine(found.spec, resolve(env={}, flags=flags), Source(found.checkpoint, found.config)) as engine:
        yield engine


def test_the_engine_embeds_what_a_reference_sounds_like(base: Engine, family: Callable[[str], Family]) -> None:
    embedding = base.embed(CLIP)
    assert base.info.embedding_size == len(embedding) == HIDDEN
    assert np.array_equal(embedding, family(BASE).prompt(SpeechRequest("Hi.", Voice.cloned(CLIP))).speaker)
    assert base.load().references.misses == 1
    assert base.embed(CLIP) == embedding
    assert base.load().references.hits == 1


def test_a_checkpoint_that_cannot_embed_says_so(checkpoint: Checkpoints) -> None:
    found = find(str(checkpoint(CUSTOM)))
    flags = {"model": str(found.checkpoint), "device": "cpu", "limits": {"max_concurrency": 1, "max_positions": 256}}
    custom = Engine(found.spec, resolve(env={}, flags=flags), Source(found.checkpoint, found.config))
    dummy = Engine(DUMMY, resolve(env={}, flags={"device": "cpu", "limits": {"max_concurrency": 1}}))
    for engine, title in ((custom, "qwen3-tts CustomVoice"), (dummy, "dummy")):
        with pytest.raises(InvalidRequest, match=f"{title} makes no speaker embeddings"):
            engine.embed(CLIP)


def test_the_server_s_checks_are_the_engine_s(base: Engine) -> None:
    with pytest.raises(InvalidRequest, match="qwen3-tts Base takes one reference, not 2"):
        base.submit(SpeechRequest("Hi.", Voice(references=Voice.cloned(CLIP).references * 2)))


# --- a checkpoint decides nothing that is the deployment's ---


def test_a_config_json_cannot_ask_for_random_weights(checkpoint: Checkpoints, tmp_path: Path) -> None:
    source = checkpoint(CUSTOM)
    for path in source.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((source / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"random_weights": True, "weights": "fp8"}))
    trusted, other = (Family.open(folder).talker.net.state_dict() for folder in (source, tmp_path))
    assert trusted.keys() == other.keys()
    assert all(torch.equal(trusted[name], other[name]) for name in trusted)


def test_a_checkpoint_that_wants_phonemes_is_told_them(checkpoint: Checkpoints, tmp_path: Path) -> None:
    folder = shutil.copytree(checkpoint(CUSTOM), tmp_path / "phonemes")
    (folder / "generation_config.json").write_text(json.dumps({"phonemes": True}))
    info = find(str(folder)).info()
    assert info.phonemes
    assert not find(str(checkpoint(CUSTOM))).info().phonemes
    request = SpeechRequest("The apple.", language="en")
    assert SpeechScript(request, settings_of(request, info, Lexicon())).first().text == respelled("ði ˈæpᵊl.")
    german = SpeechRequest("Die Apfel.", language="de")
    assert SpeechScript(german, settings_of(german, info, Lexicon())).first() is german

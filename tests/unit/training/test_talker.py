"""The talker learns from the very prompts it will be asked with, by the very network that will answer."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch

import tokenizer
from corpus import drilled
from export import write_tensors
from lines import CLONED, IGNORED, LEAD, Lines, Writer
from rhapsode.checkpoints.load import load
from rhapsode.models.qwen3_tts.config import read
from rhapsode.types import SpeechRequest, Voice
from shape import talker_config
from talker import TrainableTalker
from templates import filled
from tiny.qwen3_tts import Tiny, write
from unit.qwen3_tts.asked import Family, Stage


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with one voice and one language, as ours is."""
    path = tmp_path_factory.mktemp("tiny")
    write(path, Tiny(kind="custom_voice"))
    config = json.loads((path / "config.json").read_text())
    talker = config["talker_config"]
    talker["spk_id"] = dict([next(iter(talker["spk_id"].items()))])
    talker["codec_language_id"] = {"english": talker["codec_language_id"]["english"]}
    (path / "config.json").write_text(json.dumps(config))
    return path


@pytest.mark.parametrize("streaming", [False, True], ids=["all text first", "a token per frame"])
def test_what_it_is_taught_to_say_is_what_it_says(folder: Path, streaming: bool) -> None:
    """Greedy codes of the served talker are the likeliest ones of the trained network, position by position."""
    family = Family.open(folder)
    options = {"non_streaming_mode": not streaming, "subtalker_temperature": 0}
    text = "Good morning."
    with torch.inference_mode():
        stage = Stage(family.talker, slots=1, positions=256)
        stage.join([0], [family.prompt(SpeechRequest(text, Voice(), language="English", options=options))])
        (codes,) = stage.speak([0], 24)
    config = read(json.loads((folder / "config.json").read_text()), folder)
    writer = Writer(config, folder, 0)
    writer._rng = Exactly(config.tokens.codec_language_id["english"])  # type: ignore[assignment]
    given = np.asarray(codes) if streaming else np.concatenate([np.zeros((LEAD, config.groups), int), codes])
    written = writer.write(text, given, streaming)
    assert written is not None
    rows, targets = written
    asked = np.flatnonzero(targets != IGNORED)[:-1]  # the end it was not asked for
    assert (targets[asked] == np.asarray(codes)[:, 0]).all()
    talker = TrainableTalker(config).eval()
    load(talker.net, folder, prefix="talker.")
    with torch.no_grad():
        hidden = talker.hidden(torch.from_numpy(rows)[None], torch.zeros(1, config.talker.hidden_size))[0, asked]
        logits = talker.net.codec_head(hidden)[:, : config.predictor.vocab_size]
    assert (logits.argmax(-1).numpy()[2:] == np.asarray(codes)[2:, 0]).mean() > 0.9  # the first may not be the end


def test_a_clone_has_its_speaker_vector_where_a_preset_has_its_id(folder: Path) -> None:
    config = read(json.loads((folder / "config.json").read_text()), folder)
    writer = Writer(config, folder, 0)
    codes = np.zeros((LEAD + 40, config.groups), int)
    preset, cloned = (writer.write("Good morning.", codes, True, voice) for voice in (0, -7))
    assert preset is not None
    assert cloned is not None
    (at,) = np.flatnonzero(cloned[0][:, 1] == CLONED)
    talker = TrainableTalker(config).eval()
    rows = torch.from_numpy(cloned[0])[None]
    one, other = (talker.hidden(rows, torch.full((1, config.talker.hidden_size), size)) for size in (0.0, 1.0))
    assert torch.equal(one[0, :at], other[0, :at])
    assert not torch.equal(one[0, at:], other[0, at:])
    (known,) = config.tokens.spk_id.values()
    assert known in preset[0][:, 1]
    assert known not in cloned[0][:, 1]


class Exactly(random.Random):
    """Takes the tokens as they are, and one language."""

    def __init__(self, language: int) -> None:
        super().__init__(0)
        self._language = language

    def random(self) -> float:
        return 0.0

    def choice(self, seq):
        return self._language


def test_weights_come_back_by_the_names_of_the_checkpoint(folder: Path, tmp_path: Path) -> None:
    config = read(json.loads((folder / "config.json").read_text()), folder)
    talker = TrainableTalker(config)
    write_tensors(tmp_path / "model.safetensors", {"talker.": talker.net})
    again = TrainableTalker(config)
    load(again.net, tmp_path, prefix="talker.")
    for (name, one), (_, other) in zip(talker.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(one.half().float(), other), name


def test_batches_hold_every_prompt_once() -> None:
    lines = Lines(groups=2, positions=1000, width=4, device=torch.device("cpu"))
    for length in (3, 40, 50, 7):
        rows = np.full((length, 3), length, np.int16)
        speaker = np.full((1, 4), length % 2, np.float16)
        lines.add(rows, np.full(length, length, np.int16), np.array([length]), speaker)
    chosen = list(lines.batches(128, np.random.default_rng(0)))
    assert [len(choice.starts) for choice in chosen] == [2, 2, 2]  # three short ones and one longer, filled up
    assert {length for choice in chosen for length in choice.lengths.tolist()} == {3, 7, 40, 50}
    for longest, starts, lengths in chosen:
        batch = lines.read(torch.from_numpy(starts), torch.from_numpy(lengths), longest)
        for row, length in zip(batch.first, lengths, strict=True):
            assert (row[:length] == length).all()
            assert (row[length:] == IGNORED).all()
        assert (batch.speakers == torch.from_numpy(lengths % 2)[:, None]).all()


def test_the_tokenizer_keeps_roles_whole_and_numbers_its_marks(tmp_path: Path) -> None:
    import gzip

    text = tmp_path / "text.gz"
    with gzip.open(text, "wt") as out:
        out.writelines(f"{filled(random.Random(seed))}\tsˈɪti.\n" for seed in range(300))
    vocabulary, merges = tokenizer.learn(text)
    tokenizer.write(tmp_path, vocabulary, merges)
    assert len(vocabulary) == tokenizer.TEXT_VOCABULARY - len(tokenizer.SPECIAL)
    exact = tokenizer.read(tmp_path, dropout=None)
    assert [exact.encode(role).tokens for role in tokenizer.ROLES] == [[role] for role in tokenizer.ROLES]
    shape = talker_config()
    marks = {mark: len(vocabulary) + i for i, mark in enumerate(tokenizer.SPECIAL)}
    assert (shape["im_start_token_id"], shape["tts_eos_token_id"]) == (marks["<|im_start|>"], marks["<tts_text_eod>"])


def test_templates_leave_no_hole_and_drills_no_word_out() -> None:
    rng = random.Random(0)
    made = [filled(rng) for _ in range(2000)]
    assert not any("{" in line or "}" in line for line in made)
    assert len(set(made)) > 1500
    said = " ".join(drilled(["alpha", "bravo", "charlie"] * 40, rng)).lower()
    assert said.count("bravo") >= 37  # what does not fill a drill is left over

"""8-bit weights in this family: a declared mode whose error is known, and that speaks through the engine."""

from dataclasses import replace
from pathlib import Path

import torch

from rhapsode.models.moss_tts_nano.talker import MossTalker
from rhapsode.testing.subject import Subject, hear, speak
from rhapsode.types import SpeechRequest
from tiny.moss_tts_nano import Tiny, write
from unit.moss_tts_nano.asked import CHECKPOINT, Family, Stage, context_of, golden, request


def test_logits_under_forced_codes_are_within_a_few_percent(family: Family) -> None:
    expected = golden("clone")
    stage = Stage(MossTalker(replace(context_of(CHECKPOINT), weights="int8")))
    stage.join([1], family.prompts(request("clone")), request("clone").sampling)
    for codes in expected["forced_codes"]:
        stage.forced = torch.from_numpy(codes)[None].long()
        stage.step(1)
    for found, wanted in (
        (torch.cat(stage.logits), expected["audio_logits"]),
        (torch.cat(stage.hidden), expected["global_hidden"]),
    ):
        error = float((found - torch.from_numpy(wanted)).square().mean().sqrt()) / float(wanted.std())
        assert 1e-4 < error < 0.05


def test_it_speaks_and_a_crowd_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, Tiny())
    engine = Subject("moss-tts-nano", (), model=lambda: str(tmp_path)).engine(weights="int8")
    requests = [SpeechRequest(text, seed=i) for i, text in enumerate(("Hello.", "One two three.", "Yes."))]
    alone = [speak(engine, one) for one in requests]
    together = [hear(speech) for speech in [engine.submit(one) for one in requests]]
    engine.stop()
    assert [samples.shape for samples in together] == [samples.shape for samples in alone]
    assert all(abs(one - other).max() < 1e-4 for one, other in zip(alone, together, strict=True))

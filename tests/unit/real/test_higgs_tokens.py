"""The control tokens of Higgs v3's prompts have the published ids."""

import json
from pathlib import Path

from rhapsode.models.higgs.sections import AUDIO, REFERENCE_AUDIO, REFERENCE_TEXT, TASK, TEXT
from rhapsode.models.higgs.tokenizer import ControlTokens
from unit.real.published import facts

PUBLISHED: dict[str, int] = facts("higgs_v3/control_tokens.json")
VOCABULARY = 151_936


def test_the_tokens_of_prompts_are_published(tmp_path: Path) -> None:
    listed = {str(number): {"content": name} for name, number in PUBLISHED.items()}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": listed}))
    tokens = ControlTokens(tmp_path, VOCABULARY)
    names = (TASK, TEXT, AUDIO, REFERENCE_AUDIO, REFERENCE_TEXT)
    assert [tokens[name] for name in names] == [151_667, 151_672, 151_670, 151_679, 151_680]

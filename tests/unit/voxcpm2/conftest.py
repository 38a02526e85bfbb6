"""Tiny checkpoints, written once per run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tiny.voxcpm2 import Tiny, write, write_lora
from unit.voxcpm2.asked import CASES, Family


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of the checkpoint a golden case was made with."""
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        case = CASES[name]
        known = case["fingerprint"]
        if known not in made:
            made[known] = tmp_path_factory.mktemp("voxcpm2")
            assert write(made[known], Tiny(**case["recipe"])) == known, "the goldens are stale"
            write_lora(made[known] / "lora", Tiny(**case["recipe"]))
        return made[known]

    return get


@pytest.fixture(scope="session")
def family(checkpoint: Callable[[str], Path]) -> Callable[[str], Family]:
    """The stages of such a checkpoint."""
    made: dict[str, Family] = {}

    def get(name: str) -> Family:
        case = CASES[name]
        key = f"{case['fingerprint']} {case['lora']}"
        if key not in made:
            folder = checkpoint(name)
            adapter = {"lora": str(folder / "lora")} if case["lora"] else {}
            made[key] = Family.open(folder, max_timesteps=50, **adapter)
        return made[key]

    return get

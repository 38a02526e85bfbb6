"""The benchmark of several models: a busy client that fails is an error, not a quieter machine."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def test_a_busy_client_that_fails_ends_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import several_models

    def refused(*about: object) -> float:
        raise ConnectionError("no room")

    monkeypatch.setattr(several_models, "first_audio_s", refused)
    monkeypatch.setattr(several_models, "SETTLE_S", 0)
    with pytest.raises(ConnectionError, match="no room"), several_models.busy(None, "second", 2):
        pass
    sys.modules.pop("several_models")

"""Which launches run eagerly before they are captured."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from rhapsode.device.replay import Replay


class _Recorder(Replay):
    """Stands for a GPU: notes how launches are recorded, and can fail to."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__(lambda x: self.done.append("eager"))
        self.done: list[str] = []
        self._error = error

    def _record(self, inputs: Sequence[Tensor], mode: str = "global") -> Any:
        self.done.append(mode)
        if mode == "relaxed" and self._error is not None:
            raise self._error


def test_the_first_launch_runs_eagerly_before_it_is_recorded() -> None:
    replay = _Recorder()
    replay._record_first([torch.zeros(1)])
    assert replay.done == ["eager", "global"]


def test_another_shape_is_recorded_at_once() -> None:
    replay = _Recorder()
    replay._record_later([torch.zeros(1)])
    assert replay.done == ["relaxed"]


def test_a_shape_that_cannot_be_recorded_at_once_runs_eagerly_first(caplog: pytest.LogCaptureFixture) -> None:
    replay = _Recorder(RuntimeError("operation not permitted when stream is capturing"))
    replay._record_later([torch.zeros(1)])
    assert replay.done == ["relaxed", "eager", "global"]
    assert "not permitted" in caplog.text


def test_an_error_of_the_launch_itself_is_not_hidden() -> None:
    with pytest.raises(ValueError, match="rows"):
        _Recorder(ValueError("too many rows"))._record_later([torch.zeros(1)])

"""The golden checkpoint's stages, opened once per run."""

import pytest

from unit.moss_tts_nano.asked import Family


@pytest.fixture(scope="session")
def family() -> Family:
    return Family.open()

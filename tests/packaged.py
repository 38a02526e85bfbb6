"""The voice that comes with the package."""

import pytest

from rhapsode.models.registry import PACKAGED, VOICE

NAME = "rhapsode-nano"
FOLDER = VOICE
needs_voice = pytest.mark.skipif(NAME not in PACKAGED, reason="the packaged voice is not here yet")

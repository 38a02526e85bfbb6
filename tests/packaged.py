"""The voice that comes with the package."""

import pytest

from rhapsode.config import DEFAULT_MODEL
from rhapsode.models.registry import PACKAGED

FOLDER = PACKAGED[DEFAULT_MODEL]
needs_voice = pytest.mark.skipif(not (FOLDER / "config.json").is_file(), reason="the packaged voice is not here yet")

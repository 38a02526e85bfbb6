"""The voice that comes with the package."""

from rhapsode.config import DEFAULT_MODEL
from rhapsode.models.packaged import PACKAGED

FOLDER = PACKAGED[DEFAULT_MODEL]

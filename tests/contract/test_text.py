"""Rules about text that hold for every family: pauses, paces and words that are written out."""

from rhapsode.testing.test_text import *  # noqa: F403

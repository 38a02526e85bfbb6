"""Rules for families that speak frame by frame: exact streaming, paging, limits, isolation."""

from rhapsode.testing.test_frames import *  # noqa: F403

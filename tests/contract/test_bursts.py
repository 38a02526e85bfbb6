"""Rules for families that make their frames in bursts: padding, isolation, aborts, order, back-pressure."""

from rhapsode.testing.test_bursts import *  # noqa: F403

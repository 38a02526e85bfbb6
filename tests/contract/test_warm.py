"""On a GPU nothing is compiled or captured once the engine has started."""

from rhapsode.testing.test_warm import *  # noqa: F403

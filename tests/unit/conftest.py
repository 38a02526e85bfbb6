"""Settings for every unit test."""

import os

from hypothesis import settings

EXAMPLES = 100 if "TEST_EXAMPLES" in os.environ else 25
"""Of each rule: others in every run."""

# A shared machine may pause any example: how long one takes says nothing about the code.
settings.register_profile("rhapsode", deadline=None, max_examples=EXAMPLES)
settings.load_profile("rhapsode")

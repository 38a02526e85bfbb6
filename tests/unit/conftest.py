"""Settings for every unit test."""

from hypothesis import settings

# A shared machine may pause any example: how long one takes says nothing about the code.
settings.register_profile("rhapsode", deadline=None)
settings.load_profile("rhapsode")

"""Settings for every test."""

import os

# Two workers share two cores: operations with threads of their own would wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

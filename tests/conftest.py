"""Settings for every test."""

import gc
import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

# Two workers share two cores: operations with threads of their own would wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

if find_spec("triton") is not None:
    import torch

    if not torch.cuda.is_available():  # kernels run in Triton's interpreter; Triton reads this when it is imported
        os.environ["TRITON_INTERPRET"] = "1"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects tests without the garbage collector, which would look at all modules and tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()

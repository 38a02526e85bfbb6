"""Settings for every test."""

import gc
import os
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec

import pytest

# Workers share the cores: operations with threads of their own would wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

if find_spec("httpcore2") is not None:
    import httpcore2

    # All clients share what they trust: to read the certificates of a system takes 60 ms.
    httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)

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

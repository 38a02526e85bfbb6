"""Settings for every test."""

import os
from importlib.util import find_spec

# Two workers share two cores: operations with threads of their own would wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

if find_spec("triton") is not None:
    import torch

    if not torch.cuda.is_available():  # kernels run in Triton's interpreter; Triton reads this when it is imported
        os.environ["TRITON_INTERPRET"] = "1"

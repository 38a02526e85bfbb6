"""Kernels run on the GPU where there is one, and in Triton's interpreter where there is none."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent
ON_GPU = torch.cuda.is_available()
HAS_TRITON = find_spec("triton") is not None

if HAS_TRITON and not ON_GPU:
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor

    def patch(tensor, scope):
        """As is, but a loop bound may be an array of one number, which NumPy no longer takes for an int."""
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch
    convert_float = interpreter._convert_float

    def rounded(values, source, wanted, mode):
        """As is, but for 8-bit floats: the interpreter's rounding forgets to carry."""
        if wanted.is_fp8e4nv() and source.is_fp32():
            return torch.from_numpy(values).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
        return convert_float(values, source, wanted, mode)

    interpreter._convert_float = rounded


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            if ON_GPU:
                item.add_marker(pytest.mark.gpu)
            if not HAS_TRITON:
                item.add_marker(pytest.mark.skip(reason="Triton is not installed: there are no kernels to test"))


@pytest.fixture(autouse=True)
def inference(monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # the reference is to be float32
    if not ON_GPU:  # what costs time here is the number of programs
        monkeypatch.setattr("rhapsode.nn.kernels.gpu.linear_plan.MIN_PROGRAMS", 1)
        monkeypatch.setattr("rhapsode.nn.kernels.gpu.conv._PROGRAMS", 1)
    with torch.inference_mode():
        yield


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`dtype`: a wide one and a narrow one. The interpreter's products know no bfloat16."""
    if "dtype" in metafunc.fixturenames:
        narrow = torch.bfloat16 if ON_GPU else torch.float16
        metafunc.parametrize("dtype", [torch.float32, narrow], ids=["wide", "narrow"])


@pytest.fixture
def device() -> torch.device:
    return torch.device("cuda" if ON_GPU else "cpu")

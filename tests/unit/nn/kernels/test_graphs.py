"""A captured graph computes what the eager launches compute, also where kernels overlap."""

import pytest
import torch

from rhapsode.device.replay import Replay
from rhapsode.nn.decoder import DecoderConfig
from rhapsode.nn.depth import DepthStack
from rhapsode.nn.rope import RopeConfig

CONFIG = DecoderConfig(
    hidden=256, ffn=512, layers=3, heads=8, kv_heads=4, head_dim=32, rope=RopeConfig(32, 1000.0), qk_norm=True
)
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: the interpreter has no graphs")


@pytest.mark.parametrize("batch", [1, 7, 40])
@pytest.mark.parametrize("kernels_at_once", [1, 2, 3], ids=["in turn", "overlapping", "starting early"])
def test_a_graph_replays_what_was_computed_eagerly(device, batch: int, kernels_at_once: int, monkeypatch) -> None:
    from rhapsode.nn.kernels.gpu import launch

    monkeypatch.setattr(launch, "EARLY_ROWS", range(100 if kernels_at_once > 2 else 0))
    stack = DepthStack(CONFIG, max_tokens=8).to(device, torch.bfloat16)
    stack._cos, stack._sin = stack._cos.float(), stack._sin.float()
    x = torch.randn(batch, 8, 256, device=device, dtype=torch.bfloat16)

    def run() -> torch.Tensor:
        frame = stack.begin(batch, x.dtype, device)
        return torch.cat([stack.advance(x[:, i : i + 1].clone(), frame) for i in range(8)], dim=1)

    expected = run()
    with launch.overlap(kernels_at_once > 1):
        run()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = run()
    for _ in range(20):
        graph.replay()
        assert torch.equal(found, expected)


def test_graphs_of_two_streams_do_not_work_in_the_same_memory(device) -> None:
    """Products of few rows are added up in memory that cuBLAS keeps for the stream they were recorded on."""
    streams = [torch.cuda.current_stream(), torch.cuda.Stream(priority=-1)]
    weight = torch.randn(2, 8192, 48, device=device, dtype=torch.float64)
    given = torch.randn(2, 4, 8192, device=device, dtype=torch.float64)
    torch.cuda.synchronize()
    replays = [Replay(lambda x, own=own: x @ own) for own in weight]
    for stream, replay, x in zip(streams, replays, given, strict=True):
        with torch.cuda.stream(stream):
            replay.capture(x.clone())
    expected = given @ weight
    for _ in range(50):
        found = []
        for stream, replay, x in zip(streams, replays, given, strict=True):
            with torch.cuda.stream(stream):
                found += [replay(x).clone() for _ in range(4)]
        torch.cuda.synchronize()
        for i, product in enumerate(found):
            torch.testing.assert_close(product, expected[i // 4], rtol=1e-9, atol=1e-9)


def test_a_kernel_that_only_a_later_shape_needs_is_loaded_while_it_is_captured(device, caplog) -> None:
    from rhapsode.nn.kernels.gpu.norm import _rms_norm, rms_norm

    weights = {width: torch.randn(width, device=device, dtype=torch.bfloat16) for width in (1856, 192)}
    given = [torch.randn(3, width, device=device, dtype=torch.bfloat16) for width in weights]
    replay = Replay(lambda x: rms_norm(x, weights[x.shape[1]], 1e-6))
    _rms_norm.device_caches.clear()
    for x in given:
        replay.capture(torch.zeros_like(x))
    assert not caplog.records
    for x in given:
        found = replay(x).clone()
        assert torch.equal(found, rms_norm(x, weights[x.shape[1]], 1e-6))

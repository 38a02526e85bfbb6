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
@pytest.mark.parametrize("early", [False, True], ids=["in turn", "overlapping"])
def test_a_graph_replays_what_was_computed_eagerly(device, batch: int, early: bool) -> None:
    from rhapsode.nn.kernels.gpu.launch import overlap

    stack = DepthStack(CONFIG, max_tokens=8).to(device, torch.bfloat16)
    stack._cos, stack._sin = stack._cos.float(), stack._sin.float()
    x = torch.randn(batch, 8, 256, device=device, dtype=torch.bfloat16)

    def run() -> torch.Tensor:
        frame = stack.begin(batch, x.dtype, device)
        return torch.cat([stack.advance(x[:, i : i + 1].clone(), frame) for i in range(8)], dim=1)

    expected = run()
    with overlap(early):
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

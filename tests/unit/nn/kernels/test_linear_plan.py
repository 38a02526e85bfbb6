"""Products of Qwen3-TTS 1.7B, VoxCPM2 and Fish S2-Pro have the plans that were fastest on an H200."""

import pytest
import torch

VECTOR = {  # outputs, inputs, gated: outputs of a program, its columns, warps
    (4096, 2048, False): (4, 2048, 4),
    (2048, 2048, False): (2, 2048, 4),
    (6144, 2048, True): (2, 2048, 4),
    (2048, 6144, False): (1, 4096, 4),
    (4096, 1024, False): (4, 1024, 2),
    (1024, 2048, False): (2, 2048, 4),
    (3072, 1024, True): (4, 1024, 4),
    (1024, 3072, False): (2, 2048, 4),
}
AHEAD = {  # rows, outputs, inputs, gated: the same, or none where tiles in turn are faster
    (8, 6144, 2048, True): (8, 2048, 8),
    (16, 6144, 2048, True): None,
    (8, 4096, 1024, False): (16, 1024, 4),
    (16, 4096, 1024, False): (32, 1024, 8),
    (16, 4096, 2048, False): (32, 2048, 8),
    (16, 2048, 2048, False): (32, 2048, 8),
    (16, 1024, 2048, False): (16, 2048, 8),
    (22, 4096, 1024, True): (16, 1024, 8),
    (8, 2048, 6144, False): None,
    (8, 6144, 2560, False): None,
    (8, 2560, 4096, False): None,
}


@pytest.fixture
def plans(monkeypatch):
    from rhapsode.nn.kernels.gpu import linear_plan

    monkeypatch.setattr(linear_plan, "MIN_PROGRAMS", 768)  # as it is: other tests want few programs
    return linear_plan


def test_one_row(plans) -> None:
    assert {shape: plans.vector_plan(*shape)[1:4] for shape in VECTOR} == VECTOR


def test_several_rows(plans) -> None:
    found = {shape: plans.ahead_plan(*shape) for shape in AHEAD}
    assert {shape: plan and plan[1:4] for shape, plan in found.items()} == AHEAD


def test_weights_of_8_bits_follow_those_of_16_where_they_are_loaded_ahead(plans) -> None:
    for rows in range(2, 17):
        for shape in VECTOR:
            wide = plans.plan_for(rows, *shape, torch.bfloat16)
            plan = plans.float8_plan(rows, *shape, torch.bfloat16, plain=True)
            assert plan == (None if wide.kernel == "rows" else wide)


def test_large_matrices_overlap_where_a_second_program_fits_each_multiprocessor(plans) -> None:
    assert [plans.overlapping_rows(12 << 20, programs) for programs in (96, 132, 160)] == [16, 16, 4]
    assert plans.overlapping_rows(4 << 20, 160) == 16

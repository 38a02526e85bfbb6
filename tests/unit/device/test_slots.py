"""The batch of a launch."""

import torch

from rhapsode.device.slots import Rows, SlotTable


def test_slots_from_a_column_of_a_matrix_are_an_array_for_kernels() -> None:
    inputs = torch.tensor([[3, 0, 2, 0], [1, 1, 2, 1]])  # a launch's rows: the slot, and what else it needs
    slots = Rows(inputs[:, 0], SlotTable(4, 1, torch.device("cpu"))).slots
    assert slots.is_contiguous()
    assert slots.tolist() == [3, 1]

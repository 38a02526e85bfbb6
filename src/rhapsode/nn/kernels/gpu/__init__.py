"""Triton kernels. They round where their references round, so that only the order of sums differs.

They take tensors and plain records, never modules. Block sizes depend on shapes alone, by small tables in the code:
nothing is tuned at run time, nothing waits for the host, and every launch can be captured.
"""

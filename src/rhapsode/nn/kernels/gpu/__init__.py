"""Triton kernels. They round where their references round, so that only the order of sums differs.

Block sizes come from shapes alone, by small tables in the open: nothing is tuned at run time, nothing waits for the
host, and every launch can be captured.
"""

"""Requests and listeners that wait: a fair queue, and calls that wake them."""

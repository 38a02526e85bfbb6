"""Adapters: scripts that another Python runs, each with the package of one family. They import nothing of ours.

A family's adapter is `speak_<family>.py`. It reads a job from standard input, speaks every text without chance, and
leaves one `.npz` file for each.
"""

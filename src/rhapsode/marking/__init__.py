"""Marks synthetic audio as such: a watermark in the samples, and metadata in the files. Needs no torch."""

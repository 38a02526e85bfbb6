"""The command line: one small file per command. Nothing here imports an engine before it is needed."""

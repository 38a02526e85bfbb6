"""The tests of the single server, through the cluster's address: formats, events, WebSocket, errors, voices."""

import inspect
from types import ModuleType

from e2e.serve import test_boundary, test_endings, test_socket, test_speech

OURS = {"dummy", "cloning_dummy", "stormy"}
OWN_SERVERS = {"hibari", "impatient", "breaking", "tmp_path"}


def shared(module: ModuleType) -> dict[str, object]:
    """The tests of a module that need no other server than those that the cluster stands for."""
    found = {}
    for name, test in vars(module).items():
        if name.startswith("test_") and inspect.isfunction(test):
            needed = set(inspect.signature(test).parameters)
            if needed & OURS and not needed & OWN_SERVERS:
                found[name] = test
    return found


for module in (test_speech, test_socket, test_boundary, test_endings):
    globals().update(shared(module))

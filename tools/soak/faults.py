"""Faults for the soak's own test: each is something that a soak must notice."""

import os
import secrets
import threading
from dataclasses import replace

from rhapsode.engine import Engine
from rhapsode.serve.observe.outcomes import Outcomes
from rhapsode.serve.request.names import check_model
from rhapsode.serve.routes import models
from rhapsode.types import SpeechRequest

KEPT = []


def keep_memory():
    KEPT.append(b"\1" * 2**22)


def keep_descriptor():
    KEPT.append(os.open(os.devnull, os.O_RDONLY))


def keep_thread():
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def keep_file():
    os.makedirs("voices", exist_ok=True)
    with open(f"voices/.{secrets.token_hex(8)}.tmp", "wb"):
        pass


LEAKS = {"memory": keep_memory, "descriptors": keep_descriptor, "threads": keep_thread, "files": keep_file}


def leak(names):
    ended = Outcomes.ended

    def leaking(self, outcome):
        for name in names:
            LEAKS[name]()
        ended(self, outcome)

    Outcomes.ended = leaking


def swap_audio():
    """Gives a request the seed of another while several are spoken."""

    def swapping(method):
        def swapped(self, request, *rest):
            if isinstance(request, SpeechRequest) and self.load().slots_in_use > 2:
                request = replace(request, seed=12345)
            return method(self, request, *rest)

        return swapped

    Engine.read, Engine.submit = swapping(Engine.read), swapping(Engine.submit)


def fail_models():
    """Answers 500 to `GET /v1/models/NAME`."""

    def failing(name, *rest):
        check_model(name, *rest)
        raise RuntimeError("a fault that was planted")

    models.check_model = failing


def plant(names):
    leak([name for name in names if name in LEAKS])
    if "audio" in names:
        swap_audio()
    if "status" in names:
        fail_models()

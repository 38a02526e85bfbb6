"""A family that breaks when it is told to."""

from dataclasses import replace

from rhapsode.models.dummy.codec import DummyCodec
from rhapsode.models.dummy.prompt import DummyPrepare
from rhapsode.models.dummy.spec import SPEC
from rhapsode.models.registry import Model


class BreakingPrepare(DummyPrepare):
    def __call__(self, request):
        if "prepare" in request.text:
            raise RuntimeError("a bug in prepare")
        return super().__call__(request)


class BreakingCodec(DummyCodec):
    """Fails once it has decoded this many chunks."""

    chunks_left: int | None = None

    def decode(self, window, rows, state):
        cls = type(self)
        if cls.chunks_left is not None:
            cls.chunks_left -= 1
            if cls.chunks_left < 0:
                raise RuntimeError("a bug in the codec")
        return super().decode(window, rows, state)


def _stage(stage):
    made = {"prepare": "BreakingPrepare", "vocode": "BreakingCodec"}
    return replace(stage, factory=f"e2e.serve.broken:{made[stage.name]}") if stage.name in made else stage


MODEL = Model(replace(SPEC, pipeline=tuple(map(_stage, SPEC.pipeline))), None, {})
DEAF = Model(replace(SPEC, can=replace(SPEC.can, text_stream=False)), None, {})
"""A family that takes no text while it speaks."""

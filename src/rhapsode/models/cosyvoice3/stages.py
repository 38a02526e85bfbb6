"""The stages after the talker, made from a checkpoint: the flow, what it needs of a prompt, and the vocoder."""

from __future__ import annotations

from pathlib import Path

from rhapsode.checkpoints.files import read_file
from rhapsode.checkpoints.weights import Tensors, TensorsInMemory
from rhapsode.errors import CheckpointError
from rhapsode.models.base import StageContext
from rhapsode.models.cosyvoice3.config import CosyConfig, read
from rhapsode.models.cosyvoice3.flow.parts import flow_net, flow_worker
from rhapsode.models.cosyvoice3.flow.prompt import FlowPrompt, flow_prompt
from rhapsode.models.cosyvoice3.flow.settings import FlowSettings
from rhapsode.models.cosyvoice3.flow.whole import WholeFlow
from rhapsode.models.cosyvoice3.flow.worker import CosyFlow
from rhapsode.models.cosyvoice3.prompt import CosyPrompt
from rhapsode.models.cosyvoice3.spec import CosySettings
from rhapsode.models.cosyvoice3.vocoder.parts import hift_net, hift_tensors
from rhapsode.models.cosyvoice3.vocoder.settings import hift_settings
from rhapsode.models.cosyvoice3.vocoder.worker import CosyVocoder
from rhapsode.models.parts import checkpoint_of


class FlowConditioning:
    """Makes the flow's prompt from the talker's: the voice, and how long a segment of speech can be.

    The voice of a request does not change. So only its first prompt is converted; later prompts pass through unchanged.
    """

    def __init__(self, context: StageContext) -> None:
        self._settings = FlowSettings.of(_config(context).flow)

    def __call__(self, prompt: CosyPrompt) -> FlowPrompt | CosyPrompt:
        if prompt.continues or prompt.new_segment:
            return prompt
        voice = prompt.voice
        assert voice is not None
        frames = (prompt.segment_frames, prompt.expected_frames)
        return flow_prompt(self._settings, voice.tokens, voice.mel, voice.embedding, *frames)


def flow(context: StageContext) -> CosyFlow | WholeFlow:
    """Returns the worker of the flow stage."""
    settings: CosySettings = context.settings
    file = checkpoint_of(context) / "flow.pt"
    net = flow_net(FlowSettings.of(_config(context).flow), context, lambda: _tensors(file))
    return flow_worker(net, settings.flow_context_s, masked=settings.mask == "chunk")


def vocoder(context: StageContext) -> CosyVocoder:
    """Returns the worker of the vocoder stage."""
    file, settings = checkpoint_of(context) / "hift.pt", hift_settings(_config(context).vocoder)
    return CosyVocoder(hift_net(settings, context, lambda: hift_tensors(_present(file))))


def _config(context: StageContext) -> CosyConfig:
    return read(context.config, checkpoint_of(context))


def _tensors(file: Path) -> Tensors:
    return TensorsInMemory(file, read_file(_present(file)))


def _present(file: Path) -> Path:
    if not file.is_file():
        raise CheckpointError(f"{file.parent} holds no {file.name}.")
    return file

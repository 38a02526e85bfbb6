"""The flow stage that makes each segment in one pass, once all of its tokens are known: exact, as upstream does."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from rhapsode.device.ragged import LaunchSizes
from rhapsode.device.reach import Reach, Window
from rhapsode.device.slots import Rows
from rhapsode.models.base import Traits
from rhapsode.models.chatterbox.flow.net import S3FlowNet
from rhapsode.models.chatterbox.flow.prompt import S3FlowPrompt
from rhapsode.models.chatterbox.flow.sizes import RATE
from rhapsode.models.chatterbox.flow.voices import VoiceState, open_voices, solve_speech


class WholeS3Flow:
    """One pass over the voice and all tokens of a segment."""

    rate = RATE

    def __init__(self, net: S3FlowNet, most_tokens: int) -> None:
        """`most_tokens`: of the longest segment, which is one block."""
        self._net = net
        self.reach = Reach(granularity=most_tokens)
        self.frame_shape = (net.sizes.mel,)
        self.frame_dtype = net.like.dtype

    def traits(self) -> Traits:
        # One row per launch: on a GPU, a launch always has the length of the longest segment.
        return Traits(open=self.open, most_rows=1)

    def state(self, slots: int) -> VoiceState:
        return VoiceState(slots, self._net.like)

    def open(
        self, payloads: Sequence[S3FlowPrompt], rows: Rows, state: VoiceState, sizes: LaunchSizes | None = None
    ) -> None:
        open_voices(self._net, payloads, rows.slots, state)

    def decode(self, window: Window, rows: Rows, state: VoiceState) -> Tensor:
        """Makes the mel frames of whole segments, `[B, due * rate, mel]`."""
        assert window.present is not None
        return solve_speech(self._net, window.frames[..., 0], window.present.sum(1), rows, state)

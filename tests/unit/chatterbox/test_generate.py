"""From a text to its wave: ours is upstream's, given the same draws of T3 and the same noise.

The draws have ids that no request of ours can draw. Upstream drops some, and with 6561 all that came before it.
"""

import numpy as np
import pytest
import torch

from rhapsode.models.chatterbox.t3.sizes import CODES, START, STOP
from rhapsode.models.chatterbox.t3.talker import SILENCE, SILENCES
from rhapsode.nn.ragged import Ragged
from tiny.chatterbox import GOLDEN, HOP
from unit.chatterbox import test_vocoder as vocoding
from unit.chatterbox.s3gen import FlowSequences, flow, golden, noise

DRAWN = dict(np.load(GOLDEN / "generate.npz"))
MEL_HOP = HOP // 2


def heard(name: str) -> list[int]:
    """The tokens of a case that reach the flow."""
    ids = [int(one) for one in DRAWN[f"{name}/forced"]]
    if name == "turbo":  # a first 6562 does not end its speech
        return [*(one for one in ids if one < CODES), *[SILENCE] * SILENCES]
    ids = ids[len(ids) - ids[::-1].index(START) :] if START in ids else ids
    return [one for one in ids[: ids.index(STOP)] if one < CODES]


def mel_of(name: str, tokens: list[int]) -> torch.Tensor:
    """The mel frames of these tokens, after all frames of the voice: Turbo's has an odd number of them."""
    variant = "turbo" if name == "turbo" else "original"
    net, voice = flow(variant, "float32", None), golden(f"reference-{variant}")
    ids = torch.from_numpy(np.concatenate([voice["prompt_token"][0], tokens]))[None]
    most, frames = ids.shape[1], voice["prompt_feat"].shape[1]
    mel = torch.zeros(1, 2 * most, 80)
    mel[0, :frames] = torch.from_numpy(voice["prompt_feat"][0])
    drawn = noise((80, 2 * most), 1)
    if variant == "turbo":
        drawn[:, -2 * len(tokens) :] = noise((80, 2 * len(tokens)), 2)
    ragged = Ragged.of(torch.tensor([most]), most, is_full=True)
    speaker = net.conditions.speaker(torch.from_numpy(voice["embedding"]))
    made = net(FlowSequences(ids, ragged, mel, speaker, torch.from_numpy(drawn.T.copy())[None]))
    return made[0, frames:]


@pytest.mark.parametrize("name", ["original", "multilingual", "turbo"])
def test_a_wave_is_upstreams(name: str) -> None:
    with torch.inference_mode():
        mel = mel_of(name, heard(name))
        net = vocoding.net_of("turbo" if name == "turbo" else "original", "float32")
        wave = vocoding.spoken(net, mel, [len(mel)], vocoding.GoldenDraws(net, len(mel))).numpy()
    if name == "multilingual":  # the last token is noise, which is not heard
        wave = wave[:-HOP]
    difference = wave - DRAWN[f"{name}/wav"]
    print(name, float(np.sqrt(np.mean(difference**2))), float(np.abs(difference).max()))
    assert np.sqrt(np.mean(difference**2)) <= 3e-4

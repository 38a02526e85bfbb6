"""The reference encoders, built and filled with the tensors of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable

from rhapsode.checkpoints.weights import Tensors
from rhapsode.models.base import StageContext
from rhapsode.models.chatterbox.reference import speech_tokenizer, voice_encoder
from rhapsode.models.chatterbox.reference.encoders import ReferenceEncoders, ReferenceRules
from rhapsode.models.chatterbox.reference.speech_tokenizer import SpeechTokenizer, SpeechTokenizerSizes
from rhapsode.models.chatterbox.reference.voice_encoder import VoiceEncoder, VoiceEncoderSizes
from rhapsode.models.chatterbox.shapes import TensorShapes
from rhapsode.models.parts import fill
from rhapsode.nn.campplus import BLOCKS, CamPlus, CamPlusSizes
from rhapsode.nn.kaldi import BANDS

SPEAKER = "speaker_encoder."


def reference_encoders(
    context: StageContext, s3gen: Callable[[], Tensors], voice: Callable[[], Tensors], rules: ReferenceRules
) -> ReferenceEncoders:
    """Returns the encoders on their device. `s3gen` and `voice` return the tensors of the files `s3gen` and `ve`, of
    any kind; each is called once."""
    sounds, voices = s3gen(), voice()
    tokenizer_sizes = SpeechTokenizerSizes.of(TensorShapes(sounds, speech_tokenizer.PREFIX))
    tokenizer = fill(
        lambda: SpeechTokenizer(tokenizer_sizes),
        context,
        lambda: sounds,
        prefix=speech_tokenizer.PREFIX,
        names=speech_tokenizer.NAMES,
        ignore=speech_tokenizer.IGNORE,
    )
    speaker_sizes = cam_plus_sizes(TensorShapes(sounds, SPEAKER))
    speaker = fill(lambda: CamPlus(speaker_sizes), context, lambda: sounds, prefix=SPEAKER)
    voice_sizes = VoiceEncoderSizes.of(TensorShapes(voices))
    encoder = fill(lambda: VoiceEncoder(voice_sizes), context, lambda: voices, ignore=voice_encoder.IGNORE)
    return ReferenceEncoders(tokenizer, speaker, encoder, rules, context.references)


def cam_plus_sizes(found: TensorShapes) -> CamPlusSizes:
    layer = "xvector.block1.tdnnd1."
    return CamPlusSizes(
        bands=BANDS,
        head=found.size("head.conv1.weight"),
        start=found.size("xvector.tdnn.linear.weight"),
        growth=found.size(f"{layer}cam_layer.linear_local.weight"),
        inner=found.size(f"{layer}linear1.weight"),
        layers=tuple(found.count(f"xvector.block{i}.") for i in range(1, BLOCKS + 1)),
        speaker=found.size("xvector.dense.linear.weight"),
    )

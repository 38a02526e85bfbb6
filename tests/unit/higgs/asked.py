"""The golden cases as requests of ours, their checkpoints, and our stages, run as the engine runs them."""

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

from rhapsode.audio.decode import decode
from rhapsode.checking.request import checked
from rhapsode.checkpoints.folder import read_config
from rhapsode.config import Limits
from rhapsode.models.base import ModelSpec, StageContext
from rhapsode.models.companions import find_companions
from rhapsode.models.higgs import encode, prepare, talker
from rhapsode.models.higgs.prompt import HiggsPrompt
from rhapsode.models.higgs.spec import V2, V3
from rhapsode.types import Clip, Reference, SpeechRequest, Voice
from tiny import higgs_codec

FULL = os.environ.get("HIGGS_GOLDEN")
"""A folder with all that upstream made, `higgs-v2` and `higgs-v3`, codecs and recordings included."""
SPECS: dict[int, ModelSpec] = {2: V2, 3: V3}
CODEC_PREFIX = "tied.embedding.modality_embeddings.0.model."
FIRST_AUDIO = 2400  # samples of a stand-in for reference 0 of a case


def folder_of(generation: int) -> Path:
    return Path(__file__).parents[2] / "golden" / f"higgs_v{generation}"


@cache
def index(generation: int) -> dict[str, Any]:
    return json.loads((folder_of(generation) / "index.json").read_text("utf-8"))


def case(generation: int, name: str) -> dict[str, Any]:
    return next(one for one in index(generation)["cases"] if one["name"] == name)


def names(generation: int) -> list[str]:
    return [one["name"] for one in index(generation)["cases"]]


@cache
def golden(generation: int, name: str) -> dict[str, np.ndarray]:
    """The arrays of a case, integers as int64."""
    whole = np.load(folder_of(generation) / "cases.npz")
    mine = {key.split("/", 1)[1]: whole[key] for key in whole.files if key.startswith(f"{name}/")}
    return {key: array.astype(np.int64) if array.dtype == np.int16 else array for key, array in mine.items()}


def tensors(generation: int) -> dict[str, np.ndarray]:
    packed = np.load(folder_of(generation) / "talker.npz")
    values = np.stack([packed[plane] for plane in "abcd"], axis=1).copy().view(np.float32).ravel()
    found, at = {}, 0
    for name, shape in index(generation)["tensors"]:
        size = int(np.prod(shape))
        found[name] = values[at : at + size].reshape(shape)
        at += size
    return found


def unpack(generation: int, folder: Path) -> Path:
    """Writes the golden checkpoint with a codec from seeds."""
    for name, content in index(generation)["texts"].items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content), "utf-8")
    books, ids = golden(generation, "plain")["forced_logits"].shape[1:]
    codec = higgs_codec.TinyCodec(books, ids - 2)
    made = tensors(generation)
    if generation == 2:
        higgs_codec.write(folder / "codec", codec)
    else:
        made |= higgs_codec.tensors(codec, CODEC_PREFIX)
        (folder / "audio_tokenizer" / "config.json").write_text(json.dumps(higgs_codec.config(codec)))
    save_file(made, folder / "model.safetensors")
    return folder


def unpack_original(folder: Path) -> Path:
    """Writes the golden checkpoint of v2 under the names of its first release."""
    unpack(2, folder)
    (folder / "processor_config.json").unlink()
    (folder / "config.json").write_text(json.dumps(index(2)["original_config"]))
    old = {
        "model.embed_audio_tokens.embed_audio_tokens.": "audio_codebook_embeddings.",
        "audio_lm_head.": "audio_decoder_proj.audio_lm_head.",
        "model.": "",
    }
    renamed = {}
    for name, tensor in tensors(2).items():
        new = next(name.replace(today, first) for today, first in old.items() if name.startswith(today))
        renamed[new] = tensor
    head = renamed["audio_decoder_proj.audio_lm_head.weight"]
    unused = {"audio_decoder_proj.text_lm_head.weight": head, "audio_codebook_weights": head[:1].copy()}
    save_file(renamed | unused, folder / "model.safetensors")
    return folder


def request(generation: int, name: str, **wishes: Any) -> SpeechRequest:
    """The request of a golden case; without the full goldens, references are stand-ins of different lengths."""
    told = case(generation, name)
    given = [*told.get("references", ()), *([told["reference"]] if "reference" in told else [])]
    scene = told.get("scene", "")
    if not isinstance(scene, str):
        given = [{"audio": part["reference"]} for part in scene if "reference" in part]
        first, *lines = (part["text"] for part in scene if "text" in part)
        scene = "\n\n".join([first, "\n".join(lines)])
    references = tuple(Reference(_clip(generation, one["audio"], i), one.get("text")) for i, one in enumerate(given))
    options = {"scene": scene, "ras_limit": 0} if generation == 2 else {}
    return SpeechRequest(
        told["text"],
        Voice(references=references),
        instructions=told.get("system"),
        options=options | wishes.pop("options", {}),
        **wishes,
    )


def _clip(generation: int, file: str, number: int) -> Clip:
    if FULL:
        return decode((Path(FULL) / f"higgs-v{generation}" / file).read_bytes())
    return Clip(np.ones((1, FIRST_AUDIO + number), np.float32), 24_000)


@dataclass
class Family:
    """One checkpoint's stages before the codec."""

    generation: int
    prepare: prepare.HiggsPrepare
    encode: encode.HiggsEncode
    talker: talker.HiggsTalker

    @classmethod
    def open(cls, generation: int, folder: Path, dtype: str = "float32") -> "Family":
        context = context_of(generation, folder, dtype)
        kinds = ((prepare, "Prepare"), (encode, "Encode"), (talker, "Talker"))
        with torch.inference_mode():
            return cls(generation, *(getattr(module, f"HiggsV{generation}{kind}")(context) for module, kind in kinds))

    def prompt(self, name: str, **wishes: Any) -> HiggsPrompt:
        """The prompt of a golden case."""
        if not FULL:
            codes = golden(self.generation, name)
            self.encode._codes = lambda key, clip, made: codes[f"reference{clip.samples.shape[1] - FIRST_AUDIO}_codes"]
        return self.prompts([request(self.generation, name, **wishes)])[0]

    def prompts(self, asked: list[SpeechRequest]) -> list[HiggsPrompt]:
        spec = SPECS[self.generation]
        return self.encode([self.prepare(checked(one, spec, spec.info(), Limits())) for one in asked])


def context_of(generation: int, folder: Path, dtype: str = "float32") -> StageContext:
    spec, config = SPECS[generation], read_config(folder)
    return StageContext(spec, folder, config, "cpu", dtype, companions=find_companions(spec, folder, {}, config))

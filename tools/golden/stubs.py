"""Stand-ins for packages that upstream imports on paths nobody takes here."""

import importlib
import importlib.machinery
import sys
import types


def _stand_in(name: str, **names: object) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    module.__path__ = []  # may have submodules
    module.__dict__.update(names)
    sys.modules[name] = module
    return module


def _missing(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return True
    return False


def install() -> None:
    """Put a stand-in in place of every one of these packages that is not installed. Call before importing upstream."""
    if _missing("torchaudio"):
        kaldi = _stand_in("torchaudio.compliance.kaldi")
        compliance = _stand_in("torchaudio.compliance", kaldi=kaldi)
        _stand_in("torchaudio", compliance=compliance, __version__="0")
    if _missing("sox"):
        _stand_in("sox", Transformer=object)
    if _missing("onnxruntime"):
        _stand_in("onnxruntime", SessionOptions=object, InferenceSession=object)
    if _missing("librosa"):
        _stand_in("librosa")
    if _missing("transformers"):
        _stand_in("transformers", LlamaTokenizerFast=object, PreTrainedTokenizer=object)
    if _missing("tqdm"):
        _stand_in("tqdm", tqdm=lambda values, *_, **__: values)
    if _missing("huggingface_hub"):
        _stand_in("huggingface_hub", snapshot_download=None)
    if _missing("soundfile"):
        _stand_in("soundfile")

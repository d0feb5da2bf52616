"""hub.py: a name like Helsinki-NLP/opus-mt-de-en, fetched by the package huggingface_hub: its
cache, HF_HUB_OFFLINE, HF_TOKEN and HF_ENDPOINT count as they do there."""

from __future__ import annotations

import re
from pathlib import Path

from .untrusted import ConvertError, install, visible

# Top-level files of configs, texts and weights; pickles only where there is nothing else.
FILES = ["*.json", "*.spm", "*.model", "*.yml", "*.yaml", "*.txt", "README.md", "LICENSE*"]
WEIGHTS = ["model*.safetensors", "*.npz", "model.bin"]
PICKLES = ["pytorch_model*.bin"]
OF_FILES = (".pt", ".pth", ".bin", ".safetensors", ".npz", ".argosmodel", ".zip", ".gz")


def is_name(text: str) -> bool:
    """OWNER/NAME of nothing that lies here."""
    path = Path(text)
    return (bool(re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", text, re.ASCII))
            and path.suffix not in OF_FILES and not path.exists() and not path.parent.exists())


def fetch(name: str, revision: str | None) -> Path:
    """The folder of the model in the cache."""
    folder = name.partition("/")[2]
    by_hand = (f"by hand: hf download {name}" + (f" --revision {revision}" if revision else "")
               + f" --local-dir {folder}, and then IN is {folder}")
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ConvertError(f"{name}: no such file or directory; if it is a model of Hugging Face's "
                           f"hub, {install('huggingface_hub', 'convert')}; {by_hand}") from None

    def download(patterns: list[str]) -> Path:
        return Path(snapshot_download(name, revision=revision, allow_patterns=patterns,
                                      ignore_patterns=["*/*"]))

    try:
        found = download(FILES + WEIGHTS)
        if not any(one for pattern in WEIGHTS for one in found.glob(pattern)):
            found = download(FILES + PICKLES)
        return found
    except Exception as error:  # of HTTP, of the cache, of names: the package raises many kinds
        said = " ".join(str(error).split())[:300] or type(error).__name__
        raise ConvertError(f"{name}: no such file or directory here, and it cannot be fetched: "
                           f"{visible(said)}; {by_hand}") from None

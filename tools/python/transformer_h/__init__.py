"""transformer.h in Python: encoder-decoder Transformers from one model file, without a framework.

    from transformer_h import Model

    with Model("de-en.safetensors") as model:
        print(model.translate("Guten Tag."))
        print(model.translate(["Guten Tag.", "Wie geht es dir?"], beam=4, threads=2))

Texts are str; ids are integers, as the model file numbers its tokens. Legend of shapes: B batch,
S source length, T target length, D model width, V vocabulary.

A Model may be used by many threads at once. Its work runs without the GIL; Ctrl-C ends it after a
few decoding steps. The results of a sentence do not depend on threads, batch or order.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterable, Literal, Mapping, Sequence

from ._transformer import ffi, lib
from .arguments import (check_call, check_choice, check_flag, check_integer, check_mapping, check_number, check_path, check_text, check_texts,
                        wrong_type)
from .detecting import detect_language
from .errors import Error, LanguageError, MissingFileError, Status
from .extras import missing_package
from .live import Live
from .markup import Aligned, Document
from .model import Model
from .options import DocumentOptions, Ids, Options  # noqa: F401
from .results import Hypothesis, LiveText, LiveTranslation, Segment, Word
from .sentences import join_sentences, split_sentences
from .surroundings import Counts
from .terms import Terms

if TYPE_CHECKING:
    import torch

__all__ = ["Aligned", "Counts", "Document", "DocumentOptions", "Error", "Hypothesis", "LanguageError", "Live", "LiveText", "LiveTranslation",
           "MissingFileError", "Model", "Options", "Segment", "Status", "Terms", "Word", "cpu", "detect_language", "download", "export", "get_include", "join_sentences",
           "split_sentences", "translate_file", "__version__"]
__version__: str = ffi.string(lib.tfm_version()).decode()

# Pickles of these, and tracebacks, name the package and not the module inside it.
for _one in (Aligned, Counts, Error, Hypothesis, LanguageError, Live, LiveText, LiveTranslation, MissingFileError, Segment, Status, Word):
    _one.__module__ = __name__
del _one


def cpu() -> str:
    """Returns the name of the kernel set that runs on this machine, for instance "AVX2 and FMA"."""
    return str(ffi.string(lib.tfm_cpu_string()).decode())


def get_include() -> str:
    """Returns the folder of this version's transformer.h, for programs in C."""
    return str(Path(__file__).parent / "include")


def translate_file(model: Model | Sequence[Model], path: str | os.PathLike[str], out: str | os.PathLike[str], *,
                   most: int = 1 << 29, seconds: float = 300.0, format: str | None = None, **options: Any) -> list[str]:
    """Translates a document into the file `out`, which is written whole or not at all, and may be `path` itself. Its
    suffix and first bytes say what the file is: docx, pptx, odt, odp, epub, html, txt, md, srt, vtt, and files with source and
    target: xlf, tmx, ts, po, xml of Android, strings, xcstrings, resx, arb. If they disagree, the bytes count, and format="docx" and so on says it instead of both. A list of models translates with one
    after the other. Options are those of Model.translate_document. lang, by default target_language, is the language that
    the new file says it is in: "en" or "en-GB". Returns what stays as it is, a line for each thing. A sentence that is too
    long for the model stays as it is and is counted there; other errors end the translation. With on_error="copy" all such
    sentences stay, and with "raise" none.

    Raises transformer_h.documents.FileError, a ValueError, for a file that cannot be read, has more than `most`
    bytes, unpacked or not, or takes more than `seconds` of CPU to be read and written (its translation does not count); then
    nothing is written. Archives need lxml: pip install "transformer-h[documents]"."""
    for i, one in enumerate(model if isinstance(model, (list, tuple)) else [model]):
        if not isinstance(one, Model):
            wrong_type(f"model[{i}]" if isinstance(model, (list, tuple)) else "model", one, "Model, or a list of Model")
    if isinstance(model, (list, tuple)) and not model:
        raise ValueError("model is an empty list")
    path, out, most = check_path("path", path), check_path("out", out), check_integer("most", most, 1, 2 ** 62)
    from .documents import translate as run
    return run(model, path, out, most=most, seconds=check_number("seconds", seconds), format=format, **options)


def download(source_language: str, target_language: str, *, source: str = "firefox", architecture: str | None = None,
             update: bool = False, offline: bool | None = None, records_url: str | None = None,
             quiet: bool = False) -> Path | tuple[Path, Path]:
    """Returns the path of the model file of a language pair, or two paths if the way leads through English. The
    model is downloaded and converted the first time, and stays in the cache. source is "firefox" or "argos";
    architecture is "tiny", "base-memory" or "base" (None: the best one). update asks for a newer version.
    offline opens no connection; None means the environment variable TRANSFORMER_MODEL_OFFLINE. Progress and
    licence are printed on standard error unless quiet is true. Raises transformer_h.convert.download.DownloadError.
    Needs further packages: pip install "transformer-h[download]"."""
    for name, code in (("source_language", source_language), ("target_language", target_language)):
        check_text(name, code)
    check_choice("source", source, dict.fromkeys(("firefox", "argos")))
    if architecture is not None:
        check_choice("architecture", architecture, dict.fromkeys(("tiny", "base-memory", "base")))
    if records_url is not None:
        check_text("records_url", records_url)
    for name, value in (("update", update), ("offline", offline), ("quiet", quiet)):
        if not (value is None and name == "offline"):
            check_flag(name, value)
    try:
        from .convert.published import download as run
        found: Path | tuple[Path, Path] = run(
            source_language, target_language, source=source, architecture=architecture, update=update,
            offline=offline, records_url=records_url, quiet=quiet)
    except ModuleNotFoundError as error:
        raise missing_package("download", error.name or "more packages", "download") from error
    return found


def export(module: torch.nn.Module, path: str | os.PathLike[str], example_src: torch.Tensor,
           example_tgt: torch.Tensor, *, start: int, end: int, src_pad: int | None = None,
           tgt_pad: int | None = None, src_vocabulary: Iterable[str] | None = None,
           tgt_vocabulary: Iterable[str] | None = None,
           src_sentencepiece: str | os.PathLike[str] | None = None,
           tgt_sentencepiece: str | os.PathLike[str] | None = None,
           call: Callable[..., Any] | None = None, config: Mapping[str, Any] | None = None,
           dtype: Literal["f32", "f16", "bf16"] = "f32", about: Mapping[str, str] | None = None
           ) -> dict[str, Any]:
    """Writes a live PyTorch module as a model file at path, and returns its config.

    example_src and example_tgt are ids of example sentences: [B, S] and [B, T], or [S, B] and [T, B],
    as module(example_src, example_tgt) takes them. Give several rows of several tokens, without pads
    if the module's masks are arguments. If the module is called in another way, pass a function
    call(module, example_src, example_tgt). start and end are the ids that targets begin and end with.
    src_pad and tgt_pad are by default the padding_idx of the embeddings. Give sources as the module was
    trained with them: if every example source ends with the id end (before pads), the file's src_end is end,
    and if every one begins with start, its src_start is start. config={"src_end": ID} states another id, and
    None states that there is none. A vocabulary is a list of
    tokens; NAME_sentencepiece is the path of a SentencePiece model. config has further keys of the
    model file's config (src_text ...). dtype is "f32", "f16" or "bf16".

    The function finds out from the module: sizes, heads, norm order, eps, activation, norms around
    embeddings and their scale, positions (as a formula if a known one gives the table), and which
    layer makes the logits. Raises exporting.ExportError, and writes nothing, if a part of the module has no
    place in a model file, or if the file's logits differ from the module's; the message then names
    the first layer that differs.
    """
    path = check_path("path", path)
    start, end = check_integer("start", start, 0), check_integer("end", end, 0)
    src_pad, tgt_pad = (None if value is None else check_integer(name, value, 0)
                        for name, value in (("src_pad", src_pad), ("tgt_pad", tgt_pad)))
    src_sentencepiece, tgt_sentencepiece = (None if value is None else check_path(name, value) for name, value in (
        ("src_sentencepiece", src_sentencepiece), ("tgt_sentencepiece", tgt_sentencepiece)))
    check_call("call", call, "a function of module, example_src and example_tgt")
    check_choice("dtype", dtype, dict.fromkeys(("f32", "f16", "bf16")))
    check_mapping("config", config)
    for key, value in check_mapping("about", about).items():
        check_text(f"about[{key!r}]", value)
    src_tokens, tgt_tokens = (
        None if value is None else [each.decode("utf-8", "surrogatepass") for each in check_texts(name, value)]
        for name, value in (("src_vocabulary", src_vocabulary), ("tgt_vocabulary", tgt_vocabulary)))
    try:
        from .exporting import write_module
    except ModuleNotFoundError as error:
        raise missing_package("export", error.name or "torch", "export") from error
    return write_module(module, path, example_src, example_tgt, start, end, src_pad, tgt_pad, src_tokens,
                        tgt_tokens, src_sentencepiece, tgt_sentencepiece, call, config, dtype, about)

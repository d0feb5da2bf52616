"""checkpoints_marian.py: model.npz or model.bin of Marian, with its vocabularies and its shortlist.

IN is the .npz or .bin, or the directory that holds it with decoder.yml or config*.yml (models,
vocabs, shortlist), or with one of them, vocab*.yml or vocab*.spm or srcvocab*.spm and trgvocab*.spm,
and perhaps lex*.bin or lex*.s2t, as Firefox's translators have it; model.npz.best-chrf.npz, its .decoder.yml and
model.xx-en.spm are HPLT's names. source.spm and target.spm beside them cut
the texts. A .bin, .spm and lex may be packed as .gz. The options of the training stand inside, as
special:model.yml. Matrices are [in, out]; a bias or norm is [1, n]. marian_bin.py reads the bytes.

What Marian computes, and what its conversions to other engines changed: positions are sines before
cosines with divisor d/2 - 1 (d in transformers and CTranslate2), norms have an eps of 1e-6 (1e-5
there), the first target position reads zeros, <unk> is not emitted unless allow-unk says so.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterable

import numpy as np

from . import decoding
from . import marian_bin
from . import tokenizer_files
from .modelfile import (SENTENCES, Checkpoint, Config, ConvertError, Model, Tensors, describe,
                       vocabulary_text)
from .sentencepieces import read_pieces
from .untrusted import (brief, check_gaps, file_in, has_file, parse_yaml, read_npz, read_object, read_text, token_ids, visible)

CONFIG = "special:model.yml"
FACTOR = "_QuantMultA"
# The output projection's factor has one of these names; the first that the file has counts. Engines name it
# "none" where the output projection is the embedding.
OUTPUTS = ("none", "decoder_ff_logit_out_Wt", "decoder_Wemb", "Wemb")
ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu": "gelu_sigmoid"}
SPELLING = (
    (r"Wemb", ("src_embedding.weight", "tgt_embedding.weight")),
    (r"encoder_Wemb", ("src_embedding.weight",)),
    (r"decoder_Wemb", ("tgt_embedding.weight",)),
    (r"Wpos", ("src_positions.weight", "tgt_positions.weight")),
    (r"decoder_ff_logit_out_Wt", ("generator.weight",)),
    (r"decoder_ff_logit_out_b", ("generator.bias",)),
)
TRANSPOSED = (
    (r"decoder_ff_logit_out_W", "generator.weight"),
    (r"(encoder|decoder)_l(\d{1,4})_self_W([qkv])", r"\1.layers.\2.self_attn.\3_proj.weight"),
    (r"(encoder|decoder)_l(\d{1,4})_self_Wo", r"\1.layers.\2.self_attn.out_proj.weight"),
    (r"decoder_l(\d{1,4})_context_W([qkv])", r"decoder.layers.\1.multihead_attn.\2_proj.weight"),
    (r"decoder_l(\d{1,4})_context_Wo", r"decoder.layers.\1.multihead_attn.out_proj.weight"),
    (r"decoder_l(\d{1,4})_rnn_W", r"decoder.layers.\1.ssru.weight"),
    (r"decoder_l(\d{1,4})_rnn_Wf", r"decoder.layers.\1.ssru_gate.weight"),
    (r"(encoder|decoder)_l(\d{1,4})_ffn_W([12])", r"\1.layers.\2.linear\3.weight"),
)
VECTORS = (
    (r"(encoder|decoder)_l(\d{1,4})_self_b([qkv])", r"\1.layers.\2.self_attn.\3_proj.bias"),
    (r"(encoder|decoder)_l(\d{1,4})_self_bo", r"\1.layers.\2.self_attn.out_proj.bias"),
    (r"decoder_l(\d{1,4})_context_b([qkv])", r"decoder.layers.\1.multihead_attn.\2_proj.bias"),
    (r"decoder_l(\d{1,4})_context_bo", r"decoder.layers.\1.multihead_attn.out_proj.bias"),
    (r"(encoder|decoder)_l(\d{1,4})_ffn_b([12])", r"\1.layers.\2.linear\3.bias"),
    (r"decoder_l(\d{1,4})_rnn_bf", r"decoder.layers.\1.ssru_gate.bias"),
    (r"decoder_l(\d{1,4})_rnn_ffn_ln_(scale|bias)(_pre)?", r"decoder.layers.\1.norm1.\2"),
    (r"(encoder|decoder)_l(\d{1,4})_self_Wo_ln_(scale|bias)(_pre)?", r"\1.layers.\2.norm1.\3"),
    (r"decoder_l(\d{1,4})_context_Wo_ln_(scale|bias)(_pre)?", r"decoder.layers.\1.norm2.\2"),
    (r"encoder_l(\d{1,4})_ffn_ffn_ln_(scale|bias)(_pre)?", r"encoder.layers.\1.norm2.\2"),
    (r"decoder_l(\d{1,4})_ffn_ffn_ln_(scale|bias)(_pre)?", r"decoder.layers.\1.norm3.\2"),
    (r"(encoder|decoder)_top_ln_(scale|bias)", r"\1.norm.\2"),
    (r"encoder_emb_ln_(scale|bias)_pre", r"src_embedding_norm.\1"),
    (r"decoder_emb_ln_(scale|bias)_pre", r"tgt_embedding_norm.\1"),
)
# Options with another value than these make another network; the second is what absence means.
ASSUMED = {
    "type": ("transformer", None), "transformer-decoder-autoreg": ("self-attention",) * 2,
    "transformer-no-projection": (False, False), "transformer-ffn-depth": (2, 2),
    "transformer-pool": (False, False), "transformer-rnn-projection": (False, False),
    "transformer-tied-layers": ([], []), "ulr": (False, False), "lemma-dim-emb": (0, 0),
    "right-left": (False, False), "layer-normalization": (False, False),
}


def has_bin(path: Path) -> bool:
    """A .bin of Marian's, or a directory with one; other programs have a model.bin too."""
    return marian_bin.is_bin(path) if not path.is_dir() else any(map(marian_bin.is_bin, bins(path)))


def is_marian(path: Path) -> bool:
    return path.suffix == ".npz" if not path.is_dir() else has_file(path, "decoder.yml") or bool(
        list(path.glob("*.npz")) or [one for one in bins(path) if one.name.startswith("model.")])


def models(folder: Path) -> list[Path]:
    return [one for one in sorted(folder.glob("*.npz")) if ".optimizer." not in one.name]


def bins(folder: Path) -> list[Path]:
    return unpacked_first(one for one in sorted(folder.glob("*.bin*"))
                          if re.search(r"\.bin(\.gz)?$", one.name) and not one.name.startswith("lex"))


def unpacked_first(paths: Iterable[Path]) -> list[Path]:
    """Without the .gz of a file that is there unpacked."""
    found = list(paths)
    return [one for one in found if one.suffix != ".gz" or one.with_suffix("") not in found]


# ------------------------------------------------------------------------------------- the files
class Files:
    """The model, the vocabularies and the shortlist that belong to it."""

    def __init__(self, path: Path) -> None:
        self.folder = path if path.is_dir() else path.parent
        self.said, self.options = self.read_config()
        self.model = path if not path.is_dir() else self.only(
            "models", [*models(self.folder), *bins(self.folder)])
        self.vocabularies = [self.named(name) for name in self.names("vocabs")]
        if not self.vocabularies:
            pair = [unpacked_first(sorted(self.folder.glob(f"{side}vocab*.spm*")))
                    for side in ("src", "trg")]
            found = sorted(self.folder.glob("*vocab*.yml")) or unpacked_first(
                sorted(self.folder.glob("vocab*.spm*"))) or sorted(self.folder.glob("model.*.spm"))
            self.vocabularies = pair[0] + pair[1] if len(pair[0]) == len(pair[1]) == 1 else found
            if len(found) > 1 and self.vocabularies is found:
                raise ConvertError(f"{self.folder}: {len(found)} vocabularies and no "
                                   f"decoder.yml that says which is the source's: give a "
                                   f"decoder.yml with vocabs, or --src-vocab and --tgt-vocab")
        for file in [self.model, *self.vocabularies]:
            if not file.is_file():
                raise ConvertError(f"{file}: missing, and {self.said.name} names it")
        self.shortlist = self.find_shortlist()
        self.lines: dict[str, list[str]] = {}  # of the vocabularies, once they are read

    def read_config(self) -> tuple[Path, dict[str, Any]]:
        """decoder.yml, MODEL.npz.decoder.yml, or what browsermt calls
        config.intgemm8bitalpha.yml."""
        names = ("decoder.yml", "*.npz.decoder.yml", "config*.yml")
        found = next(filter(None, ([path for path in sorted(self.folder.glob(name))
                                    if has_file(self.folder, path.name)] for name in names)), [])
        if len(found) != 1:
            return self.folder / "decoder.yml", {}
        return found[0], parse_yaml(read_text(found[0]), str(found[0]))

    def named(self, name: str) -> Path:
        """A file that the config names, or that one packed."""
        path = file_in(self.folder, Path(name).name)
        packed = f"{path.name}.gz"
        return file_in(self.folder, packed) if not path.is_file() and has_file(self.folder, packed) else path

    def find_shortlist(self) -> Path | None:
        said = self.options.get("shortlist")
        if isinstance(said, list) and said and isinstance(said[0], str):
            path = self.named(said[0])
            return path if path.is_file() else None
        for name in (r"\.bin(\.gz)?$", r"\.s2t(\.gz)?$"):
            found = unpacked_first(one for one in sorted(self.folder.glob("lex*"))
                                   if re.search(name, one.name))
            if len(found) == 1:
                return file_in(self.folder, found[0].name)
        return None

    def read_shortlist(self, n: int) -> tuple[np.ndarray, np.ndarray, int] | None:
        """For n source tokens; of a text by what decoder.yml says behind the file's name: the first
        ids, the best of each list and what their probability has to be above."""
        assert self.shortlist
        if marian_bin.read_unpacked(self.shortlist, 8) == marian_bin.SHORTLIST.to_bytes(8, "little"):
            return marian_bin.read_shortlist(self.shortlist)
        if not re.search(r"\.s2t(\.gz)?$", self.shortlist.name) or not self.lines:
            return None
        said = self.options.get("shortlist")
        rest = [one for one in said[1:4] if one is not False] if isinstance(said, list) else []
        if not all(isinstance(one, (int, float)) and one >= 0 for one in rest):
            raise ConvertError(f"{self.said}: shortlist is {brief(said)}, not a file and numbers")
        first, best, least = [*rest, *(100, 100, 0)[len(rest):]]
        tables = [{token: at for at, token in reversed([*enumerate(self.lines[side])])}
                  for side in ("src", "tgt")]
        return (*marian_bin.read_text_shortlist(self.shortlist, *tables, n, int(best), least), int(first))

    def names(self, key: str) -> list[str]:
        names = self.options.get(key) or []
        if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
            raise ConvertError(f"{self.said}: {key} is {brief(names)}, not a list of files")
        return names

    def only(self, key: str, found: list[Path]) -> Path:
        names = self.names(key) or [path.name for path in found]
        if len(names) != 1:
            raise ConvertError(f"{self.folder}: {len(names)} models; name one as IN")
        return self.named(names[0])


def read_model(path: Path) -> tuple[dict[str, np.ndarray], dict[str, float], dict[str, Any]]:
    """The arrays, the scales of those in int8, the options."""
    arrays, scales = (read_npz(path), {}) if path.suffix == ".npz" else marian_bin.read_bin(path)
    if CONFIG not in arrays:
        raise ConvertError(f"{path}: no {CONFIG}: not a model of Marian")
    text = arrays.pop(CONFIG).tobytes().rstrip(b"\0").decode("utf-8", "replace")
    for name, array in arrays.items():
        if array.dtype not in (np.float32, np.float16) and name not in scales:
            raise ConvertError(f"{path}: {visible(name)} is {array.dtype}; only floats can be read")
    return arrays, scales, parse_yaml(text, f"{path}: {CONFIG}")


def read_yaml_vocabulary(path: Path) -> list[str]:
    """Lines "token: id", the token bare or in quotes; "? token" where it is long."""
    escapes = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "e": "\x1b",
               "f": "\f", "v": "\v", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"}

    def unescape(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) == 1:
            return escapes.get(code, code)
        number = int(code[1:], 16)
        return chr(number) if number <= 0x10FFFF else "\ufffd"

    tokens: dict[int, str] = {}
    waiting: str | None = None
    for at, line in enumerate(read_text(path).split("\n"), 1):
        line = line.rstrip("\r")
        if not line.strip() or line in ("---", "..."):
            continue
        if line.startswith("? "):
            waiting = line[2:]
            continue
        key, colon, number = (waiting, ":", line[1:]) if waiting is not None else (
            line.rpartition(":"))
        waiting = None
        if not colon or not re.fullmatch(r" *\d{1,9} *", number, re.ASCII):
            raise ConvertError(f"{path}, line {at}: not a token, a colon and an id")
        if len(key) > 1 and key[0] == key[-1] == '"':
            key = re.sub(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", unescape,
                         key[1:-1])
        elif len(key) > 1 and key[0] == key[-1] == "'":
            key = key[1:-1].replace("''", "'")
        if int(number) in tokens:
            raise ConvertError(f"{path}, line {at}: duplicate id {int(number)}")
        tokens[int(number)] = key
    if not tokens:
        raise ConvertError(f"{path}: no tokens")
    check_gaps(tokens, str(path))
    return [tokens.get(at, "") for at in range(max(tokens) + 1)]


# ------------------------------------------------------------------------------------ the network
def read_options(options: dict[str, Any], arrays: dict[str, np.ndarray]) -> Config:
    recurrent = any(re.fullmatch(r"decoder_l\d{1,4}_rnn_W", name) for name in arrays)
    for key, (wanted, absent) in ASSUMED.items():
        if recurrent and key == "transformer-decoder-autoreg":  # whatever it says; the cell counts
            key, wanted, absent = "dec-cell", "ssru", "ssru"
        value = options.get(key, absent)
        if value != wanted and not (not value and not wanted):
            raise ConvertError(f"{CONFIG}: {key} is {brief(value)}; transformer.h runs {wanted!r}")
    steps = [brief(options.get(f"transformer-{key}", default) or "").strip("'").replace("d", "")
             for key, default in (("preprocess", ""), ("postprocess", "an"),
                                  ("postprocess-top", ""), ("postprocess-emb", ""))]
    if (steps[0], steps[1]) not in (("", "an"), ("n", "a")) or steps[2] not in ("", "n") or (
            steps[3] not in ("", "n")):
        raise ConvertError(f"{CONFIG}: transformer-preprocess, -postprocess, -postprocess-top and "
                           f"-postprocess-emb are {steps} (without d); transformer.h runs '' with "
                           f"'an', or 'n' with 'a'; at the top and after the embedding '' or 'n'")
    # Marian states it; whose options do not are run as ReLU by the engines of such models.
    activation = options.get("transformer-ffn-activation", "relu" if recurrent else "swish")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise ConvertError(f"{CONFIG}: transformer-ffn-activation is {brief(activation)}"
                           + f"; transformer.h has {' and '.join(ACTIVATIONS)}")
    heads = options.get("transformer-heads")
    if not isinstance(heads, int):
        raise ConvertError(f"{CONFIG}: no transformer-heads")
    config: Config = {"n_heads": heads, "norm": "pre" if steps[0] else "post",
                      "layer_norm": "layer_norm", "layer_norm_eps": 1e-6,
                      "activation": ACTIVATIONS[activation],
                      "start_embedding": "zero", "n_encoder_layers": options.get("enc-depth"),
                      "n_decoder_layers": options.get("dec-depth")}
    if "Wpos" in arrays:  # trained positions; then the embeddings are not multiplied
        config.update(positions="learned", embedding_scale=1)
    else:
        config.update(positions="sinusoidal_halves", position_divisor="d/2-1",
                      embedding_scale="sqrt_d")
    guided, layers = options.get("transformer-guided-alignment-layer"), config["n_decoder_layers"]
    if guided == "last" and isinstance(layers, int):
        guided = layers
    if isinstance(guided, int) and guided > 0:  # the engine's alignments are this layer's first head
        config["alignment_heads"] = [[guided - 1, 0]]
    return {key: value for key, value in config.items() if value is not None}


def layer_from_one(match: re.Match[str]) -> str:
    return f".layers.{int(match[1]) - 1}."


def place_factors(tensors: Tensors, model: Model) -> None:
    """Takes the static factors of activations ("alphas") into the model."""
    for name, tensor in tensors.items():
        if not name.endswith(FACTOR):
            continue
        matrix = name.removesuffix(FACTOR)
        rule = next((one for one in TRANSPOSED if re.fullmatch(one[0], matrix)), None)
        if rule:
            new = re.sub(r"\.layers\.(\d+)\.", layer_from_one, re.sub(*rule, matrix))
        elif matrix in OUTPUTS:
            new = "generator.weight"
            if any(f"{one}{FACTOR}" in tensors for one in OUTPUTS[:OUTPUTS.index(matrix)]):
                continue
        else:
            model.notes.append(f"{name}: left out, {matrix} is not multiplied")
            continue
        if tensor.size != 1 or not np.isfinite(factor := float(tensor.reshape(-1)[0])
                                               * model.scales.get(name, 1)) or factor <= 0:
            raise ConvertError(f"{name} {describe(tensor)}: not a finite number above 0")
        model.factors[new] = factor, name


def place(tensors: Tensors, model: Model) -> Tensors:
    rest: Tensors = {}
    place_factors(tensors, model)
    for name, tensor in tensors.items():
        if name.endswith(FACTOR):
            continue
        straight = next((news for old, news in SPELLING if re.fullmatch(old, name)), None)
        if straight:
            for new in straight:
                model.put(new, name, tensor.reshape(-1) if new == "generator.bias" else tensor)
            continue
        for rules, change in ((TRANSPOSED, np.transpose), (VECTORS, np.ravel)):
            rule = next((one for one in rules if re.fullmatch(one[0], name)), None)
            if rule:
                new = re.sub(r"\.layers\.(\d+)\.", layer_from_one, re.sub(*rule, name))
                if tensor.ndim != 2:
                    raise ConvertError(f"{name} {describe(tensor)}: not a matrix")
                model.put(re.sub(r"\.scale$", ".weight", new), name, np.ascontiguousarray(change(tensor)))
                break
        else:
            rest[name] = tensor
    # Without a matrix of its own the generator is tied, whatever the options say.
    if "generator.weight" not in model.tensors and "tgt_embedding.weight" in model.tensors:
        model.put("generator.weight", model.origin["tgt_embedding.weight"],
                  model.tensors["tgt_embedding.weight"])
    return rest


# --------------------------------------------------------------------------------------- the texts
def read_texts(files: Files, options: dict[str, Any], stated: Config, model: Model) -> Config:
    """Vocabularies into the model; the ids of the special tokens."""
    lines = files.lines
    pieces: dict[str, bytes] = {}
    if not files.vocabularies:
        model.warn("no vocabulary: --set end=ID --set src_end=ID, or --src-vocab FILE", "end")
        return {}
    for side, path in zip(("src", "tgt"), (files.vocabularies[0], files.vocabularies[-1])):
        if ".spm" in path.suffixes[-2:]:
            pieces[side] = marian_bin.read_unpacked(path)
            lines[side] = read_pieces(pieces[side], str(path))
        elif path.suffix == ".json":
            lines[side] = tokenizer_files.lines_of(token_ids(read_object(path), str(path)))
        elif path.suffix in (".yml", ".yaml"):
            lines[side] = read_yaml_vocabulary(path)
        else:
            lines[side] = read_text(path).removesuffix("\n").split("\n")
    for side, data in zip(("src", "tgt"), tokenizer_files.piece_files(files.folder)):
        if data and side not in pieces:
            pieces[side] = data
    if "src" in pieces:
        pieces.setdefault("tgt", pieces["src"])
    config: Config = {f"{side}_text": "sentencepiece" if side in pieces else "words"
                      for side in ("src", "tgt")}
    own = all(".spm" in path.suffixes[-2:] for path in files.vocabularies)
    for side in ("src", "tgt"):
        if side in pieces and (side == "src" or pieces[side] != pieces.get("src")):
            model.texts[f"{side}_sentencepiece"] = pieces[side]
        rows = model.tensors.get(f"{side}_embedding.weight")
        if not own and (side == "src" or lines[side] != lines["src"]):
            padded = lines[side] + [""] * ((0 if rows is None else len(rows)) - len(lines[side]))
            model.texts[f"{side}_vocabulary"] = vocabulary_text(
                padded, files.vocabularies[-(side == "tgt")].name, model)
    for side, keys in (("src", ("src_end", "src_unk")), ("tgt", ("end", "tgt_unk"))):
        for key, token in zip(keys, ("</s>", "<unk>")):
            if token in lines[side]:
                config[key] = lines[side].index(token)
    config.update(tokenizer_files.find_languages(dict(enumerate(lines["src"])), "student" if own else "marian", model))
    if own and "languages" in config and tokenizer_files.SPACE in lines["src"]:
        # The engine reads the tag as text, and SentencePiece puts a space before a text
        first = lines["src"][next(iter(config["languages"].values()))]
        if not first.startswith(tokenizer_files.SPACE):
            config["src_start"] = lines["src"].index(tokenizer_files.SPACE)
    found = decoding.from_marian(files.options, "decoder.yml", stated, model)
    if found:
        config["decoding"] = found
    allowed = files.options.get("allow-unk", options.get("allow-unk", False))
    if "tgt_unk" in config and not allowed:
        config["suppressed"] = [config["tgt_unk"]]
    return config


def read_checkpoint(path: Path) -> Checkpoint:
    files = Files(path)
    arrays, scales, options = read_model(files.model)
    facts = read_options(options, arrays)
    tensors = {name: array for name, array in arrays.items() if not name.startswith("special:")}

    def place_all(chosen: Tensors, stated: Config, model: Model) -> Tensors:
        rest = place(chosen, model)
        model.facts.update(facts)
        model.facts.update(read_texts(files, options, stated, model))
        model.facts["sentences"] = SENTENCES["marian"]
        model.notes.append(f"layout: Marian, {files.model.name}")
        return rest

    return Checkpoint(tensors, place_all, scales=scales,
                      shortlist=(files.shortlist, files.read_shortlist) if files.shortlist else None)

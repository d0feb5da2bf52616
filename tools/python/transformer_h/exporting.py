"""A live PyTorch module as a model file: nn.Transformer (or nn.TransformerEncoder and -Decoder) with
embeddings around it. Nothing is guessed: what no weight shows is read from the modules and from one
run on an example, and the file is written only where it gives the module's own logits."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from .model import Model
from .convert import modelfile
from .convert.untrusted import ConvertError as ExportError

__all__ = ["ExportError"]
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "swish": F.silu, "gelu_sigmoid": lambda x: x * torch.sigmoid(1.702 * x)}
CLOSE = 1e-4  # of the largest number at hand
# For each mask of pads: the stack that takes it, whose ids the pads are, and at which places of the stack's arguments is
# a mask that can hide them
PAD_MASKS = {"src_key_padding_mask": ("encoder", "src", {"mask": 1, "src_key_padding_mask": 2}),
             "memory_key_padding_mask": ("decoder", "src", {"memory_mask": 3, "memory_key_padding_mask": 5}),
             "tgt_key_padding_mask": ("decoder", "tgt", {"tgt_key_padding_mask": 4})}


def write_module(module: nn.Module, path: str | os.PathLike[str], example_src: torch.Tensor,
                 example_tgt: torch.Tensor, start: int, end: int, src_pad: int | None, tgt_pad: int | None,
                 src_vocabulary: list[str] | None, tgt_vocabulary: list[str] | None,
                 src_sentencepiece: str | os.PathLike[str] | None,
                 tgt_sentencepiece: str | os.PathLike[str] | None, call: Callable[..., Any] | None,
                 config: Mapping[str, Any] | None, dtype: str, about: Mapping[str, str] | None
                 ) -> dict[str, Any]:
    """Does what transformer_h.export says."""
    run = _Run(module, example_src, example_tgt, call)
    model = modelfile.Model(about=dict(about or {}))
    facts = _read_stacks(run, model)
    for side in ("src", "tgt"):
        _read_embedding(run, side, model, facts)
    _read_generator(run, model)
    for key, value in (("src_pad", src_pad), ("tgt_pad", tgt_pad)):
        value = run.embedding[key[:3]].padding_idx if value is None else value
        if value is not None:
            facts[key] = value
    facts.update({"start": start, "end": end})
    stated = dict(config or {})
    facts.update(_read_ends(run, facts, stated))
    facts.update(stated)
    for name, tokens, file in (("src", src_vocabulary, src_sentencepiece),
                               ("tgt", tgt_vocabulary, tgt_sentencepiece)):
        if tokens is not None:
            model.texts[f"{name}_vocabulary"] = modelfile.vocabulary_text(tokens, name, model)
        if file is not None:
            model.texts[f"{name}_sentencepiece"] = Path(file).read_bytes()
            facts.setdefault(f"{name}_text", "sentencepiece")

    facts = {key: facts[key] for key in modelfile.CONFIG_KEYS if facts.get(key) is not None}
    modelfile.check_values(facts)
    sizes = modelfile.measure(model, facts)
    modelfile.check_config(facts, sizes, model)
    _fail_on(model.problems + [f"{one} is missing" for one in modelfile.missing_tensors(
        model, facts, False) if one not in ("generator.weight", "tgt_embedding.weight")])
    with tempfile.TemporaryDirectory() as folder:
        _compare(run, model, facts, Path(folder) / "model")
    modelfile.omit_tied(model)
    wanted = modelfile.TYPE_OPTIONS[dtype]
    tensors = {name: modelfile.to_type(one, name, wanted) for name, one in model.tensors.items()}
    for name, text in model.texts.items():
        rows = sizes.get(f"{name[:3]}_vocab_size", sizes["src_vocab_size"])
        if name.endswith("_vocabulary") and text.count(b"\n") != rows:
            raise ExportError(f"{name} has {len(text.splitlines())} tokens, its embedding {rows} rows")
        tensors[name] = np.frombuffer(text, np.uint8)
    modelfile.write_model(Path(path), tensors, facts, model.about)
    return facts


def _fail_on(problems: Sequence[str]) -> None:
    if problems:
        raise ExportError("\n".join(problems))


def _array(tensor: torch.Tensor) -> np.ndarray:
    return np.ascontiguousarray(tensor.detach().to("cpu", torch.float32).numpy())


def _apart(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference, in units of the largest number of b (at least 1)."""
    if a.shape != b.shape:
        return math.inf
    return float((a - b).abs().max() / max(1.0, float(b.abs().max()))) if b.numel() else 0.0


def _given(args: Sequence[Any], kwargs: Mapping[str, Any], places: Mapping[str, int]) -> bool:
    """Returns whether a call has one of these arguments, by name or at its place."""
    return any((args[at] if at < len(args) else kwargs.get(name)) is not None for name, at in places.items())


class _Run:
    """The module's own run on the example: what went into and came out of its parts, [B, L, D]."""

    def __init__(self, module: nn.Module, src: torch.Tensor, tgt: torch.Tensor,
                 call: Callable[..., Any] | None) -> None:
        self.module = module
        self.encoder = self._only(nn.TransformerEncoder)
        self.decoder = self._only(nn.TransformerDecoder)
        self.first: dict[int, bool] = {
            id(one): one.layers[0].self_attn.batch_first for one in (self.encoder, self.decoder)}
        self.inside = {id(part) for stack in (self.encoder, self.decoder) for part in stack.modules()}
        self.into: dict[int, torch.Tensor] = {}
        self.outof: dict[int, torch.Tensor] = {}
        self.calls: list[tuple[str, nn.Module, Any, torch.Tensor]] = []  # outside the stacks, in turn
        self.causal = False
        self.unmasked: list[str] = []  # the masks of PAD_MASKS that a stack ran without
        self.embedding: dict[str, Any] = {}
        self.ids: dict[str, torch.Tensor] = {}
        self.logits = torch.empty(0)
        names = {id(part): name for name, part in module.named_modules()}
        hooks = []

        def keep(part: nn.Module, args: Any, kwargs: Any, out: Any) -> None:
            x = args[0] if args else next(iter(kwargs.values()))
            if id(part) in self.inside:
                turn = not (self.first[id(self.encoder)] if part is self.encoder or part in set(
                    self.encoder.layers) else self.first[id(self.decoder)])
                self.into[id(part)] = x.transpose(0, 1) if turn else x
                self.outof[id(part)] = out.transpose(0, 1) if turn else out
                if part is self.decoder:
                    self.causal = bool(kwargs.get("tgt_is_causal")) or _given(args, kwargs, {"tgt_mask": 2})
                self.unmasked += [mask for mask, (stack, _, places) in PAD_MASKS.items()
                                  if part is getattr(self, stack) and not _given(args, kwargs, places)]
            elif isinstance(out, torch.Tensor):
                self.calls.append((names[id(part)], part, x, out))

        for part in module.modules():
            kept = isinstance(part, (nn.Embedding, nn.Linear, nn.LayerNorm)) and id(part) not in self.inside
            if kept or part in (self.encoder, self.decoder, *self.encoder.layers, *self.decoder.layers):
                hooks.append(part.register_forward_hook(keep, with_kwargs=True))
        was, fast = module.training, torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            module.eval()
            with torch.no_grad():
                self.output = (call or (lambda m, s, t: m(s, t)))(module, src, tgt)
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            module.train(was)
            for hook in hooks:
                hook.remove()
        for stack, name in ((self.encoder, "encoder"), (self.decoder, "decoder")):
            if id(stack) not in self.outof:
                raise ExportError(f"the example did not run through the {name}: say how by call=")

    def _only(self, kind: type) -> Any:
        found = [(name, one) for name, one in self.module.named_modules() if type(one) is kind
                 or isinstance(one, kind)]
        if len(found) != 1:
            raise ExportError(f"{len(found)} of nn.{kind.__name__} in the module"
                              + "".join(f", {name}" for name, _ in found) + "; exactly one is wanted")
        return found[0][1]

    def of(self, kind: type) -> Iterator[tuple[str, Any, Any, torch.Tensor]]:
        return (one for one in self.calls if isinstance(one[1], kind))


def _read_stacks(run: _Run, model: modelfile.Model) -> dict[str, Any]:
    seen: dict[str, dict[Any, str]] = {}

    def say(key: str, value: Any, where: str) -> None:
        seen.setdefault(key, {}).setdefault(value, where)

    grid = torch.linspace(-6, 6, 1001)
    for side, stack in (("encoder", run.encoder), ("decoder", run.decoder)):
        for i, layer in enumerate(stack.layers):
            where = f"{side} layer {i}"
            say("norm", "pre" if layer.norm_first else "post", where)
            with torch.no_grad():
                fits = [name for name, one in ACTIVATIONS.items()
                        if _apart(layer.activation(grid), one(grid)) < 1e-6]
            if not fits:
                raise ExportError(f"{where}: no activation of model files is {layer.activation}")
            say("activation", fits[0], where)
            for name in ("self_attn", "multihead_attn"):
                attention = getattr(layer, name, None)
                if attention is None:
                    continue
                say("n_heads", attention.num_heads, where)
                if attention.bias_k is not None or attention.add_zero_attn:
                    raise ExportError(f"{where}: {name} adds keys of its own (add_bias_kv, "
                                      f"add_zero_attn), which model files have not")
        for part in stack.modules():
            if isinstance(part, nn.LayerNorm):
                say("layer_norm_eps", part.eps, side)
        for name, tensor in stack.state_dict().items():
            name = name.replace("q_proj_weight", "q_proj.weight").replace(
                "k_proj_weight", "k_proj.weight").replace("v_proj_weight", "v_proj.weight")
            new = f"{side}.{name}"
            if not modelfile.shape_of(new):
                model.problems.append(f"{new} {list(tensor.shape)} has no place in a model file")
            else:
                model.put(new, new, _array(tensor))
    for key, values in seen.items():
        if len(values) > 1:
            model.problems.append(f"{key} differs: " + ", ".join(
                f"{value} ({where})" for value, where in values.items()))
    _fail_on(model.problems)
    return {key: next(iter(values)) for key, values in seen.items()} | {"layer_norm": "layer_norm"}


def _read_embedding(run: _Run, side: str, model: modelfile.Model, facts: dict[str, Any]) -> None:
    """X = norm(scale * E[ids] + positions): which E, norm, scale and positions give what went into
    the stack."""
    x = run.into[id(run.encoder if side == "src" else run.decoder)]
    width = x.shape[-1]
    for _, norm, before, after in run.of(nn.LayerNorm):
        for put, back in ((before, after), (before.transpose(0, 1), after.transpose(0, 1))):
            if _apart(back, x) < 1e-7:
                for leaf in ("weight", "bias"):
                    if getattr(norm, leaf) is not None:
                        model.put(f"{side}_embedding_norm.{leaf}", "norm", _array(getattr(norm, leaf)))
                if norm.eps != facts["layer_norm_eps"]:
                    raise ExportError(f"the norm behind the {side} embedding has eps {norm.eps}, the "
                                      f"layers {facts['layer_norm_eps']}")
                x = put
                break
    tables: list[tuple[str, torch.Tensor]] = [
        (name, one.detach().reshape(-1, width)) for name, one in
        [*run.module.named_parameters(), *run.module.named_buffers()]
        if one.ndim in (2, 3) and one.shape[-1] == width and one.is_floating_point()]
    best = (math.inf, "")
    for name, embedding, ids, _ in run.of(nn.Embedding):
        if embedding.embedding_dim != width or ids.ndim != 2:
            continue
        for rows in (ids, ids.t()):
            if tuple(rows.shape) != tuple(x.shape[:2]):
                continue
            e = embedding.weight.detach()[rows]
            for scale in _scales(x, e, rows):
                rest = x - scale * e
                if rest.shape[0] > 1 and _apart(rest, rest[:1].expand_as(rest)) > CLOSE:
                    best = min(best, (_apart(rest, rest[:1].expand_as(rest)), name))
                    continue
                found = _positions(rest.mean(0), tables, run, facts)
                if found is None:
                    best = min(best, (1.0, name))
                    continue
                if side == "tgt" and facts.get("embedding_scale") not in (None, _named(scale, width)):
                    raise ExportError(f"the embeddings' scales differ: source "
                                      f"{facts['embedding_scale']}, target {_named(scale, width)}")
                positions, table = found
                for key, value in positions.items():
                    if facts.setdefault(key, value) != value:
                        raise ExportError(f"{key} differs: source {facts[key]}, target {value}")
                if table is not None:
                    model.put(f"{side}_positions.weight", "positions", _array(table))
                model.put(f"{side}_embedding.weight", f"{name}.weight", _array(embedding.weight))
                facts["embedding_scale"] = _named(scale, width)
                run.embedding[side], run.ids[side] = embedding, rows
                return
    raise ExportError(f"what goes into the {'encoder' if side == 'src' else 'decoder'} is not scale * embedding + positions of "
                      f"any nn.Embedding and table of this module" + (f" (nearest: {best[1]}, "
                      f"{best[0]:.2g} off)" if best[1] else "") + "; a model file has nothing else there")


def _named(scale: float, width: int) -> Any:
    return "sqrt_d" if abs(scale - math.sqrt(width)) < 1e-6 * scale else 1 if scale == 1 else scale


def _scales(x: torch.Tensor, e: torch.Tensor, rows: torch.Tensor) -> list[float]:
    """1, sqrt(D), and what two tokens at one place say."""
    scales = [1.0, math.sqrt(x.shape[-1])]
    if len(rows) > 1:
        dx, de = (x[1:] - x[:1]).double(), (e[1:] - e[:1]).double()
        if float((de * de).sum()) > 0:
            scales.append(float(f"{float((dx * de).sum() / (de * de).sum()):.6g}"))
    return scales


def _positions(rest: torch.Tensor, tables: list[tuple[str, torch.Tensor]], run: _Run,
               facts: dict[str, Any]) -> tuple[dict[str, Any], torch.Tensor | None] | None:
    """What of the config, or which learned table, gives rest [L, D]."""
    length, width = rest.shape
    limit = CLOSE
    if float(rest.abs().max()) < limit:
        return {"positions": "none"}, None
    for name, table in tables:
        for offset in range(min(3, len(table) - length + 1)):
            if len(table) >= length and float((table[offset:offset + length] - rest).abs().max()) < limit:
                formula = modelfile.find_formula(_array(table[offset:]), {})
                if formula:
                    return formula, None
                return {"positions": "learned"}, table[offset:]
    for kind in ("sinusoidal", "sinusoidal_halves", "sinusoidal_per_index"):
        for divisor in ("d", "d/2-1"):
            for offset in (0, 1, 2):
                formula = {"positions": kind, "position_divisor": divisor,
                           "position_precision": "float", "position_offset": offset}
                if width > 2 and np.abs(modelfile.position_table(length, width, formula)
                                        - _array(rest)).max() < limit:
                    return {key: value for key, value in formula.items() if value}, None
    return None


def _read_ends(run: _Run, facts: dict[str, Any], stated: dict[str, Any]) -> dict[str, Any]:
    """Returns what the example shows of the ids around sources: src_start and src_end, and the pads if the embeddings
    have no padding_idx. A file without them would translate other sources than the module was trained with. Raises an
    ExportError if the example has two readings, and if its targets begin with another token than start."""
    start, end, found = facts["start"], facts["end"], {}
    heads = {int(row[0]) for row in run.ids["tgt"]}
    if len(run.ids["tgt"]) > 1 and len(heads) == 1 and heads != {start}:
        raise ExportError(f"start is {start}, but every target of the example begins with {heads.pop()}: start is the "
                          f"token that the decoder reads first")
    if "tgt_pad" not in stated and facts.get("tgt_pad") is None:  # what follows end
        ended = [row.tolist() for row in run.ids["tgt"]]
        after = {one for row in ended if end in row[1:] for one in row[row.index(end, 1) + 1:]}
        if len(after) == 1 and after != {end}:
            (found["tgt_pad"],) = after
    rows = [row.tolist() for row in run.ids["src"]]
    pad = stated.get("src_pad", facts.get("src_pad"))

    def without(pad: Any) -> list[list[int]]:
        return [row[:max([1, *(i + 1 for i, one in enumerate(row) if one != pad)])] for row in rows]

    if "src_pad" not in stated and pad is None:
        for last in {row[-1] for row in rows} - {end}:
            if all(row[-1] == end for row in without(last)):
                pad = found["src_pad"] = last
    rows = without(pad)
    for key, at, usual in (("src_start", 0, start), ("src_end", -1, end)):
        ids = {row[at] for row in rows}
        if key not in stated and len(ids) > 1 and usual in ids and run.embedding["src"].weight is run.embedding["tgt"].weight:
            where = "begin" if at == 0 else "end"
            raise ExportError(f"some sources of the example {where} with {usual}, which is {'start' if at == 0 else 'end'}, and "
                              f"others do not: give whole sources, or say whether every source {where}s with it: "
                              f"config={{{key!r}: {usual}}}, or {{{key!r}: None}}")
        if key in stated or len(ids) > 1 or min(map(len, rows)) < 2:
            continue
        (one,) = ids
        if one == usual:
            found[key] = one
        elif len(rows) > 1:
            where = "begins" if at == 0 else "ends"
            raise ExportError(f"every source of the example {where} with {one}, which is not {'start' if at == 0 else 'end'}: "
                              f"say whether every source {where} with it: config={{{key!r}: {one}}}, or {{{key!r}: None}} "
                              f"if it is part of the texts")
    return found


def _read_generator(run: _Run, model: modelfile.Model) -> None:
    """The linear layer that the decoder's output goes into, in the run or, if the module leaves it
    to its caller, the only one of that shape; or the target embedding, tied."""
    hidden = run.outof[id(run.decoder)]
    rows = len(run.embedding["tgt"].weight)
    turned = (hidden, hidden.transpose(0, 1))
    linears = [(name, one) for name, one in run.module.named_modules()
               if isinstance(one, nn.Linear) and id(one) not in run.inside]
    used = [(name, one) for name, one, into, _ in run.of(nn.Linear) if one.out_features == rows and any(
        _apart(into, each) < 1e-7 for each in turned)]
    fits = [(name, one) for name, one in linears if one.in_features == hidden.shape[-1]
            and one.out_features == rows]
    output = run.output[0] if isinstance(run.output, tuple) else run.output
    tied = F.linear(hidden, run.embedding["tgt"].weight.detach())
    if used or (len(fits) == 1 and any(_apart(output, each) < 1e-7 for each in turned)):
        name, one = (used or fits)[0]
        model.put("generator.weight", f"{name}.weight", _array(one.weight))
        if one.bias is not None:
            model.put("generator.bias", f"{name}.bias", _array(one.bias))
        run.logits = F.linear(hidden, one.weight.detach(), None if one.bias is None else one.bias.detach())
    elif any(_apart(output, each) < 1e-5 for each in (tied, tied.transpose(0, 1))):
        run.logits = tied
        model.put("generator.weight", "tied", _array(run.embedding["tgt"].weight))
    else:
        raise ExportError("no nn.Linear of the module made logits of the decoder's output ["
                          f"{hidden.shape[-1]} -> {rows}]" + "".join(
                              f"; {name} [{one.in_features} -> {one.out_features}]"
                              for name, one in linears[:8]))


def _compare(run: _Run, model: modelfile.Model, facts: dict[str, Any], path: Path) -> None:
    """Raises where the file's logits are not the module's."""
    ids = {side: rows.cpu().numpy().astype(np.int32) for side, rows in run.ids.items()}
    seen = {side: torch.from_numpy(rows != facts.get(f"{side}_pad", -1)) for side, rows in ids.items()}

    def probe(encoders: int, decoders: int, norms: tuple[str, ...], identity: bool = False) -> Model:
        """With so many layers, those final norms, and perhaps the identity as generator."""
        counts = {"encoder": encoders, "decoder": decoders}
        tensors = {}
        for name, tensor in model.tensors.items():
            side, _, rest = name.partition(".")
            if side not in counts or (rest.startswith("norm.") and side in norms) or (
                    rest.startswith("layers.") and int(rest.split(".")[1]) < counts[side]):
                tensors[name] = tensor
        if identity:
            tensors["generator.weight"] = np.eye(*tensors["generator.weight"].shape, dtype=np.float32)
            tensors.pop("generator.bias", None)
        modelfile.write_model(path, tensors, {key: value for key, value in facts.items()
                                              if not key.endswith("_text")})
        return Model(path)

    def differ(got: np.ndarray, wanted: torch.Tensor, side: str, rows: slice = slice(None)) -> float:
        width = min(got.shape[-1], wanted.shape[-1])
        return _apart(torch.from_numpy(np.array(got[rows, ..., :width]))[seen[side][rows]],
                      wanted[rows, ..., :width].cpu().float()[seen[side][rows]])

    def differ_before(pad: int, got: np.ndarray) -> float:
        """Without the pads at the ends of targets."""
        ends = torch.from_numpy((ids["tgt"] == pad)[:, ::-1].cumprod(1)[:, ::-1].astype(bool))
        return _apart(torch.from_numpy(got)[~ends], run.logits.cpu().float()[~ends])

    n, m, both = len(run.encoder.layers), len(run.decoder.layers), ("encoder", "decoder")
    with probe(n, m, both) as whole:
        apart = differ(whole.forward(ids["src"], ids["tgt"], causal=run.causal), run.logits, "tgt")
        decoded = whole.forward(ids["src"], ids["tgt"])
        causal = differ(decoded, run.logits, "tgt")
    if max(apart, causal) <= CLOSE:
        return
    lasts = {int(row[-1]) for row in ids["tgt"]} - {facts["end"]} if facts.get("tgt_pad") is None else set()
    for pad in lasts:
        if differ_before(pad, np.array(decoded)) <= CLOSE:
            raise ExportError(f"the file's logits are the module's, but not where targets end with {pad}: if that fills short "
                              f"targets, say tgt_pad={pad}; nothing was written")
    if apart <= CLOSE:
        raise ExportError("the module's decoder sees later target tokens (its forward gives no "
                          "tgt_mask): while decoding there are none, so that numbers would be "
                          "others; nothing was written")

    pads = _unmasked_pads(run, facts, ids, [
        differ(decoded, run.logits, "tgt", slice(i, i + 1)) > CLOSE for i in range(len(ids["tgt"]))])

    def part() -> str:
        for k, layer in enumerate(run.encoder.layers):
            with probe(k + 1, 1, ()) as one:
                if differ(one.encode(ids["src"])[0], run.outof[id(layer)], "src") > CLOSE:
                    return f"encoder layer {k}"
        for k, layer in enumerate(run.decoder.layers):
            with probe(n, k + 1, ("encoder",), True) as one:
                got = one.forward(ids["src"], ids["tgt"], causal=run.causal)
                if differ(got, run.outof[id(layer)], "tgt") > CLOSE:
                    return f"decoder layer {k}" if k else "decoder layer 0, or the encoder's final norm"
        return "the decoder's final norm or the generator"

    raise ExportError(f"the file's logits are {apart:.2g} off the module's (of their largest, "
                      f"{float(run.logits.abs().max()):.3g}): they part at {part()}{pads}; nothing was "
                      f"written")


def _unmasked_pads(run: _Run, facts: Mapping[str, Any], ids: Mapping[str, np.ndarray], wrong: Sequence[bool]) -> str:
    """Returns what the message says about pads, if they can be the reason: the logits are wrong only in rows with pads
    that the module got no mask for. Such a module attends to its pads, which a file never does. A pad at the end of
    a target comes after every token that could attend to it."""
    lacking, where, rows = [], [], np.zeros(len(wrong), bool)
    for mask in run.unmasked:
        _, side, _ = PAD_MASKS[mask]
        pads = ids[side] == facts.get(f"{side}_pad", -1)
        if side == "tgt":
            pads[:, 0] = False  # where the start token is
            pads &= np.maximum.accumulate(~pads[:, ::-1], axis=1)[:, ::-1]
        if pads.any():
            lacking.append(mask)
            where.append(f"{side}_pad {facts[f'{side}_pad']}")
            rows |= pads.any(1)
    if not lacking or np.any(np.array(wrong) & ~rows):
        return ""
    return (f". The example has pads ({', '.join(dict.fromkeys(where))}), and the module's forward gave no "
            f"{' and no '.join(lacking)}: the module attends to pads, and a model file does not. Give the module its "
            f"masks, as it was trained, or an example without pads")

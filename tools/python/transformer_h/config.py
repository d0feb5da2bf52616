"""The config of a model file, as Model.config returns it."""

from __future__ import annotations

import os
from typing import Any

from ._transformer import ffi, lib


def enum_names(kind: Any) -> dict[str, int]:
    """Returns the values of an enum under their names in the header without what these begin with: of
    TFM_NORM_KIND_RMS_NORM it is "rms_norm"."""
    elements = {name: value for value, name in sorted(kind.elements.items()) if not name.endswith("_COUNT")}
    prefix = os.path.commonprefix(list(elements))
    prefix = prefix[:prefix.rindex("_") + 1]
    return {name[len(prefix):].lower(): value for name, value in elements.items()}


def config_of(c: Any) -> dict[str, Any]:
    """Returns the fields of tfm_config. An enum's value is its name, and an array is a tuple, so its n_ field is
    left out. The names of norms are those of the model file."""
    config: dict[str, Any] = {}
    fields = dict(ffi.typeof("tfm_config").fields)
    for name, field in fields.items():
        value = getattr(c, name)
        if field.type.kind == "enum":
            value = next(each for each, number in enum_names(field.type).items() if number == value)
        elif name == "languages":
            value = {ffi.string(value[i].code).decode(): value[i].id for i in range(c.n_languages)}
        elif name == "alignment_heads":
            value = tuple((value[2 * i], value[2 * i + 1]) for i in range(c.n_alignment_heads))
        elif name in ("encoder_windows", "decoder_windows"):  # layer, left, right
            value = tuple((value[3 * i], value[3 * i + 1], value[3 * i + 2]) for i in range(getattr(c, f"n_{name}")))
        elif name in ("source_language", "target_language"):
            value = ffi.string(value).decode() if value else None
        elif field.type.kind == "pointer":
            value = tuple(value[i] for i in range(getattr(c, f"n_{name}")))
        elif name.startswith("n_") and name[2:] in fields:
            continue
        config[{"norm_order": "norm", "norm_kind": "layer_norm"}.get(name, name)] = value
    return config


def find_model(name: str) -> str:
    """Returns the path of a model's file that has this path, or this name as translate knows it, such as de-en. What is not found
    stays as it is."""
    made = ffi.NULL if os.path.exists(name) else lib.th_find_model(os.fsencode(name))
    return os.fsdecode(ffi.string(ffi.gc(made, lib.th_free))) if made else name

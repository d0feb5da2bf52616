"""transformer_h.export against live modules. Run in the repository, where torch is: make test-torch"""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from transformer_h import Model, export  # noqa: E402
from transformer_h.exporting import ExportError  # noqa: E402

VS, VT, D = 23, 29, 16


def sinusoids(rows, width):
    table, at = torch.zeros(rows, width), torch.arange(rows)[:, None]
    rate = torch.exp(torch.arange(0, width, 2) * -(math.log(10000) / width))
    table[:, 0::2], table[:, 1::2] = torch.sin(at * rate), torch.cos(at * rate)
    return table


class Translator(nn.Module):
    """The usual one, in the variants that people build."""

    def __init__(self, scale=math.sqrt(D), positions="table", batch_first=True, tied=False, norm=False,
                 causal=True, pads=True, **options):
        super().__init__()
        self.core = nn.Transformer(D, 4, 2, 3, 24, dropout=0.1, batch_first=batch_first, **options)
        self.source, self.target = nn.Embedding(VS, D, padding_idx=0), nn.Embedding(VT, D, padding_idx=0)
        self.to_vocab = None if tied else nn.Linear(D, VT)
        if positions == "table":
            self.register_buffer("wave", sinusoids(40, D)[None])
        if positions == "learned":
            self.place = nn.Embedding(40, D)
        self.norm_in = nn.LayerNorm(D) if norm else None
        self.scale, self.positions, self.batch_first, self.causal, self.pads = scale, positions, batch_first, causal, pads
        for parameter in self.parameters():
            if parameter.ndim == 1:
                nn.init.normal_(parameter, 0.5, 0.3)

    def embed(self, ids, embedding):
        length = ids.shape[1 if self.batch_first else 0]
        x = embedding(ids) * self.scale
        if self.positions == "none":
            return x
        wave = {"table": lambda: self.wave[0, :length], "learned": lambda: self.place(torch.arange(length)),
                "computed": lambda: sinusoids(length, D)}[self.positions]()
        x = x + (wave if self.batch_first else wave[:, None])
        return self.norm_in(x) if self.norm_in else x

    def forward(self, src, tgt):
        length = tgt.shape[1 if self.batch_first else 0]
        mask = nn.Transformer.generate_square_subsequent_mask(length) if self.causal else None
        pads = {}
        if self.pads:
            rows = src if self.batch_first else src.t()
            pads = {"src_key_padding_mask": rows == 0, "memory_key_padding_mask": rows == 0}
        out = self.core(self.embed(src, self.source), self.embed(tgt, self.target), tgt_mask=mask, **pads)
        return self.to_vocab(out) if self.to_vocab else out @ self.target.weight.t()


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(7)


def examples(batch_first=True):
    src, tgt = torch.randint(3, VS, (3, 7)), torch.randint(3, VT, (3, 5))
    src[1, 5:] = 0
    return (src, tgt) if batch_first else (src.t(), tgt.t())


@pytest.mark.parametrize("options, expected", [
    ({}, {"norm": "post", "activation": "relu", "embedding_scale": "sqrt_d", "positions": "sinusoidal", "n_heads": 4,
          "layer_norm_eps": 1e-5, "src_pad": 0, "tgt_pad": 0}),
    ({"norm_first": True, "activation": "gelu", "scale": 1, "layer_norm_eps": 1e-3},
     {"norm": "pre", "activation": "gelu", "embedding_scale": 1, "layer_norm_eps": 1e-3}),
    ({"activation": F.silu, "scale": 3.5, "positions": "learned"},
     {"activation": "swish", "embedding_scale": pytest.approx(3.5, 1e-5), "positions": "learned"}),
    ({"activation": lambda x: F.gelu(x, approximate="tanh"), "positions": "computed", "tied": True},
     {"activation": "gelu_tanh", "positions": "sinusoidal"}),
    ({"positions": "none", "batch_first": False}, {"positions": "none"}),
    ({"batch_first": False, "bias": False}, {}),
    ({"norm": True}, {"embedding_scale": "sqrt_d"}),
])
def test_logits_are_the_modules(tmp_path, options, expected):
    module = Translator(**options).train()
    first = options.get("batch_first", True)
    config = export(module, tmp_path / "m.safetensors", *examples(first), start=1, end=2)
    assert {key: config[key] for key in expected} == expected
    assert module.training  # as it was
    src, tgt = torch.randint(1, VS, (2, 9)), torch.randint(1, VT, (2, 6))
    with torch.no_grad():
        wanted = module.eval()(*((src, tgt) if first else (src.t(), tgt.t())))
    with Model(tmp_path / "m.safetensors") as model:
        got = model.forward(src, tgt)
    assert np.abs(got - (wanted if first else wanted.transpose(0, 1)).numpy()).max() < 1e-4


@pytest.mark.parametrize("side, at, says", [("encoder", 1, "encoder layer 1"), ("decoder", 2, "decoder layer 2")])
def test_where_they_part(tmp_path, side, at, says):
    module = Translator()
    layer = getattr(module.core, side).layers[at]
    plain = layer.forward
    layer.forward = lambda *args, **kwargs: (x := plain(*args, **kwargs)) + 0.1 * x.flip(-1)
    with pytest.raises(ExportError, match=f"they part at {says}"):
        export(module, tmp_path / "m.safetensors", *examples(), start=1, end=2)
    assert not list(tmp_path.iterdir())


def uneven(module):
    module.core.decoder.layers[1].norm_first = True


def two_activations(module):  # what nn.Transformer(activation=nn.SiLU()) makes of a decoder's copies
    for layer in module.core.encoder.layers:
        layer.activation = nn.SiLU()


def odd_activation(module):
    module.core.encoder.layers[0].activation = torch.tanh


def odd_input(module):
    module.source.register_forward_hook(lambda m, a, out: out * out)


@pytest.mark.parametrize("change, says", [
    (uneven, "norm differs: post .encoder layer 0., pre .decoder layer 1."),
    (two_activations, "activation differs: swish .encoder layer 0., relu .decoder layer 0."),
    (odd_activation, "encoder layer 0: no activation"),
    (odd_input, "what goes into the encoder is not"),
    (lambda m: setattr(m, "causal", False), "sees later target tokens"),
    (lambda m: setattr(m, "pads", False), "they part at encoder layer 0. The example has pads .src_pad 0., and .* no src_key"),
    (lambda m: setattr(m, "to_vocab", nn.Sequential(m.to_vocab, nn.Linear(VT, VT + 1))), "nn.Linear|logits"),
    (lambda m: setattr(m, "second", nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 1)), "2 of nn.TransformerEncoder"),
])
def test_what_cannot_be_is_said(tmp_path, change, says):
    module = Translator()
    change(module)
    if says == "nn.Linear|logits":
        module.to_vocab[0] = nn.Identity()
        module.to_vocab[1] = nn.Linear(D, VT + 1)
    with pytest.raises(ExportError, match=says):
        export(module, tmp_path / "m.safetensors", *examples(), start=1, end=2)
    assert not list(tmp_path.iterdir())


def ends(before, after, pad=0):
    """Sources with tokens around them, as training has them, and targets that begin with 1."""
    src = torch.full((3, 8), pad)
    for i, length in enumerate((5, 3, 4)):
        row = [*before, *range(3 + i, 3 + i + length), *after]
        src[i, :len(row)] = torch.tensor(row)
    tgt = torch.randint(3, VT, (3, 5))
    tgt[:, 0] = 1
    return src, tgt


@pytest.mark.parametrize("before, after, expected", [
    ([], [2], {"src_end": 2}), ([1], [2], {"src_start": 1, "src_end": 2}), ([1], [], {"src_start": 1}), ([], [], {})])
def test_tokens_around_sources_are_seen(tmp_path, before, after, expected):
    config = export(Translator(), tmp_path / "m", *ends(before, after), start=1, end=2)
    assert {key: config[key] for key in ("src_start", "src_end") if key in config} == expected


def test_pads_are_seen_without_padding_idx(tmp_path):
    module = Translator()
    module.source.padding_idx = None
    config = export(module, tmp_path / "m", *ends([], [2]), start=1, end=2)
    assert (config["src_pad"], config["src_end"]) == (0, 2)


class Plain(nn.Module):
    """A first module: no positions, no masks of pads, and a causal mask of booleans."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VS, D, padding_idx=0)
        self.body = nn.Transformer(D, 2, 1, 1, 32, batch_first=True)
        self.out = nn.Linear(D, VS)

    def forward(self, src, tgt, **masks):
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1]).bool()
        return self.out(self.body(self.embed(src), self.embed(tgt), tgt_mask=mask, **masks))


def test_a_first_module(tmp_path):
    module = Plain().eval()
    src, tgt = torch.tensor([[5, 6, 7, 3], [8, 9, 10, 3]]), torch.tensor([[2, 11, 12, 3], [2, 13, 14, 3]])
    config = export(module, tmp_path / "m.safetensors", src, tgt, start=2, end=3)
    assert {key: config[key] for key in ("n_heads", "positions", "src_pad", "tgt_pad", "src_end")} == {
        "n_heads": 2, "positions": "none", "src_pad": 0, "tgt_pad": 0, "src_end": 3}
    with Model(tmp_path / "m.safetensors") as model, torch.no_grad():
        assert np.abs(model.forward(src, tgt) - module(src, tgt).numpy()).max() < 1e-4


PADS = torch.tensor([[5, 6, 3, 0], [8, 9, 10, 3]])


@pytest.mark.parametrize("masks, src, tgt_at, says", [
    ([], PADS, None, "encoder layer 0. The example has pads .src_pad 0., and the module's forward gave no src_key_padding_mask "
                     "and no memory_key_padding_mask: .* or an example without pads; nothing was written"),
    (["src"], PADS, None, "The example has pads .src_pad 0., and the module's forward gave no memory_key_padding_mask:"),
    (["memory"], PADS, None, "The example has pads .src_pad 0., and the module's forward gave no src_key_padding_mask:"),
    (["src", "memory"], PADS, 1, "The example has pads .tgt_pad 0., and the module's forward gave no tgt_key_padding_mask:"),
    (["src", "memory"], PADS, None, None),
    (["src", "memory", "tgt"], PADS, 1, None),
    ([], PADS[1:], None, None),
])
def test_pads_that_the_module_does_not_mask_are_named(tmp_path, masks, src, tgt_at, says):
    tgt = torch.tensor([[2, 11, 12, 3, 0], [2, 13, 14, 15, 3]])[-len(src):]
    if tgt_at:
        tgt[0, tgt_at] = 0

    def call(module, src, tgt):
        return module(src, tgt, **{f"{one}_key_padding_mask": (tgt if one == "tgt" else src) == 0 for one in masks})

    def write():
        export(Plain(), tmp_path / "m", src, tgt, start=2, end=3, call=call)

    if says is None:
        write()
    else:
        with pytest.raises(ExportError, match=says):
            write()
        assert not list(tmp_path.iterdir())


def test_pads_are_not_blamed_for_other_faults(tmp_path):
    """The row without pads is wrong, too."""
    module = Plain()
    layer = module.body.encoder.layers[0]
    plain = layer.forward
    layer.forward = lambda *args, **kwargs: (x := plain(*args, **kwargs)) + 0.1 * x.flip(-1)
    with pytest.raises(ExportError, match="they part at encoder layer 0; nothing was written"):
        export(module, tmp_path / "m", PADS, torch.tensor([[2, 11, 12, 3], [2, 13, 14, 3]]), start=2, end=3)


class MaskedTargets(Translator):
    """Masks the pads of targets too, as many trainings do."""

    def forward(self, src, tgt):
        mask = torch.triu(torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool), 1)
        out = self.core(self.embed(src, self.source), self.embed(tgt, self.target), tgt_mask=mask, src_key_padding_mask=src == 0,
                        memory_key_padding_mask=src == 0, tgt_key_padding_mask=tgt == 0)
        return self.to_vocab(out)


def test_pads_of_targets_are_seen_or_asked_for(tmp_path):
    module = MaskedTargets()
    module.source.padding_idx = module.target.padding_idx = None
    src, tgt = ends([], [2])
    tgt[1, 3:] = 0
    with pytest.raises(ExportError, match="not where targets end with 0: .*say tgt_pad=0"):
        export(module, tmp_path / "m", src, tgt, start=1, end=2)
    assert export(module, tmp_path / "m", src, tgt, start=1, end=2, tgt_pad=0)["tgt_pad"] == 0
    tgt[1, 2] = 2  # what follows the end
    assert export(module, tmp_path / "m", src, tgt, start=1, end=2)["tgt_pad"] == 0


def test_two_readings_are_asked_for(tmp_path):
    with pytest.raises(ExportError, match="every source of the example ends with 9.*'src_end': 9.*None"):
        export(Translator(), tmp_path / "m", *ends([], [9]), start=1, end=2)
    with pytest.raises(ExportError, match="every source of the example begins with 7"):
        export(Translator(), tmp_path / "m", *ends([7], [2]), start=1, end=2)
    assert export(Translator(), tmp_path / "m", *ends([], [9]), start=1, end=2, config={"src_end": 9})["src_end"] == 9
    assert "src_end" not in export(Translator(), tmp_path / "m", *ends([], [9]), start=1, end=2, config={"src_end": None})
    with pytest.raises(ExportError, match="start is 4, but every target of the example begins with 1"):
        export(Translator(), tmp_path / "m", *ends([], [2]), start=4, end=2)


def test_sources_that_are_cut_are_asked_for(tmp_path):
    """An example of which a part of the columns was taken: some sources have their end token, others lost it."""
    module = Translator()
    module.target = module.source = nn.Embedding(VT, D, padding_idx=0)
    src, tgt = ends([], [2])
    with pytest.raises(ExportError, match="some sources of the example end with 2, which is end, and others do not"):
        export(module, tmp_path / "m", src[:, :4], tgt, start=1, end=2)
    assert export(module, tmp_path / "m", src[:, :4], tgt, start=1, end=2, config={"src_end": 2})["src_end"] == 2
    assert export(module, tmp_path / "m", src, tgt, start=1, end=2)["src_end"] == 2


def test_it_translates_by_its_vocabularies(tmp_path):
    module = Translator()
    words = [[f"{side}{i}" for i in range(n)] for side, n in (("s", VS), ("t", VT))]
    export(module, tmp_path / "m", *examples(), start=1, end=2, src_vocabulary=words[0],
           tgt_vocabulary=words[1], config={"src_text": "words"}, dtype="bf16", about={"license": "none"})
    with Model(tmp_path / "m") as model:
        assert set(model.translate("s3 s4 s5").split()) <= set(words[1])
    with pytest.raises(ExportError, match="22 tokens, its embedding 23 rows"):
        export(module, tmp_path / "n", *examples(), start=1, end=2, src_vocabulary=words[0][1:])

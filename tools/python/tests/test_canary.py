"""Compares examples/canary.py with generate() of transformers, on tiny random models of Canary and Cohere Transcribe."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", "5.24")

from transformer_h import Model  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/make"), str(ROOT / "examples")]  # make_vectors imports the converter


@pytest.mark.parametrize("family", ["canary", "cohere_asr"])
def test_recipe(tmp_path, family):
    import canary
    import make_vectors
    network, _ = make_vectors.make(family, 8, memory=14, num_attention_heads=2, num_key_value_heads=1)
    network.save_pretrained(tmp_path)
    words = tmp_path / "words.txt"
    words.write_text("".join(f"t{i}\n" for i in range(network.config.get_text_config().vocab_size)))
    assert make_vectors.convert.main([str(tmp_path), str(tmp_path / "model.safetensors"), "--no-check", f"--tgt-vocab={words}"]) == 0
    torch.manual_seed(8)
    mask = torch.arange(90) < torch.tensor([[90], [41], [70]])
    inputs = {"input_features": torch.randn(3, 90, 8), "attention_mask": mask.long(),
              "decoder_input_ids": torch.tensor([[make_vectors.START, 5, 9, 30]] * 3)}
    with Model(tmp_path / "model.safetensors") as model:
        for beam in (1, 4):
            ids = network.generate(**inputs, num_beams=beam, do_sample=False, max_new_tokens=16, suppress_tokens=[make_vectors.PAD])
            found = canary.transcribe(network, model, inputs, beam=beam, max_length=16,
                                      **{"length_penalty": 1.0, "stop": "early_false"} if beam > 1 else {})
            rows = [row[4:] for row in ids.tolist()]
            rows = [row[:row.index(make_vectors.END)] if make_vectors.END in row else row for row in rows]
            assert found == [" ".join(f"t{i}" for i in row if i != make_vectors.PAD) for row in rows]
            assert len(set(found)) > 1, found

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


# Of our own: what the chat template of a Canary folder does, with a prompt of ids that the tiny models know.
TEMPLATE = "{% for message in messages %}{% for part in message.content %}{% if part.type == 'text' %}" \
           "t5 {{ {'en': 't9', 'English': 't9'}[part.source_language] }} t30{% endif %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize("family", ["canary", "cohere_asr"])
def test_program(tmp_path, family, capsys):
    """main() reads a folder with a processor and a sound."""
    import canary
    import make_vectors
    import numpy
    soundfile = pytest.importorskip("soundfile")
    from tokenizers import Tokenizer, models, pre_tokenizers
    network, _ = make_vectors.make(family, 8, memory=14, max_position_embeddings=600)
    network.save_pretrained(tmp_path)
    size = network.config.get_text_config().vocab_size
    prompt_of_cohere = dict(zip([make_vectors.START, *range(5, 13)],
                                ["▁", "<|startofcontext|>", "<|startoftranscript|>", "<|emo:undefined|>", "<|en|>", "<|pnc|>",
                                 "<|noitn|>", "<|notimestamp|>", "<|nodiarize|>"] if family == "cohere_asr" else []))
    words = {prompt_of_cohere.get(i, f"t{i}"): i for i in range(size)}
    rows = Tokenizer(models.WordLevel(words, unk_token="t4"))
    rows.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=rows, pad_token="t1", eos_token="t2", unk_token="t4")
    if family == "canary":
        hear = transformers.ParakeetFeatureExtractor(feature_size=8)
        processor = transformers.CanaryProcessor(hear, tokenizer, chat_template=TEMPLATE)
    else:
        processor = transformers.CohereAsrProcessor(transformers.CohereAsrFeatureExtractor(feature_size=8, dither=0), tokenizer)
    processor.save_pretrained(tmp_path)
    text = tmp_path / "words.txt"
    text.write_text("".join(f"t{i}\n" for i in range(size)))
    path = tmp_path / "converted.safetensors"
    assert make_vectors.convert.main([str(tmp_path), str(path), "--no-check", f"--tgt-vocab={text}"]) == 0
    sound = numpy.random.default_rng(8).normal(0, 0.1, 12000).astype(numpy.float32)
    soundfile.write(tmp_path / "speech.wav", sound, 16000, subtype="FLOAT")
    capsys.readouterr()
    canary.main(str(tmp_path), str(path), str(tmp_path / "speech.wav"), "en")
    found = capsys.readouterr().out.split()
    if family == "canary":
        inputs = processor.apply_transcription_request(sound, source_language="en")
        prompt = [make_vectors.START, *inputs["decoder_input_ids"][0].tolist()]
    else:
        inputs = processor(sound, language="en", sampling_rate=16000)
        prompt = inputs["decoder_input_ids"][0].tolist()
    ids = network.generate(input_features=inputs["input_features"], attention_mask=inputs["attention_mask"],
                           decoder_input_ids=torch.tensor([prompt]), do_sample=False, num_beams=1, max_length=40,
                           suppress_tokens=[make_vectors.PAD])[0].tolist()[len(prompt):]
    wanted = [f"t{i}" for i in ids if i != make_vectors.END]
    assert len(wanted) > 5 and found[:len(wanted)] == wanted

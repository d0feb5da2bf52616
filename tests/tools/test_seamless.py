#!/usr/bin/env python3
"""Compares the text model of whole SeamlessM4T folders with transformers; test_config_fields.py draws configs of the text model alone."""

import contextlib
import io
import subprocess
import tempfile
import unittest
from pathlib import Path

import import_path  # noqa: F401

try:
    import families
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error:
    raise unittest.SkipTest(f"{error}: make test-torch has it") from None
from convert import main as convert

FORWARD = Path(__file__).resolve().parents[2] / "build" / "forward"
# The parts beside the text model, small.
SPEECH = dict(speech_encoder_layers=1, speech_encoder_attention_heads=3, speech_encoder_intermediate_size=8,
              feature_projection_input_dim=4, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2,
              adaptor_kernel_size=2, adaptor_stride=2, conv_depthwise_kernel_size=3)
UNITS = dict(t2u_vocab_size=20, t2u_encoder_layers=1, t2u_decoder_layers=1, t2u_encoder_ffn_dim=8, t2u_decoder_ffn_dim=8,
             t2u_encoder_attention_heads=3, t2u_decoder_attention_heads=3, upsample_initial_channel=32,
             upsample_rates=(2,), upsample_kernel_sizes=(4,), resblock_kernel_sizes=(3,), resblock_dilation_sizes=((1,),),
             unit_hifi_gan_vocab_size=20, unit_embed_dim=8, lang_embed_dim=4, spkr_embed_dim=4, vocoder_num_langs=2,
             vocoder_num_spkrs=2)


@unittest.skipUnless(FORWARD.exists(), "make build/forward first")
class Seamless(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def convert(self, folder, *more):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = convert.main([str(folder), str(self.folder / "m.safetensors"), *more])
        return status, said.getvalue()

    def test_whole_models(self):
        for family, stem in families.SEAMLESS.items():
            with self.subTest(family=family):
                text = families.make(family, 3, **SPEECH, **UNITS)
                whole = getattr(transformers, f"{stem}Model")(text.config).eval()
                whole.load_state_dict(text.state_dict(), strict=False)
                src, lengths, tgt = families.sentences(text)
                memory, logits = families.reference(text, src, tgt)
                save_file({"src": src.int(), "tgt": tgt.int(), "src_lengths": lengths.int()}, self.folder / "in")
                whole.save_pretrained(self.folder / family)
                status, said = self.convert(self.folder / family)
                self.assertEqual(status, 0, said)
                self.assertIn("that hear speech, or make units and sound: left out", said)
                self.assertIn("3 random sentences through transformers", said)
                subprocess.run([FORWARD, self.folder / "m.safetensors", self.folder / "in", self.folder / "out"], check=True)
                found = load_file(self.folder / "out")
                inside = torch.arange(src.shape[1]) < lengths[:, None]
                self.assertLess((found["memory"] - memory)[inside].abs().max(), 1e-4)
                self.assertLess((found["logits"] - logits).abs().max(), 1e-4 * max(1, logits.abs().max()))
                speech = getattr(transformers, f"{stem}ForSpeechToText")(text.config)
                speech.save_pretrained(self.folder / f"{family}-speech")
                status, said = self.convert(self.folder / f"{family}-speech", "--no-check")
                self.assertTrue(status and "no tensors of a text_encoder" in said, said)


if __name__ == "__main__":
    unittest.main()

"""Model: loads a model file, checks the arguments of each call, and hands out results."""

from __future__ import annotations

import inspect
import os
import warnings
from typing import TYPE_CHECKING, Any, AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Literal, Mapping, overload

from ._transformer import ffi, lib
from .arguments import (check_call, check_choice, check_count, check_flag, check_for_each_text, check_integer, check_languages,
                        check_list, check_path, check_rows, check_text, check_text_or_texts, check_texts, did_you_mean, wrong_type)
from .config import config_of, enum_names, find_model
from .decoding import decode_memories, stream_sentence, translate_sentences, translate_texts
from .errors import Error, LanguageError, raise_error, raise_file_error
from .extras import import_numpy
from .listening import listen
from .live import Live, Piece, begin_live, models_of
from .markup import Document, Documents, check_lang
from .options import (OF_ONE_TEXT, OF_PLAIN_TEXT, DecodeJob, DocumentOptions, Ids, LiveOptions, Options, decode_job, is_plain,
                      options_of_two, source_of, text_form, unknown_option, with_options)
from .results import Hypothesis, LiveText, LiveTranslation, Segment
from .sentences import cut
from .sessions import IdBatch, SessionPool, SharedTensor, requests_of
from .surroundings import Apart, Counts, Layer
from .transcribing import is_whisper, transcribe

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Unpack

MOST_THREADS = 1024


class Model:
    """A loaded model. Threads may share it. The end of a `with` block frees it, when no call uses it any more.

    path is a file, the bytes of a file, or a name such as "de-en" that `transformer-model get` knows: then the file is looked for
    in $TRANSFORMER_MODELS and in the user's folder of models. weights converts the matrices to "f32", "f16", "bf16" or "i8".
    map uses a packed file where it is on disk; nobody may change the file meanwhile. in_place leaves F32
    matrices where they are in memory: this takes less memory, but makes batches slower. exact computes the
    same bits as other machines, also where that is slower; model.arithmetic tells whether two machines agree.

    A Model pickles as its path and these options. So Spark, Ray, Dask and process pools can send it, and each process loads the
    file, which must be under the same path there. A Model of bytes has no path, so it does not pickle.
    """

    def __init__(self, path: str | os.PathLike[str] | bytes, *,
                 weights: Literal["f32", "f16", "bf16", "i8"] | None = None,
                 map: bool = False, in_place: bool = False, exact: bool = False) -> None:
        options, err = ffi.new("tfm_model_options *"), ffi.new("tfm_error *")
        self._options = {"weights": weights, "map": map, "in_place": in_place, "exact": exact}
        if weights is not None:
            options.weights = check_choice("weights", weights, {
                name: value for name, value in enum_names(ffi.typeof("tfm_weight_type")).items()
                if value})
        options.map, options.in_place = check_flag("map", map), check_flag("in_place", in_place)
        options.exact = check_flag("exact", exact)
        place = ffi.new("tfm_model **")
        self._data = ffi.from_buffer(path) if isinstance(path, bytes) else None
        if self._data is not None:
            if map:
                raise ValueError("map needs a path, not the bytes of a file")
            raise_error(lib.tfm_model_load(place, self._data, len(self._data), options, err), err)
            self._name, self._size = "<bytes>", len(self._data)
        else:
            if not isinstance(path, (str, os.PathLike)):
                wrong_type("path", path, "str, os.PathLike, or the bytes of a file")
            name = find_model(check_path("path", path))
            if lib.tfm_model_load_file(place, os.fsencode(name), options, err):
                raise_file_error(name, err)
            self._path = os.path.abspath(name)
            self._name, self._size = repr(name), os.path.getsize(name)
        model = ffi.gc(place[0], lib.tfm_model_free)
        self._config = config_of(lib.tfm_model_config(model))
        self._arithmetic = bytes(ffi.string(lib.tfm_arithmetic_string(model))).decode()
        self._defaults = ffi.new("tfm_decode_options *")
        self._defaults[0] = lib.tfm_model_decoding(model)[0]
        self._sessions = SessionPool(model)
        self._warned = False  # that the file does not say whether the model reads sentences

    def __repr__(self) -> str:
        """The file, its size, and what the config says of layers, width, vocabularies and languages."""
        c, languages = self._config, list(self._config["languages"])
        sizes = list(dict.fromkeys((c["src_vocab_size"], c["tgt_vocab_size"])))
        said = [f"{self._size / 1e6:.1f} MB", f"{c['n_encoder_layers']} + {c['n_decoder_layers']} layers",
                f"width {c['d_model']}", f"{c['n_heads']} heads",
                f"{'vocabularies' if len(sizes) > 1 else 'vocabulary'} of {' and '.join(map(str, sizes))} tokens"]
        if languages:
            more = ", ..." if len(languages) > 8 else ""
            said.append(f"{len(languages)} languages: {', '.join(languages[:8])}{more}")
        return f"Model({self._name}: {', '.join(said)}{', closed' if self._sessions.model is None else ''})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._data is not None:
            raise TypeError("a Model of bytes does not pickle: give Model the path of a file that every process can read")
        self._sessions.check_open()
        return _loaded, (self._path, self._options)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Frees the sessions and the weights, as soon as no call uses them."""
        self._sessions.close()

    @property
    def config(self) -> Mapping[str, Any]:
        """The model's config with its defaults, under the names of tfm_config. An id of -1 means none, and a language None unknown."""
        return {name: dict(value) if isinstance(value, dict) else value for name, value in self._config.items()}

    @property
    def arithmetic(self) -> str:
        """What computes the model: two machines where this is "fused" compute the same bits."""
        return self._arithmetic

    def _check_reads_text(self) -> None:
        if not self._config["src_vocab_size"]:
            is_speech = is_whisper(self._sessions, self._path if self._data is None else self._data)
            raise Error(lib.TFM_E_NO_TEXT, f"{self._name}: " + (
                "a speech model: use transcribe" if is_speech else "the model reads vectors, not text"))

    def _languages(self, source_language: Any, target_language: Any) -> tuple[bytes | None, bytes | None]:
        """Checks the codes of two languages, and returns them as the library takes them."""
        pair, known = check_languages(source_language, target_language), self._config["languages"]
        for name, code in (("source_language", source_language), ("target_language", target_language)):
            if code is not None and code not in known:
                some = ", ".join(list(known)[:20]) + (", ..." if len(known) > 20 else "")
                raise LanguageError(lib.TFM_E_TOKEN, f"{name} is {code[:40]!r}: the model has " + (
                    f"no such language{did_you_mean(code, known)} It has {some}" if known else "no languages to choose from"))
        return pair

    # ---- speech

    def transcribe(self, sound: str | os.PathLike[str] | bytes | np.ndarray, *, rate: int | None = None,
                   language: str | None = None, task: Literal["transcribe", "translate"] = "transcribe",
                   timestamps: bool = True, words: bool = False, prompt: str | None = None,
                   own_words: Iterable[str] | None = None, previous: bool | None = None, beam: int | None = None, best_of: int | None = None,
                   temperature: float | Iterable[float] | None = None, compression: float | None = None,
                   log_prob: float | None = None, no_speech: float | None = None, silence: float | None = None,
                   vad: float | None = None, vad_silence: float | None = None, vad_pad: float | None = None,
                   fast: bool = False, threads: int = 1, progress: Callable[[float, float], Any] | None = None
                   ) -> Iterator[Segment]:
        """Yields what is spoken in a sound as Segments, by a Whisper or Moonshine model of tools/convert.py. Texts,
        times and words are those of `transcribe`. Moonshine has no language, task, prompt and words. Each window of up
        to 30 seconds is heard when its first segment is asked for, so Ctrl-C keeps all segments before.

        sound is the path of a WAV file, its bytes, or samples from -1 to 1: a float32 array [samples] of rate
        (16000) a second. Samples that are not numbers count as silence.

        language is a code; with None the model detects it. task "translate" translates into English. words finds
        the time of each word. timestamps=False lets the model write no times: then each window is one segment.
        prompt is text as if heard before the sound: names, style. own_words are words and names that the model is to
        prefer to others that sound like them. previous=False hears each window without the text of the window before. progress is called after each window with the seconds heard and all seconds.

        If an option is None, the default of `transcribe` applies; transcribe --help explains them. beam (5) is used
        at temperature 0, best_of (5) samples at others. temperature (0, 0.2, ... 1) is one number or several: the
        next one is tried if the text is more repetitive than compression (2.4; 0: no limit) or its log-probability
        of a token is on average below log_prob (-1; 0: no limit). no_speech (0.6; 1: never) skips such a window if
        the probability that nobody speaks is larger. Of a model with a voice detector, only parts are heard where its
        probability of speech reaches vad (0.5; 0: all is heard). A pause shorter than vad_silence (2000 ms) does not
        end a part, and vad_pad (400 ms) is added on both sides. Of other models, stretches of 3 seconds below
        silence (-60 dB; 0: none) are not heard. fast makes the encoder's attention BF16 and the KV cache F16, which it always is for int8 model files.
        """
        file = self._path if self._data is None else self._data
        return transcribe(self._sessions, file, sound, rate, language, task, timestamps, words, threads, fast, progress, {
            "prompt": prompt, "own_words": own_words, "previous": previous, "beam": beam, "best_of": best_of, "temperature": temperature,
            "compression": compression, "log_prob": log_prob, "no_speech": no_speech, "silence": silence,
            "vad": vad, "vad_silence": vad_silence, "vad_pad": vad_pad})

    def listen(self, pieces: Iterable[bytes | bytearray | memoryview | np.ndarray], *, language: str | None = None,
               task: Literal["transcribe", "translate"] = "transcribe", prompt: str | None = None,
               own_words: Iterable[str] | None = None, compression: float | None = None, log_prob: float | None = None, silence: float | None = None,
               vad: float | None = None, fast: bool = False, threads: int = 1) -> Iterator[LiveText]:
        """Yields text while somebody speaks, as LiveText: words as soon as they are stable, and words that may still change.
        The texts are those of `transcribe --live`, however the sound is cut into pieces.

        pieces yields the sound, 16,000 samples a second, in pieces of any length: bytes of 16-bit samples (little-endian),
        or float32 arrays [samples] from -1 to 1. Samples that are not numbers count as silence. A piece may end within a
        sample. If the sound does, there is a warning, and its last byte is not heard. An empty piece says that no sound
        comes now, so what has come is heard at once. If pieces raises an exception, it reaches the loop, and the model works on.

        If the source makes the loop wait, as a microphone does, and the program is too slow for it, the pieces that wait are
        heard in one run. language, task, prompt, own_words, compression, log_prob, silence, vad, fast and threads are those of transcribe.
        """
        file = self._path if self._data is None else self._data
        return listen(self._sessions, file, pieces, language, task, threads, fast, {
            "prompt": prompt, "own_words": own_words, "compression": compression, "log_prob": log_prob, "silence": silence,
            "vad": vad})

    # ---- translating

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str is a Sequence[str] too
        self, text: str, *, n_best: None = None, **options: Unpack[Options]) -> str: ...
    @overload
    def translate(  # type: ignore[overload-overlap]
        self, text: str, *, n_best: int, **options: Unpack[Options]) -> list[Hypothesis]: ...
    @overload
    def translate(self, text: Iterable[str], *, n_best: None = None, **options: Unpack[Options]
                  ) -> list[str]: ...
    @overload
    def translate(self, text: Iterable[str], *, n_best: int, **options: Unpack[Options]
                  ) -> list[list[Hypothesis]]: ...

    @with_options()
    def translate(self, text: str | Iterable[str], *, n_best: int | None = None, **options: Any) -> Any:
        """Translates a text, or each text of a list or another iterable. The translation of a blank text is
        empty.

        If the model file says that the model reads sentences (model.config["sentences"] is "split"), the translation
        of a text is what its sentences alone give, with the whitespace between them. sentences="split" or "whole"
        overrides the file. If the file does not say it ("unknown"), each text is translated as one, and a text of
        several sentences causes a warning. n_best, alternatives, prefix and prompt, with a warning, and aligned and
        tokens read each text as one.

        If the file says "split", what people write around sentences is kept, as `translate` keeps it: labels, reference marks,
        brackets, quotation marks, emoji. Sentences in capitals are translated as others, and text without letters, sentences
        of characters that the model does not know, and sentences that are already in the language of the translation
        stay; with all_languages the last ones are translated. plain=True gives each sentence to the model as it is, and so do
        sentences="whole", prefix, draft, prompt, alternatives and tokens. lang (by default target_language) is the language whose
        quotation marks are written. counts is a Counts, which gets how many sentences
        stayed, were divided, or have unknown tokens.

        n_best returns a list of that many Hypothesis for each text, instead of a string: at most beam, or
        with sample that many independent samples. alternatives also returns lists of Hypothesis: the
        most probable continuations of the prefix.

        threads (default 1) is the number of workers; results are the same for any number. At most batch
        (64) texts are translated together, fewer if they are long: a batch takes at most 16 MB, and 8 bytes more for each
        weight of the model beyond 8 million. source_language and target_language are codes of the model
        file. prefix is the beginning of each translation. draft is a guess of each translation, such as the
        translation before an edit: a greedy search then takes less time, and results are the same for any draft.
        It helps while fewer than 5 texts are translated together. prompt is the ids that the decoder reads before each
        translation, instead of the model's start token; results do not contain it. For a list of texts, prefix, draft
        and prompt are lists too. sample draws tokens instead of searching; text
        i of a list, with all its sentences, has the seed seed + i + 1, as line i + 1 of the command line. max_source (4096)
        is the largest number of tokens of a text. With tokens, texts are tokens with spaces between them.
        progress is a function that is called after each batch with two numbers: how many texts are done,
        and how many there are. With several threads, any of them calls it, one at a time.

        edit_logits is a function that is called before each choice of a token, with the number of the text in the list,
        the ids of the translation so far, and the logits: a float32 array [V] that it edits in place. -inf forbids a
        token, and the others share its probability. It sees the model's logits before all other options. Equal
        arguments must give equal logits, or results depend on the batches. With several threads, any of them calls
        it, also at once. The array has other numbers in the next call: copy what you keep. An exception in it ends
        the call and is raised. It needs numpy.

        terms is a dict of source and target, a file's path, or Terms: the translation uses these targets. Scores are those of
        the model's own words. With aligned, translations are Aligned, as Document.join needs them; given as a byte for each
        text, as Document.needs_tokens, only those of the texts with a 1 are.

        With second, another Model translates what this one makes: the bytes of `translate` with two models.
        n_best, alternatives, prefix, draft, prompt, edit_logits and target_language are for the second, source_language
        for the first. A
        model of several languages reads or writes via_language between them. progress counts each text twice.

        The other options are fields of tfm_decode_options of the header, under their names: beam,
        length_penalty, max_length, no_repeat_ngram ... (transformer_h.Options has all). If an option is
        None, the model file's default applies (tfm_model_decoding), or with greedy the header's. An
        option without another one that it needs is refused.

        Raises Error for the first text that fails; its index is the number of the text. With
        on_error="return", the list has the Error instead of that translation. Wrong arguments raise
        TypeError or ValueError.
        """
        one, texts = check_text_or_texts("text", text)
        return self._translate(one, texts, n_best, options)

    def _translate(self, one: bool, texts: list[bytes], n_best: Any, options: dict[str, Any], of: list[int] | None = None,
                   language: str | None = None) -> Any:
        """Does what translate does. of: the texts are sentences of documents, which have these numbers. language: see Layer."""
        options = {name: value for name, value in options.items() if value is not None}
        on_error = options.pop("on_error", "raise")
        check_choice("on_error", on_error, {"raise": 0, "return": 0})
        counts = options.pop("counts", None)
        if counts is not None and not isinstance(counts, Counts):
            wrong_type("counts", counts, "Counts")
        layer = self._layer(n_best, options, language)
        apart = self._apart(texts, n_best, options, layer is not None) if of is None else options.pop("sentences", None) and None
        numbers = [i for i, n in enumerate(apart.counts) for _ in range(n)] if apart else of or range(len(texts))
        if layer is not None:
            layer = layer._replace(notes=bytearray(len(numbers)))
        if apart is None:
            results = self._translated(one, texts, n_best, options, layer=layer)
        else:
            results = self._by_sentences(one, texts, apart, numbers, n_best, options, layer)
        if counts is not None and layer is not None:
            counts.note(layer.notes, numbers)
            counts.note_divided(apart.divided if apart else ())
        if on_error == "raise":
            fault = next((each for each in results if isinstance(each, Error)), None)
            if fault:
                raise Error(fault.status, fault.message) if one else fault
        return results[0] if one else results

    def _layer(self, n_best: Any, options: dict[str, Any], language: Any) -> Layer | None:
        """Returns what is done with each sentence, or None if the model gets it as it is."""
        plain, every = (check_flag(name, options.pop(name, False)) for name in ("plain", "all_languages"))
        lang = options.pop("lang", None)
        check_lang(lang)
        language = next((each for each in (language, lang, options.get("target_language")) if each is not None),
                        self._config["target_language"])
        if plain or self._config["sentences"] != "split" or options.get("sentences") == "whole" or any(
                options.get(name) is not None and options[name] is not False for name in OF_PLAIN_TEXT):
            return None
        return Layer(language if isinstance(language, str) else None, not every and n_best in (None, 1) and not options.get("sample"),
                     bytearray(), options.get("aligned", False) is not False)

    def _apart(self, texts: list[bytes], n_best: Any, options: dict[str, Any], has_layer: bool) -> Apart | None:
        """Returns the texts with their sentences, or None if each text is translated as one."""
        word = options.pop("sentences", None)
        if word is not None:
            check_choice("sentences", word, dict.fromkeys(("split", "whole")))
        given = {**options, "n_best": n_best}
        one_text = next((name for name in OF_ONE_TEXT if given.get(name) is not None and given[name] is not False), None)
        if word == "split" and one_text:
            raise ValueError(f"sentences='split' and {one_text} do not go together")
        rule = word or self._config["sentences"]
        if rule == "whole" or one_text in ("aligned", "tokens") or (rule == "unknown" and self._warned):
            return None
        labels = self._config["src_language"] == "target"
        how = lib.TH_LINES if has_layer and not one_text else lib.TH_LINES | lib.TH_PLAIN
        apart = Apart(texts, how, labels=labels)
        number = next((i for i, n in enumerate(apart.counts) if n > 1), None)
        if number is not None and rule == "unknown":
            self._warned = True
            warnings.warn(f"text {number} has several sentences, and {self._name} does not say whether it reads sentences or "
                          "whole texts. Texts are translated whole: sentences='split' or 'whole' chooses", stacklevel=4)
        elif number is not None and one_text:
            warnings.warn(f"text {number} has several sentences, which {one_text} reads as one text", stacklevel=4)
        if one_text and has_layer:
            apart = Apart(texts, lib.TH_LINES | lib.TH_WHOLE)
        elif one_text or rule == "unknown":
            return None
        return apart if any(apart.kinds) else None

    def _by_sentences(self, one: bool, texts: list[bytes], apart: Apart, numbers: list[int], n_best: Any, options: dict[str, Any],
                      layer: Layer | None) -> list[Any]:
        """Translates the sentences of all texts together, and joins those of each text."""
        if "draft" in options:  # a draft of as many sentences is split, another one left out: it changes no result
            drafts = check_for_each_text("draft", options["draft"], one, len(texts))
            options["draft"] = []
            for draft, n in zip(drafts, apart.counts):
                split = cut(draft).sentences if n > 1 else [draft]
                options["draft"] += [each.decode("utf-8", "surrogatepass")
                                     for each in (split if len(split) == n else [b""] * n)]
        found = iter(self._translated(False, apart.sources, n_best, options, numbers, layer))
        results: list[Any] = []
        for i, (kind, n) in enumerate(zip(apart.kinds, apart.counts)):
            made = [next(found) for _ in range(n)]
            bad = next((k for k, translation in enumerate(made) if isinstance(translation, Error)), None)
            if bad is not None:
                where = f"sentence {bad + 1}: " if n > 1 else ""
                results.append(Error(made[bad].status, where + made[bad].message, i))
            elif not kind:
                results.append(made[0])
            elif n_best is None:
                results.append(apart.joined(i, [each.encode("utf-8", "surrogatepass") for each in made]))
            elif made:
                results.append([each._replace(text=apart.joined(i, [each.text.encode("utf-8", "surrogatepass")])) for each in made[0]])
            else:
                results.append([Hypothesis(apart.joined(i, []), 0.0, 0.0, 0, "ended")])
        return results

    def _translated(self, one: bool, texts: list[bytes], n_best: Any, options: dict[str, Any],
                    numbers: list[int] | None = None, layer: Layer | None = None) -> list[Any]:
        """Translates texts, each as one. The result of a text that fails is its Error. numbers are those of the texts that
        sentences are of."""
        if "second" in options or "via_language" in options:
            return self._translated_twice(one, texts, n_best, options, numbers, layer)
        options = dict(options)
        threads = check_integer("threads", options.pop("threads", 1), 1, MOST_THREADS)
        progress = check_call("progress", options.pop("progress", None), "a function of two numbers")
        prefixes, drafts = (None if value is None else check_for_each_text(name, value, one, len(texts))
                            for name, value in (("prefix", options.pop("prefix", None)), ("draft", options.pop("draft", None))))
        prompt = options.pop("prompt", None)
        prompts = None if prompt is None else check_count("prompt", check_rows("prompt", [prompt] if one else prompt, one), len(texts))
        job = self._job("translate", n_best, options, prefixes, drafts, prompts)._replace(numbers=numbers)
        if isinstance(job.aligned, bytes) and len(job.aligned) != len(texts):
            raise ValueError(f"aligned has {len(job.aligned)} bytes for {len(texts)} texts")
        if layer is not None:
            return translate_sentences(self._sessions, texts, job, threads, progress, layer)
        return translate_texts(self._sessions, texts, job, threads, progress)

    def _job(self, method: str, n_best: Any, options: dict[str, Any], prefixes: list[bytes] | None = None,
             drafts: list[bytes] | None = None, prompts: list[list[int]] | None = None) -> DecodeJob:
        self._check_reads_text()
        pair = self._languages(options.pop("source_language", None), options.pop("target_language", None))
        return decode_job(method, self._defaults, self._config["tgt_vocab_size"], pair, n_best, options, prefixes, drafts, prompts)

    @overload
    def translate_document(  # type: ignore[overload-overlap]
        self, text: str, format: str = "text", *, lang: str | None = None, left: list[str] | None = None, protect: bool = True,
        on_error: Literal["raise", "copy"] | Callable[[Error], object] = "raise", **options: Unpack[DocumentOptions]) -> str: ...
    @overload
    def translate_document(
        self, text: Iterable[str], format: str = "text", *, lang: str | None = None, left: list[str] | None = None, protect: bool = True,
        on_error: Literal["raise", "copy"] | Callable[[Error], object] = "raise",
        **options: Unpack[DocumentOptions]) -> list[str]: ...

    @with_options("aligned", "on_error", "prefix", "draft", "prompt", "alternatives", "min_alternative_prob", "prefix_bias", "lang",
                  "tokens", "keep_end")
    def translate_document(self, text: str | Iterable[str], format: str = "text", *, lang: str | None = None, left: list[str] | None = None,
                           protect: bool = True, on_error: Literal["raise", "copy"] | Callable[[Error], object] = "raise", **options: Any) -> Any:
        """Translates a document, or each one of a list, sentence by sentence, and returns it with its lines and tags.
        format is "text" (paragraphs, one on a line), "html" (also XML), "markdown", "srt" (also WebVTT) or "wrapped"
        (plain text in wrapped lines). The result has the bytes of `translate --document`, `--html` and so on. A
        paragraph of another kind of document can be given as HTML with a tag around each part: the tags are in the
        result, around the translated parts. lang, by default target_language, is what the lang attribute of HTML's
        html element becomes. Options are those of translate that give one translation of each
        sentence; progress counts sentences. sentences="whole" translates each line of a text, and each paragraph of
        another document, as one, as is done without the option if the model file says that the model reads whole texts.
        If the file says that it reads sentences, what is around and inside of sentences is kept, as by translate, and addresses,
        numbers with units and code in documents with tags are copied. plain=True turns both off, and protect=False the second.
        Text that a document says is in another language than source_language, or the model file's (lang, <lang> of WebVTT, classes of
        SAMI), stays as it is, unless the root element says the same language, or all_languages is True.

        Raises Error for the first sentence that fails; its message has the number of the line, or in documents
        with tags of the sentence. With on_error="copy", such a sentence stays as it is, also with a function, which is
        called with each Error and may raise it. If left is a list, a line about each kind of text that stays as it is
        is added to it. Raises ValueError for subtitles without a line with times.
        """
        allowed = inspect.signature(Model.translate_document).parameters
        for name in options:
            if name not in allowed or name == "text":
                raise unknown_option("translate_document", name, [one for one in allowed if one not in ("self", "text")])
        return self._document(text, format, source_of(options, self._config), lang, left, protect, on_error, options)

    def _document(self, text: Any, format: str, source: str | None, lang: str | None, left: list[str] | None, protect: bool, on_error: Any,
                  options: dict[str, Any]) -> Any:
        """Translates documents. source is the language of their text, also where another model has already translated it: what says
        that it is in another language stays as it is."""
        plain = is_plain(options, self._config)
        if not callable(on_error):
            check_choice("on_error", on_error, {"raise": 0, "copy": 0})
        check_choice("format", format, dict.fromkeys(Document.FORMATS))
        sentences = options.pop("sentences", None)
        if sentences is not None:
            check_choice("sentences", sentences, dict.fromkeys(("split", "whole")))
        check_lang(lang)
        if lang is None:
            last = options.get("second")  # a wrong one gets its message below
            lang = options.get("target_language") or (last if isinstance(last, Model) else self)._config["target_language"]
        if format != "text" and (options.get("second") is not None or options.get("via_language") is not None):
            first, last = options_of_two(options, Model, self._config)  # each model places the tags
            first, last = ({**each, "sentences": sentences} for each in (first, last))
            between = self._document(text, format, source, "", left, protect, on_error, first)
            more: list[str] = []
            made = options["second"]._document(between, format, source, lang, more, protect, on_error, last)
            if left is not None:
                left += [line for line in more if line not in left]
            return made
        one, data = check_text_or_texts("text", text)
        word = sentences or ("whole" if self._config["sentences"] == "whole" else "split")
        every = check_flag("all_languages", options.get("all_languages") or False)
        documents = Documents(data, format, word, plain, protect, every, source)
        found = iter(self._translate(False, check_texts("sentences", documents.sentences), None, {
            **options, "aligned": documents.needs_tokens if format != "text" else None, "on_error": "return", "plain": plain},
            documents.numbers, lang))
        if isinstance(options.get("counts"), Counts):
            options["counts"].note_divided(documents.divided)
        made = []
        for index, document in enumerate(documents):
            results = [next(found) for _ in document.sentences]
            for i, result in enumerate(results):
                if on_error != "copy" and isinstance(result, Error):
                    error = Error(result.status, f"{document.where(i)}: {result.message}", None if one else index)
                    if not callable(on_error):
                        raise error
                    on_error(error)
            made.append(document.join(results, lang))
            if left is not None:
                left += document.left
        return made[0] if one else made

    def _translated_twice(self, one: bool, texts: list[bytes], n_best: Any, options: dict[str, Any],
                          numbers: list[int] | None, layer: Layer | None) -> list[Any]:
        first, last = ({name: value for name, value in each.items() if value is not None} for each in options_of_two(options, Model, self._config))
        if one:  # both models get lists
            for name in ("prefix", "draft"):
                if name in last:
                    last[name] = [text.decode("utf-8", "surrogatepass")
                                  for text in check_for_each_text(name, last[name], one, 1)]
            if "prompt" in last:
                last["prompt"] = check_rows("prompt", [last["prompt"]], one)
        via = layer._replace(language=options.get("via_language")) if layer is not None else None
        between = self._translated(False, texts, None, first, numbers, via)
        second = options["second"]
        found = second._translated(False, [b"" if isinstance(each, Error) else each.encode("utf-8", "surrogatepass")
                                           for each in between], n_best, last, numbers, layer)
        return [Error(each.status, f"{model._name}: {each.message}", each.index) if isinstance(each, Error) else each
                for model, each in ((self, a) if isinstance(a, Error) else (second, b) for a, b in zip(between, found))]

    @with_options("beam", "alternatives", "min_alternative_prob", "batch", "threads", "prefix", "prefix_bias", "draft",
                  "prompt", "sample", "seed", "temperature", "top_k", "top_p", "patience", "stop", "on_error", "greedy",
                  "progress", "terms", "aligned", "second", "via_language", "all_languages", "counts")
    def stream(self, text: str, **options: Any) -> Iterator[str]:
        """Yields the greedy translation of a text in pieces while it grows. The joined pieces are the
        result of translate with greedy and all_languages. A sentence in brackets or capitals comes as one piece. Options are
        those of translate for one greedy translation."""
        for name in ("beam", "n_best", "alternatives", "batch", "threads", "prefix", "draft", "prompt", "sample", "on_error",
                     "greedy", "progress", "terms", "aligned", "second", "via_language", "all_languages", "counts"):
            if name in options:
                raise TypeError(f"{name} is no option of stream, which translates one text greedily")
        data, options = check_text("text", text), {**{k: v for k, v in options.items() if v is not None}, "greedy": True}
        layer = self._layer(None, options, None)
        apart = self._apart([data], None, options, layer is not None)
        sources = apart.sources if apart else [data]
        return self._stream_sentences(apart, sources, [self._job("stream", None, dict(options)) for _ in sources or [b""]], layer)

    @overload
    def live(self, pieces: None = None, **options: Unpack[LiveOptions]) -> Live: ...

    @overload
    def live(self, pieces: Iterable[Piece], **options: Unpack[LiveOptions]) -> Iterator[LiveTranslation]: ...

    @overload
    def live(self, pieces: AsyncIterable[Piece], **options: Unpack[LiveOptions]) -> AsyncIterator[LiveTranslation]: ...

    def live(self, pieces: Any = None, *, source_language: str | None = None, target_language: str | None = None,
             second: Model | None = None, via_language: str | None = None, sure: float = 0.92, threads: int = 1) -> Any:
        """Yields the translation of a text while it comes, as LiveTranslation: stable text, which never changes but only grows,
        and a guess behind it. The translations are those of `translate --live --json`, however the text is cut into pieces.

        pieces yields text, as str or as bytes of UTF-8: then a word is read when white space follows it, and the end of a line
        ends a text. Or it yields what Model.listen yields: then the end of a sentence ends a text, and so does a pause. If pieces
        is asynchronous, so is the result. Without pieces, the result is a Live, whose method feed takes them.

        sure is the probability from which on a word is stable: with a higher one, words come later, and the text is better. With
        second, another Model, the stable text of this model is the source of the second one. The search is greedy, and sentences go
        to the model as they are. The other options are those of translate.
        """
        return begin_live(pieces, models_of(self, Model, second, source_language, target_language, via_language), sure, threads)

    def _stream_sentences(self, apart: Apart | None, sources: list[bytes], jobs: list[DecodeJob], layer: Layer | None) -> Iterator[str]:
        made: list[bytes] = []
        shown = ""
        for source, job in zip(sources, jobs):
            made.append(b"")
            for piece in stream_sentence(self._sessions, source, job, layer):
                made[-1] += piece.encode("utf-8", "surrogatepass")
                if apart is None:
                    yield piece
                    continue
                so_far = apart.joined(0, made, is_partial=True)
                if so_far.startswith(shown) and so_far != shown:
                    yield so_far[len(shown):]
                    shown = so_far
        if apart is not None:
            yield from filter(None, [apart.joined(0, made)[len(shown):]])

    # ---- scores, ids, arrays

    def score(self, source: str | Iterable[str], target: str | Iterable[str], *,
              per_token: bool = False, batch: int = 64, source_language: str | None = None,
              target_language: str | None = None, tokens: bool = False) -> Any:
        """Returns the log-probability of a given translation, or a list of them for lists. With per_token
        it returns a list for each translation: the log-probability of each token, the end token's last."""
        one, sources = check_text_or_texts("source", source)
        one_target, targets = check_text_or_texts("target", target)
        if one != one_target:
            raise TypeError("source and target are not both str, or both lists of str")
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources for {len(targets)} targets")
        results: list[Any] = [None] * len(sources)
        self._check_reads_text()
        form, pair = text_form(tokens), self._languages(source_language, target_language)
        per_token, batch = check_flag("per_token", per_token), check_integer("batch", batch, 1)
        most = 2 ** 20
        data = sources, targets
        order = sorted(range(len(sources)), key=lambda i: -len(data[0][i]))
        worker = self._sessions.take()
        for at in range(0, len(order), batch):
            rows = order[at:at + batch]
            ids = [worker.ids([side[i] for i in rows], form, pair, most, bool(k), rows)
                   for k, side in enumerate(data)]
            src, tgt = IdBatch("source", ids[0]), IdBatch("target", ids[1])
            session = worker.fit(src.rows, src.width, tgt.width + 1, 1, pair)
            width = max(tgt.lengths) + 1
            out = ffi.new("double[]", src.rows * width)
            raise_error(lib.tfm_session_score(session, requests_of(src), src.rows, tgt.lists, 0, out, worker.err), worker.err)
            for k, i in enumerate(rows):
                each = list(out[k * width:k * width + len(ids[1][k]) + 1])
                results[i] = each if per_token else sum(each)
        self._sessions.give(worker)
        return results[0] if one else results

    def tokenize(self, text: str, *, target: bool = False, source_language: str | None = None,
                 target_language: str | None = None, tokens: bool = False) -> list[int]:
        """Returns the ids that translate gives the model for a text; with target, the ids of a translation
        without start and end token."""
        data, pair, form = check_text("text", text), self._languages(source_language, target_language), text_form(tokens)
        if not check_flag("target", target):
            self._check_reads_text()
        worker = self._sessions.take()
        try:
            return worker.ids([data], form, pair, 2 ** 20, target, [None])[0]
        finally:
            self._sessions.give(worker)

    def encode(self, source: str | Iterable[str] | Ids, *, source_language: str | None = None,
               target_language: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns the encoder's output, f32 [B, S, D], and the lengths, int32 [B]. Positions after a length
        have undefined values. source is texts, or rows of ids. The array shares the library's memory."""
        np = import_numpy("encode")
        rows: Any = source
        if isinstance(source, str) or len(rows := check_list("source", source, "texts, or rows of ids")) and any(
                isinstance(row, str) for row in rows):
            rows = [self.tokenize(check_text(f"source[{i}]", one).decode("utf-8", "surrogatepass"),
                                  source_language=source_language, target_language=target_language)
                    for i, one in enumerate([source] if isinstance(source, str) else rows)]
        elif source_language is not None or target_language is not None:
            raise ValueError("source_language and target_language need texts, not ids")
        elif isinstance(source, np.ndarray):
            rows = source  # else the list: source may be an iterator
        worker, src = self._sessions.own(), IdBatch("source", rows)
        session = worker.make(src.rows, src.width, 1, 1)
        raise_error(lib.tfm_session_encode(session, requests_of(src), src.rows, worker.err), worker.err)
        array = np.asarray(SharedTensor(lib.tfm_session_encoder_output(session), (session, worker, src)))
        return array, np.frombuffer(ffi.buffer(src.lengths), np.int32)

    @with_options("source_language", "sentences", "plain", "all_languages", "counts", "lang", "max_source", "threads", "progress", "edit_logits", "terms", "second",
                  "via_language", "prefix", "prefix_bias", "draft", "aligned", "on_error", "alternatives", "min_alternative_prob",
                  "lexical_shortlist", "no_source_ngram")
    def decode(self, memory: np.ndarray | Iterable[np.ndarray], *, n_best: int | None = None, **options: Any) -> Any:
        """Returns the text that the decoder gives for a memory: an array of floats [S, d_memory], which an encoder has
        made, for instance encode, or PyTorch for a model file without an encoder (TrOCR, Canary). A list of arrays, or one
        array [B, S, d_memory], gives a list of texts. model.config["d_memory"] is the width.

        prompt is the ids that the decoder reads first, instead of the model's start token; for several memories a list of
        rows. n_best and the other options are those of translate. Results do not depend on batch (64), which is how many
        memories are decoded together.
        """
        np = import_numpy("decode")
        allowed = inspect.signature(Model.decode).parameters
        for name in options:
            if name not in allowed:
                raise unknown_option("decode", name, [one for one in allowed if one not in ("self", "memory")])
        one = isinstance(memory, np.ndarray) and memory.ndim == 2
        rows: list[np.ndarray] = []
        width = self._config["d_memory"]
        for i, each in enumerate([memory] if one else check_list("memory", memory, "an array [S, d_memory], or a list of them")):
            name = "memory" if one else f"memory[{i}]"
            if not hasattr(each, "shape") or not hasattr(each, "dtype"):
                wrong_type(name, each, f"an array of floats [S, {width}]")
            array = np.asarray(each)
            if array.ndim != 2 or array.dtype.kind != "f" or array.shape[1] != width or not len(array):
                raise ValueError(f"{name} is {array.dtype} {list(array.shape)}, expected floats [S, {width}]")
            rows.append(np.array(array, np.float32, order="C"))
        prompt = options.pop("prompt", None)
        prompts = None if prompt is None else check_count("prompt", check_rows("prompt", [prompt] if one else prompt, one), len(rows))
        pair = self._languages(None, options.pop("target_language", None))
        job = decode_job("decode", self._defaults, self._config["tgt_vocab_size"], pair, n_best, options, None, None, prompts)
        found = decode_memories(self._sessions, rows, job)
        results = found if job.many else [each[0].text if each else "" for each in found]
        return results[0] if one else results

    def forward(self, source: Ids, target: Ids, *, causal: bool = True,
                out: np.ndarray | None = None) -> np.ndarray:
        """Returns the logits of a teacher-forced pass, f32 [B, T, V]: what torch.nn.Transformer computes with
        embeddings and generator. source [B, S] and target [B, T] are rows of ids; rows may have different
        lengths. out is a writable float32 array in C order that receives the logits instead of a new one."""
        np = import_numpy("forward")
        worker, src, tgt = self._sessions.own(), IdBatch("source", source), IdBatch("target", target)
        if src.rows != tgt.rows:
            raise ValueError(f"source has {src.rows} rows, target {tgt.rows}: give as many of both")
        causal = check_flag("causal", causal)
        shape = (tgt.rows, tgt.width, self._config["tgt_vocab_size"])
        if out is not None and not isinstance(out, np.ndarray):
            wrong_type("out", out, "numpy.ndarray")
        try:
            out = np.empty(shape, np.float32) if out is None else out
        except (MemoryError, ValueError):  # numpy says the one or the other
            raise Error(lib.TFM_E_MEMORY, f"no memory for logits {list(shape)}") from None
        if out.shape != shape or out.dtype != np.float32:
            raise ValueError(f"out is {out.dtype} {list(out.shape)}, expected float32 {list(shape)}")
        if not (out.flags.c_contiguous and out.flags.aligned and out.flags.writeable):
            raise ValueError("out is " + (
                "read-only" if not out.flags.writeable else "not in C order" if not out.flags.c_contiguous
                else "not aligned") + ", expected a writable array in C order")
        session = worker.make(src.rows, src.width, tgt.width, 1)
        options = ffi.new("tfm_forward_options *", {"not_causal": int(not causal)})
        memory = ffi.from_buffer("float[]", out, require_writable=True)
        logits = ffi.new("tfm_tensor *", lib.tfm_tensor_3d(memory, lib.TFM_DTYPE_F32, *shape))
        raise_error(lib.tfm_session_forward(session, requests_of(src), src.rows, tgt.lists, options, logits, worker.err),
                    worker.err)
        return out


def _loaded(path: str, options: dict[str, Any]) -> Model:
    """Returns the Model that was pickled."""
    return Model(path, **options)

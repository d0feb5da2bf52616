"""Model.transcribe: checks its arguments, and hands out what examples/transcribe/transcriber.h hears."""

from __future__ import annotations

import os
import struct
import sys
from typing import Any, Callable, Iterator

from ._transformer import ffi, lib
from .arguments import (check_call, check_choice, check_flag, check_integer, check_list, check_no_nul, check_number, check_path,
                        check_text, wrong_type)
from .errors import Error, error_of, raise_error, raise_file_error
from .results import Segment, Word
from .sessions import SessionPool

SOUND = "a path, the bytes of a WAV file, or a numpy.ndarray of float32"
LEAST_RATE, MOST_RATE = 1000, 384000
# options that are numbers: where they are in transcriber_options, and their range
_NUMBERS = {"compression": (0, 1e9), "log_prob": (-1e9, 0), "no_speech": (0, 1), "silence": (-120, 0)}
# options of the voice detector: their fields in voice_options, and their range
_VOICE = {"vad": ("threshold", 0, 1), "vad_silence": ("silence", 0, 1e6), "vad_pad": ("pad", 0, 1e6)}


def _keep(kind: Any, error: Any, traceback: Any) -> None:
    ffi.from_handle(traceback.tb_frame.f_locals["handle"]).append(error)


@ffi.def_extern(name="th_stopped", error=1, onerror=_keep)  # type: ignore[untyped-decorator]
def _stopped(handle: Any) -> int:
    """C calls it between steps. Python then looks at signals, so Ctrl-C raises KeyboardInterrupt in here."""
    return 0


def _wav(array: Any, rate: int) -> bytes:
    """The samples of an array as a WAV file."""
    import numpy as np
    if array.dtype != np.float32:
        scale = f"; sound.astype(numpy.float32) / {2 ** 15} makes it of int16" if array.dtype == np.int16 else ""
        raise TypeError(f"sound is an array of {array.dtype}, expected float32 from -1 to 1{scale}")
    if array.ndim != 1:
        raise ValueError(f"sound is an array of shape {list(array.shape)}, expected one channel: [samples]; "
                         "the mean of the channels is one")
    data: bytes = array.astype("<f4").tobytes()
    size = min(len(data), 2 ** 32 - 100)  # of a sound that is longer, the reader finds the end
    return b"RIFF" + struct.pack("<I4s4sIHHIIHH4sI", size + 36, b"WAVE", b"fmt ", 16, 3, 1, rate, 4 * rate, 4, 32, b"data",
                                 size) + data


def transcribe(sessions: SessionPool, file: Any, sound: Any, rate: int | None, language: str | None, task: str, timestamps: bool, words: bool,
               threads: int, fast: bool, progress: Callable[[float, float], Any] | None,
               given: dict[str, Any]) -> Iterator[Segment]:
    """Begins, and returns the iterator over segments. file: the path of the model file, or its bytes. given: the options
    that have defaults in C."""
    numpy = sys.modules.get("numpy")
    path = data = ffi.NULL
    if numpy and isinstance(sound, numpy.ndarray):
        wav = _wav(sound, check_integer("rate", 16000 if rate is None else rate, LEAST_RATE, MOST_RATE))
        data, size = ffi.from_buffer(wav), len(wav)
    elif rate is not None:
        raise ValueError("rate is for arrays; a WAV file names its own")
    elif isinstance(sound, bytes):
        data, size = ffi.from_buffer(sound), len(sound)
    elif isinstance(sound, (str, os.PathLike)):
        path, size = ffi.new("char[]", os.fsencode(check_path("sound", sound))), 0
    else:
        wrong_type("sound", sound, SOUND)
    check_call("progress", progress, "a function of two numbers")
    options, caught, keep = options_of(language, task, given)
    search = options.decoding
    search.without_times, options.with_words = not check_flag("timestamps", timestamps), check_flag("words", words)
    key = check_integer("threads", threads, 1, 64), max(search.beam, search.best_of), check_flag("fast", fast)
    transcriber, err = take_transcriber(sessions, file, key), ffi.new("tfm_error *")
    if lib.th_transcriber_begin(transcriber, options, path, data, size, err):
        if path and err.status in (lib.TFM_E_IO, lib.TFM_E_FORMAT):
            raise_file_error(os.fspath(sound), err)
        raise error_of(err)
    return begun(_segments(sessions, key, transcriber, words, progress, caught, [path, data, sound, *keep]))


def begun(results: Iterator[Any]) -> Iterator[Any]:
    """Takes the None that a generator yields first. Its end then gives the session back, even if nobody takes a result."""
    next(results)
    return results


def options_of(language: str | None, task: str, given: dict[str, Any]) -> tuple[Any, list[BaseException], list[Any]]:
    """Returns transcriber_options, a list that gets the exception of a signal, and what has to remain until the last call."""
    options = ffi.new("transcriber_options *")
    lib.th_transcriber_defaults(options)
    search = options.decoding
    search.is_translation = check_choice("task", task, {"transcribe": 0, "translate": 1})
    given = {name: value for name, value in given.items() if value is not None}
    for name in ("beam", "best_of"):
        if name in given:
            setattr(search, name, check_integer(name, given[name], 1, 64))
    numbers = {**{name: (options if name == "silence" else search, name, *limits) for name, limits in _NUMBERS.items()},
               **{name: (options.voice, *field) for name, field in _VOICE.items()}}
    for name, (target, field, least, most) in numbers.items():
        if name in given:
            value = check_number(name, given[name])
            if not least <= value <= most:
                raise ValueError(f"{name} is {value:g}, expected {least:g} to {most:g}")
            setattr(target, field, value)
    if "temperature" in given:
        listed = given["temperature"]
        listed = [check_number("temperature", listed)] if hasattr(type(listed), "__float__") and not getattr(
            listed, "shape", None) else [check_number(f"temperature[{i}]", one) for i, one in enumerate(
                check_list("temperature", listed, "a number or a list of numbers"))]
        if not 1 <= len(listed) <= len(search.temperatures) or not all(0 <= one <= 10 for one in listed):
            raise ValueError(f"temperature takes 1 to {len(search.temperatures)} numbers from 0 to 10")
        search.n_temperatures = len(listed)
        search.temperatures[0:len(listed)] = listed
    options.no_previous = not check_flag("previous", given.get("previous", True))
    keep: list[Any] = []  # what options point to
    for name, text in (("language", language), ("prompt", given.get("prompt"))):
        if text is not None:
            keep.append(ffi.new("char[]", check_no_nul(name, check_text(name, text))))
            setattr(options, name, keep[-1])
    caught: list[BaseException] = []
    keep.append(ffi.new_handle(caught))
    search.is_stopped, search.user = lib.th_stopped, keep[-1]
    return options, caught, keep


def take_transcriber(sessions: SessionPool, file: Any, key: tuple[int, int, bool]) -> Any:
    """Returns what hears, for so many threads and hypotheses: one that is idle, or a new one."""
    model, found = sessions.take_listener(key)
    if found is not None:
        return found
    err, is_path = ffi.new("tfm_error *"), isinstance(file, str)
    path = ffi.new("char[]", os.fsencode(file)) if is_path else ffi.NULL
    data, size = (ffi.NULL, 0) if is_path else (file, len(file))
    found = lib.th_transcriber_load(model, path, data, size, *key, err)
    if not found:
        raise error_of(err)
    return ffi.gc(found, lambda transcriber, model=model: lib.th_transcriber_free(transcriber))


def is_whisper(sessions: SessionPool, file: Any) -> bool:
    """Returns whether a model file can be transcribed with."""
    try:
        return bool(take_transcriber(sessions, file, (1, 1, False)))
    except Error:
        return False


def _segments(sessions: SessionPool, key: Any, transcriber: Any, words: bool, progress: Any, caught: list[BaseException],
              keep: Any) -> Iterator[Any]:
    err, n, seconds = ffi.new("tfm_error *"), ffi.new("int32_t *"), ffi.new("double[2]")
    segment, word = ffi.new("th_segment *"), ffi.new("th_word *")

    def checked(status: int) -> None:
        if caught:  # Ctrl-C
            raise caught.pop()
        raise_error(status, err)

    def each(k: int) -> Segment:
        checked(lib.th_transcriber_segment(transcriber, k, segment, err))
        found = []
        for i in range(segment.n_words if words else 0):
            lib.th_transcriber_word(transcriber, k, i, word)
            if text := ffi.string(word.word).decode("utf-8", "replace"):
                found.append(Word(word.start, word.end, text, word.probability))
        return Segment(
            segment.start, segment.end, ffi.string(segment.text).decode("utf-8", "replace"),
            list(segment.tokens[0:segment.n_tokens]), found if words else None,
            ffi.string(segment.language).decode() if segment.language else None, segment.seek, segment.temperature,
            segment.avg_logprob, segment.compression_ratio, segment.no_speech_prob if segment.no_speech_prob >= 0 else None)

    try:
        yield None  # to begun
        checked(lib.th_transcriber_survey(transcriber, err))
        while True:
            checked(lib.th_transcriber_next(transcriber, n, seconds, err))
            if n[0] < 0:
                break
            yield from [each(k) for k in range(n[0])]
            if progress:
                progress(*seconds)
    finally:
        lib.th_transcriber_end(transcriber)
        sessions.give_listener(key, transcriber)

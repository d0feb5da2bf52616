"""The process that reads and writes one document of a client. files.py starts it, and ends it if the document needs too
much time. It asks the server to translate sentences, so that it needs no model.

    python document_process.py CPU_SECONDS SECONDS BYTES

Both directions have frames: 8 bytes of length, then JSON or bytes.

    server: {"name", "most", "most_text", "source": the language to translate, or null, "target": that of the translation}, the document
    process: {"characters", "sample"}: the number of characters, and text from which the language can be detected
    server: {"steps", "sentences": "split" or "whole", "plain": whether what stands around sentences is given to the model, "source"}
    process, for each step: {"count": the number of sentences, "divided": how many of them are too long for a model}; then the sentences in parts. The next part comes before the answer to
        the one before it is read, so that the server always has some.
    process, for each part: {"sentences"}; then a byte for each sentence: 1 if its translation must be aligned
    server, for each part: {"translations", "sizes"}: null for a sentence that is too long and stays as it is, and the number of bytes
        of each alignment; then all alignments
    process: {"left": what stays as it is}, the translated document

Instead of any frame the process can send {"refused": message} or {"failed": message}, and ends."""

import contextlib
import json
import os
import signal
import sys
import traceback


SENTENCES, CHARACTERS = 256, 32768  # of a part of a document; one sentence may have more characters


def limit(cpu_seconds, seconds, size):
    """Sets the limits that this system has. The server's deadline ends the process in any case."""
    for each in (signal.SIGINT, signal.SIGTERM):  # the server finishes what it accepted
        signal.signal(each, signal.SIG_IGN)
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)  # also ends a process whose server was killed
    with contextlib.suppress(OSError, AttributeError):
        os.nice(5)  # requests with short texts come first
    with contextlib.suppress(ImportError):
        import resource
        for name, most in (("CORE", 0), ("CPU", cpu_seconds), ("DATA", size), ("AS", size)):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))


def receive():
    length = int.from_bytes(sys.stdin.buffer.read(8), "big")
    frame = sys.stdin.buffer.read(length)
    if not length or len(frame) < length:
        raise SystemExit  # the server has ended
    return frame


def send(content):
    frame = content if isinstance(content, bytes) else json.dumps(content).encode()
    sys.stdout.buffer.write(len(frame).to_bytes(8, "big") + frame)
    sys.stdout.buffer.flush()


def sample(file, Document):
    """Returns some sentences of a document."""
    found, size = [], 0
    for text in file.texts[:1000]:
        if size < 10000:
            with contextlib.suppress(ValueError):  # the first times of these subtitles come later
                found += Document(text[:10000], file.format).sentences
            size += len(text)
    return "\n".join(found)


def parts(sentences):
    """Yields where parts of sentences begin and end."""
    begin = size = 0
    for i, sentence in enumerate(sentences):
        size += len(sentence)
        if size >= CHARACTERS or i + 1 - begin == SENTENCES:
            yield begin, i + 1
            begin, size = i + 1, 0
    if begin < len(sentences):
        yield begin, len(sentences)


def translated(documents, Aligned):
    """Returns the translations of the sentences, which the server makes."""
    made, left = [], parts(documents.sentences)

    def send_next():
        part = next(left, None)
        if part:
            send({"sentences": documents.sentences[slice(*part)]})
            send(b"." + documents.needs_tokens[slice(*part)])

    send_next()
    while len(made) < len(documents.sentences):
        send_next()
        answer, tokens, at = json.loads(receive()), receive()[1:], 0
        for one, size in zip(answer["translations"], answer["sizes"]):
            made.append(Aligned(one, tokens[at:at + size]) if size else one)
            at += size
    return made


def run(File, Document, Documents, Aligned):
    about, data = json.loads(receive()), receive()
    file, target = File(data[1:], about["name"], about["most"], about["most_text"], lang=about["target"], source=about["source"]), about["target"]
    del data
    send({"characters": sum(map(len, file.texts)), "sample": sample(file, Document)})
    asked, texts = json.loads(receive()), file.texts
    for _ in range(asked["steps"]):
        documents = Documents(texts, file.format, asked["sentences"], asked["plain"], source=asked["source"])
        send({"count": len(documents.sentences), "divided": sum(documents.divided)})
        made = translated(documents, Aligned)
        found = iter(made)
        joined = []
        for number, one in enumerate(documents):
            its = [next(found) for _ in one.sentences]
            for _ in filter(lambda sentence: sentence is None, its):
                if not file.fail(number):
                    file.leave("a sentence that is too long for the model")
            joined.append(one.join(its, target))
            for line in one.left:
                file.leave(line)
        texts = joined
    data = file.join(texts, target)
    send({"left": file.left})
    send(b"." + data)  # no frame is empty


def main():
    limit(*map(int, sys.argv[1:]))
    try:
        from transformer_h import Aligned, Document, Status
        from transformer_h.documents import File, FileError
        from transformer_h.markup import Documents
        try:
            run(File, Document, Documents, Aligned)
        except FileError as e:
            send({"refused": str(e)})
    except MemoryError:
        os._exit(3)  # the server says which limit this was
    except BrokenPipeError:
        os._exit(0)
    except Exception as e:
        if getattr(e, "status", None) == Status.E_MEMORY:
            os._exit(3)
        send({"failed": traceback.format_exc()[-3000:]})


if __name__ == "__main__":
    main()

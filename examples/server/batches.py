"""The queue of waiting sentences, and the threads that translate sentences of all requests in batches of similar
length. A large request takes turns with the others."""

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque

from models import Refused
from transformer_h import Error, Status

WINDOW = 8  # the number of batches whose sentences are sorted by length together


class Work:
    """Holds the sentences of a request. Sentences of works with equal keys can share a batch. needs has a byte for each sentence: 1 if
    its translation must be Aligned. Of a batch, all sentences are aligned or none is."""

    def __init__(self, key, sentences, needs=None, keeps_long=False):
        self.key, self.sentences, self.needs = key, sentences, bytes(len(sentences)) if needs is None else needs
        self.keeps_long = keeps_long  # a sentence that is too long does not end the work; its result is the Error
        self.results = [None] * len(sentences)
        self.taken, self.left = 0, len(sentences)
        # its result is the list of results, a Refused, or the first error as (index, Error)
        self.done = asyncio.get_running_loop().create_future()


class Queue:
    """Holds the waiting works, and the threads that translate batches of their sentences."""

    def __init__(self, options, metrics):
        self.options, self.metrics = options, metrics
        self.loop = asyncio.get_running_loop()
        self.changed = threading.Condition()
        # guarded by the lock of self.changed:
        self.works = deque()  # works with sentences that are not in a batch yet
        self.batches = deque()  # batches for the threads: lists of (work, index)
        self.n = self.idle = 0  # sentences that are not translated yet; threads that wait
        self.rate = 100.0  # sentences per second, a moving average
        self.closed = False
        self.threads = [threading.Thread(target=self.run, daemon=True)
                        for _ in range(options.threads)]
        for thread in self.threads:
            thread.start()

    def close(self):
        with self.changed:
            self.closed = True
            self.works.clear()  # of documents for which no client waits; requests are answered by now
            self.batches.clear()
            self.changed.notify_all()
        for thread in self.threads:
            thread.join()

    def retry_after(self):
        return min(int(self.n / self.rate) + 1, 60)

    def add(self, work):
        with self.changed:
            # an empty queue accepts every request, or one with more sentences than --queue never runs
            if self.n and self.n + work.left > self.options.queue:
                raise Refused(503, "the server is busy", self.retry_after())
            self.n += work.left
            self.works.append(work)
            self.changed.notify()

    def make_batches(self):
        """Makes batches from a window of waiting sentences, enough for all idle threads. Takes at most
        one batch of sentences from a work at a time, so that a large request does not delay others."""
        groups, n = {}, 0
        while self.works and n < WINDOW * self.options.batch:
            work = self.works.popleft()
            end = min(work.taken + self.options.batch, len(work.sentences))
            if work.done.done():  # the client has left, or the time is over
                self.n -= len(work.sentences) - work.taken
                continue
            for i in range(work.taken, end):
                groups.setdefault((work.key, work.needs[i]), []).append((work, i))
            n, work.taken = n + end - work.taken, end
            if end < len(work.sentences):
                self.works.append(work)
        for group in groups.values():
            group.sort(key=lambda one: len(one[0].sentences[one[1]]))  # so short sentences are not padded
            size = min(self.options.batch, max(-(-len(group) // (1 + self.idle)), 4))
            self.batches.extend(group[i:i + size] for i in range(0, len(group), size))
        self.changed.notify(len(self.batches))

    def run(self):
        while True:
            with self.changed:
                while not self.batches:
                    if self.works:
                        self.make_batches()
                    elif self.closed:
                        return
                    else:
                        self.idle += 1
                        self.changed.wait()
                        self.idle -= 1
                batch = self.batches.popleft()
            began, live = time.perf_counter(), [one for one in batch if not one[0].done.done()]
            try:
                results = self.translate(live) if live else []
            except Exception:  # not an error of a text: the thread must survive it
                logging.exception("a batch failed")
                results = [Refused(500, "the server failed")] * len(live)
            seconds = time.perf_counter() - began
            with self.changed:
                self.n -= len(batch)
                if live:
                    self.rate += 0.1 * (len(live) * len(self.threads) / seconds - self.rate)
                    self.metrics.batches.inc()
                    self.metrics.busy.inc(seconds)
            with contextlib.suppress(RuntimeError):  # the event loop has ended
                self.loop.call_soon_threadsafe(self.deliver, live, results)

    def translate(self, batch):
        work, i = batch[0]
        (translator, source, target, n_best, terms), aligned = work.key, bool(work.needs[i])
        beam = self.options.beam
        return translator.model.translate(
            [work.sentences[i] for work, i in batch], batch=self.options.batch, on_error="return", sentences="whole",
            max_source=self.options.max_source, beam=beam and max(beam, n_best or 1), n_best=n_best,
            terms=terms or translator.terms.get((source, target)), aligned=aligned, **translator.told(source, target))

    @staticmethod
    def deliver(batch, results):
        for (work, i), result in zip(batch, results):
            work.results[i] = result
            work.left -= 1
            if work.done.done():
                continue
            if isinstance(result, Refused):
                work.done.set_result(result)
            elif isinstance(result, Error) and not (work.keeps_long and result.status == Status.E_TOO_LONG):
                work.done.set_result((i, result))
            elif not work.left:
                work.done.set_result(work.results)

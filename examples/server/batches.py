"""The queue of waiting sentences, and the threads that translate sentences of all requests in batches.

Clients take turns. A batch gets its sentences one by one, each from the client that has had least, so a client with one sentence
is in the next batch, whatever the others have sent. Within a client, its requests take turns. A client is an API key, or
if the server has none, a connection (see service.py)."""

import asyncio
import contextlib
import heapq
import logging
import threading
import time
from collections import Counter, deque

from models import Refused
from transformer_h import Counts, Error, Status

MOST_COST = 8192  # a batch of this cost gets no more sentences, because everybody waits until it ends


def cost_of(sentence):
    """Estimates the time that a sentence takes: in proportion to its length at first, and of a long one to the square of it, as
    attention does. A short sentence has a start and an end, too."""
    n = max(len(sentence), 16)
    return n + n * n / 400


class Faulty(Refused):
    """Refuses a request because of one of its sentences, that with the number `at`."""

    def __init__(self, at, error):
        super().__init__(503 if error.status == Status.E_MEMORY else 400, error.message)
        self.at = at


class Work:
    """Holds the sentences of a request. Sentences of works with equal keys can share a batch. needs has a byte for each sentence: 1 if
    its translation must be Aligned. Of a batch, all sentences are aligned or none is. Equal sentences are translated once."""

    def __init__(self, key, sentences, needs=None, keeps_long=False):
        needs = bytes(len(sentences)) if needs is None else needs
        self.keeps_long = keeps_long  # a sentence that is too long does not end the work; its result is the Error
        places = {}  # (sentence, need): its number among those that differ
        self.numbers = [places.setdefault(each, len(places)) for each in zip(sentences, needs)]
        self.sentences = [sentence for sentence, _ in places]
        self.lanes = {(key, need): deque() for need in set(needs)}  # numbers of sentences that are not in a batch yet
        for i, (_, need) in enumerate(places):
            self.lanes[key, need].append(i)
        self.results = [None] * len(places)
        self.notes = [()] * len(places)  # in which lists of Counts a sentence is
        self.left = self.untaken = len(places)
        self.counts = None  # how many sentences count against the client's limit at most; None: all
        self.client = self.done = None  # see Queue.add
        self.added = self.began = None  # when it came into the queue, and when its first batch began

    def results_of_all(self):
        """Returns a result for each sentence, also for those that were there twice."""
        return [self.results[i] for i in self.numbers]

    def tally(self):
        """Returns how many sentences are in each list of Counts."""
        return Counter(name for i in self.numbers for name in self.notes[i])

    def load(self):
        return self.left if self.counts is None else min(self.left, self.counts)


class Client:
    """What a client has in the queue. time: the cost of the sentences that it has had; see Queue.now."""

    def __init__(self):
        self.works, self.lanes, self.time, self.is_in_line = set(), {}, 0.0, False

    def take(self, key):
        """Returns (work, number, key) of the next sentence with this key (None: any), or None if there is none."""
        while self.lanes:
            if key is not None and key not in self.lanes:
                return None
            found = next(iter(self.lanes)) if key is None else key
            works = self.lanes.pop(found)
            work = works.popleft()
            if work.done.done():  # the client has left, or the time is over
                taken = None
            else:
                taken = work, work.lanes[found].popleft()
                if work.lanes[found]:
                    works.append(work)
            if works:
                self.lanes[found] = works  # behind the others, which are next
            if taken:
                return *taken, found
        return None


class Queue:
    """Holds the waiting works, and the threads that translate batches of their sentences."""

    def __init__(self, options, metrics):
        self.options, self.metrics = options, metrics
        self.loop = asyncio.get_running_loop()
        self.changed = threading.Condition()
        # guarded by the lock of self.changed:
        self.clients = {}  # those with works that are not done
        self.line = []  # heap of (time, number, client): the clients with sentences that are not in a batch
        # The cost that a client would have had if it had always been in the line. It grows by a sentence's cost divided by the
        # number of clients in the line. A new client begins with it, so it is neither behind the others nor far ahead of them.
        self.now = 0.0
        self.n = self.untaken = self.idle = self.number = 0  # sentences not translated; not in a batch; threads that wait; entries made
        self.rate = 100.0  # sentences per second, a moving average
        self.closed = False
        self.threads = [threading.Thread(target=self.run, daemon=True)
                        for _ in range(options.threads)]
        for thread in self.threads:
            thread.start()

    def close(self):
        with self.changed:
            self.closed = True
            for client in self.clients.values():  # documents for which no client waits; requests are answered by now
                client.lanes.clear()
            self.untaken = 0
            self.changed.notify_all()
        for thread in self.threads:
            thread.join()

    def retry_after(self, sentences=None):
        return min(int((self.n if sentences is None else sentences * len(self.clients)) / self.rate) + 1, 60)

    def seconds(self, sentences):
        """Estimates how long so many sentences of one client take, when each client has its share."""
        return sentences * max(len(self.clients), 1) / self.rate

    def add(self, work, name, is_document=False):
        """Puts a work into the queue. name: the client's. Of a document, only the next batch counts against the client's limit."""
        work.done = self.loop.create_future()  # its result is None, or why the work failed
        work.counts, work.added = self.options.batch if is_document else None, time.perf_counter()
        with self.changed:
            client = self.clients.get(name)
            load = sum(each.load() for each in client.works) if client else 0
            # a client without works may send any request, or one with more sentences than --queue would never be translated
            if load and load + work.load() > self.options.queue:
                raise Refused(503, "the server is busy with other requests of yours", self.retry_after(load))
            if not client:
                client = self.clients[name] = Client()
            work.client = name
            client.works.add(work)
            for key in work.lanes:
                client.lanes.setdefault(key, deque()).append(work)
            self.n, self.untaken = self.n + work.left, self.untaken + work.left
            if not client.is_in_line:
                client.time = max(client.time, self.now)
                self.stand(client)
            self.changed.notify(len(self.threads))

    def stand(self, client):
        """Puts a client into the line, behind those with the same time."""
        client.is_in_line, self.number = True, self.number + 1
        heapq.heappush(self.line, (client.time, self.number, client))

    def end(self, work):
        """Forgets a work that is done, or for which nobody waits any more."""
        with self.changed:
            self.n, self.untaken = self.n - work.untaken, self.untaken - work.untaken
            work.untaken = 0
            client = self.clients.get(work.client)
            client.works.discard(work)
            if not client.works:
                client.lanes.clear()
                del self.clients[work.client]

    def take(self):
        """Returns the key of a batch, and the batch: a list of (work, number). The first sentence is of the client that has had
        least, and the others have its key. The lock must be held."""
        most = min(self.options.batch, max(-(-self.untaken // (1 + self.idle)), 4))
        batch, size, key, others = [], 0, None, []
        while self.line and len(batch) < most and size < MOST_COST:
            entry = heapq.heappop(self.line)
            client = entry[2]
            found = client.take(key)
            if found is None:
                if client.lanes:
                    others.append(entry)
                client.is_in_line = bool(client.lanes)
                continue
            work, number, key = found
            batch.append((work, number))
            work.began = work.began or time.perf_counter()
            work.untaken, self.untaken = work.untaken - 1, self.untaken - 1
            cost = cost_of(work.sentences[number])
            size, client.time = size + cost, client.time + cost
            self.now += cost / (1 + len(self.line) + len(others))
            client.is_in_line = False
            if client.lanes:
                self.stand(client)
        for entry in others:  # which keep their places
            heapq.heappush(self.line, entry)
        return key, batch

    def run(self):
        while True:
            with self.changed:
                while not (taken := self.take())[1]:
                    if self.closed:
                        return
                    self.idle += 1
                    self.changed.wait()
                    self.idle -= 1
            key, batch = taken
            began, live = time.perf_counter(), [one for one in batch if not one[0].done.done()]
            try:
                results = self.translate(key, live) if live else []
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

    def translate(self, key, batch):
        (translator, source, target, n_best, terms, plain), aligned = key
        beam, counts = self.options.beam, Counts()
        results = translator.model.translate(
            [work.sentences[i] for work, i in batch], batch=self.options.batch, on_error="return", plain=plain, lang=target, counts=counts,
            max_source=self.options.max_source, beam=beam and max(beam, n_best or 1), n_best=n_best,
            terms=terms or translator.terms.get((source, target)), aligned=bytes([aligned]) * len(batch),
            **translator.told(source, target))
        for name in Counts.__slots__:
            for number in getattr(counts, name):
                work, i = batch[number]
                work.notes[i] += name,
        return results

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
                work.done.set_result(Faulty(work.numbers.index(i), result))
            elif not work.left:
                work.done.set_result(None)

"""What GET /metrics counts."""

import time
from bisect import bisect_left
from collections import Counter
from itertools import accumulate

from transformer_h import __version__


class Metrics:
    BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

    def __init__(self):
        self.requests, self.latencies, self.latency = Counter(), [0] * (len(self.BUCKETS) + 1), 0.0
        self.active = self.sentences = self.characters = self.batches = 0
        self.busy = 0.0

    def request(self, path, status, seconds):
        self.requests[path, status] += 1
        if path == "/translate" and status == 200:
            self.latencies[bisect_left(self.BUCKETS, seconds)] += 1
            self.latency += seconds

    def text(self, waiting):
        lines = []

        def show(metric, kind, what, *samples):
            lines.extend([f"# HELP {metric} {what}", f"# TYPE {metric} {kind}"])
            lines.extend(f"{metric}{labels} {value}" for labels, value in samples)

        prefix, totals = "transformer", list(accumulate(self.latencies))
        show(f"{prefix}_info", "gauge", "Versions.", (f'{{version="{__version__}"}}', 1))
        show(f"{prefix}_requests_total", "counter", "Requests that were answered.", *(
            (f'{{path="{path}",status="{status}"}}', n)
            for (path, status), n in sorted(self.requests.items())))
        show(f"{prefix}_translate_seconds", "histogram", "Time of /translate with status 200.", *(
            (f'_bucket{{le="{le}"}}', n) for le, n in zip((*self.BUCKETS, "+Inf"), totals)),
            ("_sum", self.latency), ("_count", totals[-1]))
        for metric, kind, what, value in (
                ("requests_active", "gauge", "Requests that are being answered.", self.active),
                ("sentences_waiting", "gauge", "Sentences that are not translated yet.", waiting),
                ("sentences_total", "counter", "Sentences translated.", self.sentences),
                ("characters_total", "counter", "Characters of texts translated.", self.characters),
                ("batches_total", "counter", "Batches translated.", self.batches),
                ("busy_seconds_total", "counter", "Time of all workers in batches.", self.busy)):
            show(f"{prefix}_{metric}", kind, what, ("", value))
        show("process_cpu_seconds_total", "counter", "User, system.", ("", time.process_time()))
        return "\n".join(lines) + "\n"

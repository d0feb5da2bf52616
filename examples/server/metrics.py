"""What GET /metrics counts."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, disable_created_metrics, generate_latest
from transformer_h import __version__


SECONDS = 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300


class Metrics:
    TYPE = "text/plain; version=0.0.4"

    def __init__(self):
        disable_created_metrics()
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)

        def made(kind, name, what, *labels, **more):
            return kind(f"transformer_{name}".rstrip("_"), what, labels, registry=self.registry, **more)

        made(Info, "", "Versions.").info({"version": __version__})
        self.requests = made(Counter, "requests", "Requests that were answered.", "path", "status")
        self.waits = made(Histogram, "waiting_seconds", "Time that a request waited for its turn.", "path", buckets=SECONDS)
        self.works = made(Histogram, "work_seconds", "Time that a request took from then on.", "path", buckets=SECONDS)
        self.active = made(Gauge, "requests_active", "Requests that are being answered.")
        self.waiting = made(Gauge, "sentences_waiting", "Sentences that are not translated yet.")
        self.sentences = made(Counter, "sentences", "Sentences translated.")
        self.characters = made(Counter, "characters", "Characters of texts translated.")
        self.batches = made(Counter, "batches", "Batches translated.")
        self.documents_stopped = made(Counter, "documents_stopped", "Documents whose process reached a limit.", "limit")
        self.listening = made(Gauge, "listeners", "Sounds that are being heard.")
        self.live = made(Gauge, "live_texts", "Texts that are translated while they come.")
        self.sound = made(Counter, "sound_seconds", "Seconds of sound that came.")
        self.busy = made(Counter, "busy_seconds", "Time of all workers in batches.")

    def request(self, path, status):
        self.requests.labels(path, status).inc()

    def work(self, path, status, seconds, waited):
        """Notes how long a request took. waited: how much of it was before its turn. Requests that failed do not count."""
        if status < 400:
            self.waits.labels(path).observe(waited)
            self.works.labels(path).observe(seconds - waited)

    def total(self, name):
        return int(self.registry.get_sample_value(f"transformer_{name}_total"))

    def text(self):
        return generate_latest(self.registry)

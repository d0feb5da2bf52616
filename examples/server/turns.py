"""Who may begin a long task now, such as the translation of a document."""

import asyncio
import contextlib
from collections import Counter, deque

from models import Refused


class Turns:
    """Has places for tasks. A task takes one or more of them, and the tasks of a client at most of_a_client. Others wait: next is the
    client that has the fewest places, and among those the one that waits longest. When the next task needs more places than are free,
    all wait for it, so that small tasks do not keep a large one from its turn. most: how many tasks of a client may wait. name: what
    they are, for messages."""

    def __init__(self, places, of_a_client, most, name="documents"):
        self.places, self.of_a_client, self.most, self.name = places, of_a_client, most, name
        self.running, self.waiting = Counter(), {}  # client: places of its tasks; client: (future, places) of those that wait

    @contextlib.asynccontextmanager
    async def turn(self, client, places=1):
        """Waits until the client may begin a task of so many places. The task ends with the with statement."""
        if len(self.waiting.get(client, ())) >= self.most:
            raise Refused(503, f"{self.most} of your {self.name} wait already", 10)
        mine = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(client, deque()).append((mine, places))
        try:
            self.begin_next()
            await mine
            yield
        finally:
            if mine.done() and not mine.cancelled():
                self.running[client] -= places
                if not self.running[client]:
                    del self.running[client]
            else:
                self.leave(client, (mine, places))
            self.begin_next()

    def leave(self, client, mine):
        line = self.waiting.get(client, ())
        if mine in line:
            line.remove(mine)
        if not line:
            self.waiting.pop(client, None)

    def begin_next(self):
        while True:
            may = (each for each, line in self.waiting.items() if self.running[each] + line[0][1] <= self.of_a_client)
            client = min(may, key=lambda each: self.running[each], default=None)  # of equal ones, the first
            if client is None or sum(self.running.values()) + self.waiting[client][0][1] > self.places:
                return
            line = self.waiting.pop(client)
            mine, places = line.popleft()
            if line:
                self.waiting[client] = line  # behind the others
            if not mine.cancelled():
                self.running[client] += places
                mine.set_result(None)

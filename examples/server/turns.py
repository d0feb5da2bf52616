"""Who may begin a long task now, such as the translation of a document."""

import asyncio
import contextlib
from collections import Counter, deque

from models import Refused


class Turns:
    """Lets at_once tasks run at a time, of_a_client of them of each client. The others wait: next is the client that has the fewest
    running tasks, and among those the one that waits longest. most: how many tasks of a client may wait."""

    def __init__(self, at_once, of_a_client, most):
        self.at_once, self.of_a_client, self.most = at_once, of_a_client, most
        self.running, self.waiting = Counter(), {}  # client: number of its tasks; client: futures of those that wait

    @contextlib.asynccontextmanager
    async def turn(self, client):
        """Waits until the client may begin a task. The task ends with the with statement."""
        if len(self.waiting.get(client, ())) >= self.most:
            raise Refused(503, f"{self.most} of your documents wait already", 10)
        mine = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(client, deque()).append(mine)
        try:
            self.begin_next()
            await mine
            yield
        finally:
            if mine.done() and not mine.cancelled():
                self.running[client] -= 1
                if not self.running[client]:
                    del self.running[client]
            else:
                self.leave(client, mine)
            self.begin_next()

    def leave(self, client, mine):
        line = self.waiting.get(client, ())
        if mine in line:
            line.remove(mine)
        if not line:
            self.waiting.pop(client, None)

    def begin_next(self):
        while sum(self.running.values()) < self.at_once:
            client = min(self.waiting, key=lambda each: self.running[each], default=None)  # of equal ones, the first
            if client is None or self.running[client] >= self.of_a_client:
                return
            line = self.waiting.pop(client)
            mine = line.popleft()
            if line:
                self.waiting[client] = line  # behind the others
            if not mine.cancelled():
                self.running[client] += 1
                mine.set_result(None)

"""Messages on standard error."""

import contextlib
import logging
import sys
import time

LOG_LENGTH, LOG_RATE = 4000, 60  # most characters of a message, most messages a minute
MINUTE = 60  # seconds


class Log(logging.Handler):
    """Writes messages to standard error, limited in length and number, so that clients cannot flood the
    log. Characters that cannot be printed are escaped. Each line of a message but the first is indented,
    so that a client cannot fake a message."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
        self.minute = self.n = 0

    clients, told = 0, None  # that have left since the last message about them, and when this message was

    @classmethod
    def left(cls):
        """Counts a client that has left before its answer. There is one message a minute about all of them."""
        cls.clients, now = cls.clients + 1, time.monotonic()
        if cls.told is None or now - cls.told >= MINUTE:
            cls.say(f"{time.strftime('%Y-%m-%d %H:%M:%S')} clients that left before their answer: {cls.clients}; the next message about "
                    "them comes in a minute at the earliest")
            cls.clients, cls.told = 0, now

    @staticmethod
    def is_of_one_that_left(record):
        """Returns whether a message of uvicorn or asyncio says only that a connection has ended."""
        error = record.exc_info and record.exc_info[1]
        return isinstance(error, ConnectionError) or type(error).__name__ in ("ClientDisconnect", "ClientDisconnected", "WebSocketDisconnect") or (
            isinstance(error, RuntimeError) and str(error).endswith("the handler is closed")) or (  # uvloop, of a connection that was reset
            record.name == "asyncio" and record.getMessage() == "socket.send() raised exception.")

    def emit(self, record):
        if self.is_of_one_that_left(record):
            self.left()
            return
        minute = int(time.monotonic() / 60)
        if minute != self.minute:
            self.minute, self.n = minute, 0
        self.n += 1
        if self.n <= LOG_RATE:
            self.say(self.format(record))
        elif self.n == LOG_RATE + 1:
            self.say("more messages of this minute are left out")

    @staticmethod
    def say(text):
        if len(text) > LOG_LENGTH:  # keeps the end, which is the important part of a traceback
            half = LOG_LENGTH // 2
            text = f"{text[:half]}\n... {len(text) - 2 * half} characters ...\n{text[-half:]}"
        with contextlib.suppress(OSError, ValueError):  # standard error may be closed
            print("\n  ".join(map(Log.printable, text.split("\n"))), file=sys.stderr, flush=True)

    @staticmethod
    def printable(line):
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)

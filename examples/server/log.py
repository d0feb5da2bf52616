"""Messages on standard error."""

import contextlib
import logging
import sys
import time

LOG_LENGTH, LOG_RATE = 4000, 60  # most characters of a message, most messages a minute


class Log(logging.Handler):
    """Writes messages to standard error, limited in length and number, so that clients cannot flood the
    log. Characters that cannot be printed are escaped. Each line of a message but the first is indented,
    so that a client cannot fake a message."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
        self.minute = self.n = 0

    def emit(self, record):
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

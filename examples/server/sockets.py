"""What the WebSockets share: who may ask, how they end, and a client that reads slowly or has left."""

import asyncio
import contextlib
import json
import time
from urllib.parse import urlsplit

from endpoints import Endpoint
from models import Refused, cut
from service import ASKING, LEFT, Asking, form
from starlette.routing import WebSocketRoute

STALL = 1  # seconds for which a client that is refused may take to read why
CODES = {413: 1009, 415: 1003, 429: 1013, 500: 1011, 503: 1013}  # how a WebSocket is closed, by the status; others: 1008


class Left(Exception):
    """The client has left."""


class Sockets:
    """A path with WebSockets. A class of one has its path, what it is about and takes, and serve."""

    path = about = takes = ""

    def __init__(self, server):
        self.server, self.options, self.metrics = server, server.options, server.metrics

    def endpoint(self):
        return Endpoint(self.path, "GET", self.answer, self.about, f"{self.takes} api_key", status=101)

    def route(self):
        return WebSocketRoute(self.path, self.answer)

    async def answer(self, socket):
        began, status = time.perf_counter(), 200
        ASKING.set(Asking(socket.client))
        try:
            await self.accept(socket)
            await self.serve(socket, self.admitted(socket))
        except Refused as e:
            status = e.status
            await self.ended(socket, e)
        except Left as e:
            status = e.args[0]
        else:
            await self.ended(socket)
        spent = time.perf_counter() - began
        self.metrics.request(self.path, status)
        self.metrics.work(self.path, status, spent, 0)
        self.server.log(socket, status, spent)

    async def serve(self, socket, given):
        """Serves a client that may ask. given: the parameters."""
        raise NotImplementedError

    @staticmethod
    async def accept(socket):
        try:
            await socket.accept()
        except Exception:  # what a connection raises that is lost depends on uvicorn's version
            raise Left(LEFT) from None

    async def ended(self, socket, refused=None):
        """Closes the WebSocket, after an object with what was wrong."""
        async def say():
            if refused:
                await socket.send_text(json.dumps({"error": refused.message, "status": refused.status}, ensure_ascii=False))
            await socket.close(CODES.get(refused.status, 1008) if refused else 1000)
        with contextlib.suppress(Exception):  # the client has left, or does not read
            await asyncio.wait_for(say(), STALL)

    def admitted(self, socket):
        """Returns the parameters, after checking that the client may ask."""
        try:
            given = form(socket.scope["query_string"].decode())
        except (UnicodeDecodeError, ValueError) as e:
            raise Refused(400, f"the query cannot be read: {e}") from None
        origin, allowed = socket.headers.get("origin"), self.options.cors or ()
        try:
            place = urlsplit(origin or "").netloc
        except ValueError:
            raise Refused(400, f"the header Origin is no address: {cut(origin)}") from None
        if origin and place != socket.headers.get("host") and not {origin, "*"} & set(allowed):
            raise Refused(403, f"pages of {cut(origin)} may not use the server (--cors)")
        self.server.admitted(socket, given)
        return given

    def check_names(self, given):
        """Refuses a parameter that the path does not take."""
        others = set(given) - {*self.takes.replace("!", "").split(), "api_key", "auth_key"}
        if others:
            raise Refused(400, f"Invalid request: {cut(min(others))} is not a parameter of {self.path}")

    async def sent(self, socket, line):
        """Sends a line, as soon as the client reads."""
        patience = self.options.read_timeout
        try:
            await asyncio.wait_for(socket.send_text(line), patience)
        except asyncio.TimeoutError:
            raise Refused(408, f"the client has read nothing for {patience:g} seconds") from None
        except Exception:  # what a connection raises that is lost depends on uvicorn's version
            raise Left(LEFT) from None

"""HTTP connections and WebSockets with limits that uvicorn does not have.

What a client sends at once is read in slices. Behind each slice of a WebSocket, other connections have their turn."""

import re

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

try:
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
except ImportError:  # only --speech needs it
    WebSocketsSansIOProtocol = object

HEAD = 65536  # largest request line with headers, in bytes
HEAD_END = re.compile(rb"\n\r?\n")
SLICE = 4096  # the parser gets a body in pieces of this many bytes
CHUNKED_SLICE = 256  # a body of unknown length; requests may begin behind its end
PIPELINE = 16  # requests of a connection that wait; more stay unread
MESSAGES = 16  # messages of a WebSocket that wait; more stay unread
FRAGMENTS = 1024  # of a message
EMPTY = 64  # pings, pongs and fragments without bytes between two messages
SECURITY = [("Content-Security-Policy", "frame-ancestors 'self'"), ("X-Content-Type-Options", "nosniff")]  # of all answers


class Flow(FlowControl):
    """Reads nothing while the connection has bytes that its parser has not got."""

    is_full = False

    def resume_reading(self):
        if not self.is_full:
            super().resume_reading()


class Protocol(HttpToolsProtocol):
    """Limits the time and the size of a request's head, and the number of requests that wait for the one before them."""

    patience, alarm = 10.0, None
    # received: bytes of the current head, or of framing since the last bytes of a body.
    # piece: bytes that are being parsed; the next head may begin among them.
    # tail: the last bytes of a head that is not complete, because its end may be divided.
    in_head, received, piece, tail = True, 0, 0, b""
    body_left = None  # bytes of the current body, if its length is known
    unread = b""  # what came behind PIPELINE requests
    is_upgraded = False  # the connection is a WebSocket's now

    def connection_made(self, transport):
        super().connection_made(transport)
        self.flow = Flow(transport)
        self.alarm = self.loop.call_later(self.patience, transport.close)

    def data_received(self, data):
        data, self.unread = self.unread + data, b""
        at = 0
        while at < len(data) and not self.transport.is_closing():
            if len(self.pipeline) >= PIPELINE:
                self.unread = data[at:]
                break
            end = min(at + (CHUNKED_SLICE if self.body_left is None else min(SLICE, max(self.body_left, 1))), len(data))
            if self.in_head:  # parse up to its end, which may be divided between two pieces of data
                found = HEAD_END.search(self.tail + data[at:at + 2])
                behind = found.end() - len(self.tail) if found else 0
                found = HEAD_END.search(data, at)
                end = at + behind if behind > 0 else found.end() if found else len(data)
            elif self.body_left is not None:
                self.body_left -= end - at
            self.received, self.piece = self.received + end - at, 0 if self.in_head else end - at
            self.tail = b""
            if self.received > HEAD:
                self.refuse()
                break
            super().data_received(data[at:end])
            at = end
            if self.is_upgraded:
                if at < len(data):
                    self.transport.get_protocol().data_received(data[at:])
                return
        self.flow.is_full = bool(self.unread)
        if self.unread:
            self.flow.pause_reading()
        elif self.in_head and self.received:
            self.tail = data[-2:]
        if self.cycle is not None and not self.cycle.response_complete:  # a head is complete
            self.calm()
        elif self.alarm is None and not self.transport.is_closing():
            self.alarm = self.loop.call_later(self.patience, self.transport.close)

    def handle_websocket_upgrade(self):
        super().handle_websocket_upgrade()
        self.is_upgraded = True
        self.calm()

    def on_headers_complete(self):
        super().on_headers_complete()
        self.in_head, self.received = False, 0
        length = dict(self.headers).get(b"content-length", b"")
        self.body_left = int(length[:18]) if length.isdigit() else None

    def on_body(self, body):
        super().on_body(body)
        self.received = 0  # in a body only framing counts: sizes of chunks, and trailers

    def on_message_complete(self):
        super().on_message_complete()
        self.in_head, self.received = True, self.piece

    def on_response_complete(self):
        super().on_response_complete()
        if self.unread and not self.transport.is_closing():
            self.loop.call_soon(self.read_on)

    def read_on(self):
        """Parses what came behind PIPELINE requests, one of which is answered now."""
        if self.unread and not self.transport.is_closing():
            self.flow.is_full = False
            self.data_received(b"")
            if not self.unread:
                self.flow.resume_reading()

    def refuse(self):
        if self.cycle is None or self.cycle.response_complete:  # otherwise an answer is being written
            body = b'{"error":"the head of the request is larger than %d bytes"}' % HEAD
            self.transport.write(
                b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n%s\r\n" % (
                    len(body), b"".join(f"{name}: {value}\r\n".encode() for name, value in SECURITY)) + body)
        self.transport.close()

    def connection_lost(self, exc):
        self.calm()
        super().connection_lost(exc)

    def calm(self):
        if self.alarm is not None:
            self.alarm.cancel()
        self.alarm = None


class WebSocket(WebSocketsSansIOProtocol):
    """Bounds what waits of a client: messages, fragments, and answers to pings that it does not read. Drops the connection to a
    client that does not read, when its request has ended. To close it would wait for the client."""

    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        self.unread, self.is_reading = bytearray(), False
        self.empty = 0  # frames without bytes since the last message

    def data_received(self, data):
        if not self.handshake_initiated:  # the head, which Protocol has checked
            super().data_received(data)
            return
        self.unread += data
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()
        self.read_soon()

    def read_soon(self):
        if not self.is_reading:
            self.is_reading = True
            self.loop.call_soon(self.read_on)

    def read_on(self):
        """Parses a slice of what has come. Goes on with the next slice in the loop's next round, or when there is room."""
        self.is_reading = False
        has_room = self.close_sent or self.queue.qsize() < MESSAGES  # nothing waits after the server's close
        if self.transport.is_closing() or not self.writable.is_set() or not has_room:
            return
        if self.unread:
            data = bytes(self.unread[:SLICE // 2])
            del self.unread[:SLICE // 2]
            super().data_received(data)
            self.read_soon()
        elif self.read_paused and (self.close_sent or self.queue.empty()):
            self.read_paused = False
            self.transport.resume_reading()

    async def receive(self):
        message = await self.queue.get()
        self.read_soon()
        return message

    def resume_writing(self):
        super().resume_writing()
        self.read_soon()

    def handle_cont(self, event):
        self.count(event.data)
        if len(self.frames) >= FRAGMENTS:
            self.break_off(1009, f"a message has more than {FRAGMENTS} fragments")
        else:
            super().handle_cont(event)

    def handle_ping(self):
        self.count(b"")
        super().handle_ping()

    def handle_pong(self, event):
        self.count(b"")
        super().handle_pong(event)

    def send_receive_event_to_app(self):
        self.empty = 0
        super().send_receive_event_to_app()

    def count(self, data):
        self.empty += not data
        if self.empty > EMPTY:
            self.break_off(1008, f"more than {EMPTY} frames without bytes between two messages")

    def break_off(self, code, reason):
        """Closes the connection to a client that goes beyond a limit."""
        self.empty = 0
        if not self.close_sent and not self.transport.is_closing():
            self.unread.clear()
            self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
            self.conn.send_close(code, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
            self.transport.close()

    def on_task_complete(self, task):
        super().on_task_complete(task)
        if not self.writable.is_set():
            self.transport.abort()

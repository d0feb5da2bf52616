"""HTTP connections with limits that uvicorn does not have."""

import re

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

try:
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
except ImportError:  # only --speech needs it
    WebSocketsSansIOProtocol = object

HEAD = 65536  # largest request line with headers, in bytes
HEAD_END = re.compile(rb"\n\r?\n")
SLICE = 4096  # the parser gets a body in pieces of this many bytes


class Protocol(HttpToolsProtocol):
    """Limits the time and the size of a request's head, which uvicorn's protocol does not."""

    patience, alarm = 10.0, None
    # received: bytes of the current head, or of framing since the last bytes of a body.
    # piece: bytes that are being parsed; the next head may begin among them.
    # tail: the last bytes of a head that is not complete, because its end may be divided.
    in_head, received, piece, tail = True, 0, 0, b""
    is_upgraded = False  # the connection is a WebSocket's now

    def connection_made(self, transport):
        super().connection_made(transport)
        self.alarm = self.loop.call_later(self.patience, transport.close)

    def data_received(self, data):
        at = 0
        while at < len(data) and not self.transport.is_closing():
            end = min(at + SLICE, len(data))
            if self.in_head:  # parse up to its end, which may be divided between two pieces of data
                found = HEAD_END.search(self.tail + data[at:at + 2])
                behind = found.end() - len(self.tail) if found else 0
                found = HEAD_END.search(data, at)
                end = at + behind if behind > 0 else found.end() if found else len(data)
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
        if self.in_head and self.received:
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

    def on_body(self, body):
        super().on_body(body)
        self.received = 0  # in a body only framing counts: sizes of chunks, and trailers

    def on_message_complete(self):
        super().on_message_complete()
        self.in_head, self.received = True, self.piece

    def refuse(self):
        if self.cycle is None or self.cycle.response_complete:  # otherwise an answer is being written
            body = b'{"error":"the head of the request is larger than %d bytes"}' % HEAD
            self.transport.write(
                b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.transport.close()

    def connection_lost(self, exc):
        self.calm()
        super().connection_lost(exc)

    def calm(self):
        if self.alarm is not None:
            self.alarm.cancel()
        self.alarm = None


class WebSocket(WebSocketsSansIOProtocol):
    """Drops the connection to a client that does not read, when its request has ended. To close it would wait for the client."""

    def on_task_complete(self, task):
        super().on_task_complete(task)
        if not self.writable.is_set():
            self.transport.abort()

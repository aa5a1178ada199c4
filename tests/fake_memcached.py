"""A program that behaves as Memcached does to those who drive it, as far as GET and SET go.

One thread, of the name that Memcached's have, serves all connections, however requests are cut.
Run as `python fake_memcached.py -p PORT ...`; other options are taken and not heeded. Values of
more than 1 MiB are refused.
"""

import ctypes
import selectors
import socket
import sys
import threading

VERSION = "1.6.99"
_PR_SET_NAME = 15  # linux/prctl.h
_LARGEST = 1 << 20


class Server:
    """What it holds and has counted."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._values: dict[bytes, bytes] = {}
        self._pending: dict[socket.socket, bytes] = {}
        self._counts = dict.fromkeys(("cmd_get", "cmd_set", "get_misses"), 0)

    def serve(self) -> None:
        """Serve until the process ends."""
        ctypes.CDLL(None).prctl(_PR_SET_NAME, b"mc-worker")
        self._selector.register(self._listener, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    connection, _ = self._listener.accept()
                    self._pending[connection] = b""
                    self._selector.register(connection, selectors.EVENT_READ)
                else:
                    self._read(key.fileobj)  # type: ignore[arg-type]

    def _read(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(1 << 16)
            if data:
                replies, rest = self._answer(self._pending[connection] + data)
                self._pending[connection] = rest
                connection.sendall(replies)
                return
        except OSError:
            pass
        self._selector.unregister(connection)
        connection.close()

    def _answer(self, data: bytes) -> tuple[bytes, bytes]:
        """Replies to all whole requests, and what is left."""
        replies = []
        while b"\r\n" in data:
            line, _, rest = data.partition(b"\r\n")
            words = line.split(b" ")
            if words[0] == b"set":
                size = int(words[4])
                if len(rest) < size + 2:
                    break
                replies.append(self._set(words[1], rest[:size]))
                rest = rest[size + 2 :]
            else:
                replies.append(self._ask(words))
            data = rest
        return b"".join(replies), data

    def _set(self, key: bytes, value: bytes) -> bytes:
        if len(value) > _LARGEST:
            return b"SERVER_ERROR object too large for cache\r\n"
        self._counts["cmd_set"] += 1
        self._values[key] = value
        return b"STORED\r\n"

    def _ask(self, words: list[bytes]) -> bytes:
        if words[0] == b"get":
            self._counts["cmd_get"] += 1
            value = self._values.get(words[1])
            if value is None:
                self._counts["get_misses"] += 1
                return b"END\r\n"
            return b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (words[1], len(value), value)
        if words == [b"version"]:
            return b"VERSION %s\r\n" % VERSION.encode()
        if words == [b"flush_all"]:
            self._values.clear()
            return b"OK\r\n"
        if words[0] == b"stats":
            held = sum(len(key) + len(value) for key, value in self._values.items())
            stats: dict[str, object] = {
                "version": VERSION,
                "libevent": "none",
                "curr_items": len(self._values),
                "bytes": held,
                **self._counts,
            }
            if words[1:] == [b"settings"]:
                stats = {"num_threads": 1, "reqs_per_event": 20}
            return b"".join(b"STAT %s %s\r\n" % (name.encode(), str(value).encode())
                            for name, value in stats.items()) + b"END\r\n"  # fmt: skip
        return b"ERROR\r\n"


def main(arguments: list[str]) -> None:
    """As `memcached ARGUMENTS`."""
    if {"-V", "--version"} & set(arguments):
        print(f"memcached {VERSION}")
        return
    port = int(arguments[arguments.index("-p") + 1])
    with socket.create_server(("127.0.0.1", port), backlog=512) as listener:
        worker = threading.Thread(target=Server(listener).serve)
        worker.start()
        worker.join()


if __name__ == "__main__":
    main(sys.argv[1:])

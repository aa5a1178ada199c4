import socket
import time

import pytest

from forecache.calibration.drive.connection import Address, RespClient
from forecache.calibration.observe.readers.info import info_fields, info_number
from forecache.sim.errors import EngineError
from tests.live_engine import FakeEngine


@pytest.mark.parametrize(
    ("raw", "reply"),
    [
        (b"+PONG\r\n", "PONG"),
        (b":42\r\n", 42),
        (b"$-1\r\n", None),
        (b"$4\r\na\r\nb\r\n", "a\r\nb"),
        (b"*2\r\n$1\r\na\r\n*1\r\n:-7\r\n", ["a", [-7]]),
        (b"*-1\r\n", None),
    ],
)
def test_replies(raw: bytes, reply: object, fake_engine: FakeEngine) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(1000)
        for i in range(len(raw)):  # byte by byte: replies may arrive in any pieces
            connection.sendall(raw[i : i + 1])
            time.sleep(0.001)

    with RespClient(fake_engine(serve)) as client:
        assert client.command("ANY") == reply


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (b"-ERR unknown command\r\n", "refused ANY: ERR unknown command"),
        (b"", "the engine closed it"),
        (b"$10\r\nabc", "closed it inside a reply"),
        (b"HTTP/1.1 400 Bad Request\r\n", "no RESP reply"),
        (b"$abc\r\n", "invalid literal"),
    ],
)
def test_broken_replies(raw: bytes, complaint: str, fake_engine: FakeEngine) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(raw)

    with RespClient(fake_engine(serve)) as client, pytest.raises(EngineError, match=complaint):
        client.command("ANY")


def test_no_server_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(EngineError, match=f"no engine answers at 127.0.0.1:{port}"):
        RespClient(Address(port=port))


def test_info_fields_and_absent_numbers() -> None:
    text = "# Server\r\nversion:9.1\r\n\r\n# Stats\r\nreads:12\r\nratio:0.5\r\nslave0:ip=::1\r\n"
    fields = info_fields(text)
    assert fields["version"] == "9.1"
    assert fields["slave0"] == "ip=::1"
    assert info_number(fields, "reads") == 12
    assert info_number(fields, "writes") is None
    assert info_number(fields, "slave0") is None

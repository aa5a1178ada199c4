"""RDB files: those of servers are read exactly, made ones come back, damaged ones are refused."""

import random
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.drive.servers import EngineProcess
from forecache.calibration.today.keys import group_keys
from forecache.calibration.today.rdb import (
    Cursor,
    RdbReader,
    intset_lengths,
    is_rdb,
    listpack_lengths,
    open_rdb,
    unpack,
    ziplist_lengths,
)
from forecache.sim.errors import InputError
from tests.calibration.keyspace.known_keys import known_keys, totals_of

HERE = Path(__file__).parent
SAMPLES = sorted((HERE / "samples").glob("*.rdb"))
DAMAGES = 400


def read(data: bytes) -> RdbReader:
    return RdbReader(data, file="dump.rdb")


# --- files of servers -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_real_file_has_the_keys_that_were_set(path: Path) -> None:
    engine, version = path.stem.split("-")
    reader = RdbReader(open_rdb(path), file=path.name)
    keys = list(reader)
    expected = known_keys(engine, tuple(int(each) for each in version.split(".")[:2]))
    assert totals_of(keys) == expected.totals
    assert reader.about.engine == (engine, version)
    assert reader.about.used_memory_bytes > 1e6
    assert is_rdb(path)


def test_samples_have_all_versions() -> None:
    versions = {RdbReader(path.read_bytes(), file="f").about.version for path in SAMPLES}
    assert versions == {9, 10, 11, 12, 13, 80}


def test_a_live_server_has_the_keys_that_were_set(engine: EngineProcess) -> None:
    with engine.control() as client:
        client.command("FLUSHALL")
        version = dict(
            line.split(":", 1) for line in client.info("server").splitlines() if ":" in line
        )["valkey_version"]
        expected = known_keys("valkey", tuple(int(each) for each in version.split(".")[:2]))
        client.pipeline(expected.commands)
        held = client.keys_held()
        client.command("SAVE")
        settings = client.config()
        client.command("FLUSHALL")
    path = Path(settings["dir"]) / settings["dbfilename"]
    keys = list(RdbReader(open_rdb(path), file="live"))
    assert len(keys) == held
    assert totals_of(keys) == expected.totals


# --- made files -----------------------------------------------------------------------------------


def length(number: int) -> bytes:
    if number < 64:
        return bytes([number])
    if number < 2**14:
        return bytes([0x40 | number >> 8, number & 0xFF])
    if number < 2**32:
        return b"\x80" + number.to_bytes(4, "big")
    return b"\x81" + number.to_bytes(8, "big")


def plain(text: bytes) -> bytes:
    return length(len(text)) + text


def literal(text: bytes) -> bytes:
    """A string as LZF keeps it that finds no repetition."""
    packed = b"".join(
        bytes([len(text[at : at + 32]) - 1]) + text[at : at + 32] for at in range(0, len(text), 32)
    )
    return b"\xc3" + length(len(packed)) + length(len(text)) + packed


def integer(number: int) -> bytes:
    for code, width in ((0, 1), (1, 2), (2, 4)):
        if -(2 ** (8 * width - 1)) <= number < 2 ** (8 * width - 1):
            return bytes([0xC0 | code]) + number.to_bytes(width, "little", signed=True)
    return plain(str(number).encode())


TEXTS = st.binary(max_size=200)
STRINGS = st.one_of(
    TEXTS.map(lambda text: (plain(text), len(text))),
    st.binary(min_size=1, max_size=200).map(lambda text: (literal(text), len(text))),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: (integer(number), len(str(number)))),
    st.sampled_from([2**6, 2**14, 2**14 - 1]).map(lambda size: (plain(bytes(size)), size)),
)


@given(
    keys=st.lists(st.tuples(STRINGS, STRINGS, st.sampled_from([b"", b"\xfc" + bytes(8)]))),
    members=st.lists(STRINGS, min_size=1, max_size=20),
    scores=st.lists(st.tuples(STRINGS, st.floats()), min_size=1, max_size=20),
)
def test_what_is_written_comes_back(
    keys: list[tuple[tuple[bytes, int], tuple[bytes, int], bytes]],
    members: list[tuple[bytes, int]],
    scores: list[tuple[tuple[bytes, int], float]],
) -> None:
    data = b"REDIS0009\xfa" + plain(b"redis-ver") + plain(b"6.2.1") + b"\xfe\x00\xfb\x01\x00"
    for name, value, expires in keys:
        data += expires + b"\x00" + name[0] + value[0]
    data += b"\x02" + plain(b"set") + length(len(members)) + b"".join(each for each, _ in members)
    data += b"\x05" + plain(b"ranks") + length(len(scores))
    data += b"".join(member[0] + struct.pack("<d", score) for member, score in scores)
    pairs = [*members, *members]
    data += b"\x04" + plain(b"hash") + length(len(members)) + b"".join(each for each, _ in pairs)
    reader = read(data + b"\xff" + bytes(8))
    *strings, a_set, ranks, a_hash = reader
    assert reader.about.engine == ("redis", "6.2.1")
    assert [key.key_bytes for key in strings] == [name[1] for name, _, _ in keys]
    assert [key.value.element_bytes for key in strings] == [value[1] for _, value, _ in keys]
    assert [key.expires for key in strings] == [bool(expires) for _, _, expires in keys]
    size = sum(number for _, number in members)
    assert (a_set.value.elements, a_set.value.element_bytes) == (len(members), size)
    assert ranks.value.element_bytes == sum(member[1] for member, _ in scores)
    assert a_hash.value.element_bytes + a_hash.value.value_bytes == sum(n for _, n in pairs)


@given(parts=st.lists(st.binary(min_size=1, max_size=32), min_size=1), again=st.data())
def test_compressed_strings_unpack(parts: list[bytes], again: st.DataObject) -> None:
    packed, whole = b"", b""
    for part in parts:
        packed += bytes([len(part) - 1]) + part
        whole += part
        if again.draw(st.booleans()):
            back = again.draw(st.integers(1, min(len(whole), 8192)))
            count = again.draw(st.integers(3, 264))
            offset = back - 1
            if count < 9:
                packed += bytes([(count - 2) << 5 | offset >> 8, offset & 0xFF])
            else:
                packed += bytes([7 << 5 | offset >> 8, count - 9, offset & 0xFF])
            for _ in range(count):
                whole += whole[-back : len(whole) - back + 1]
    assert unpack(packed, len(whole)) == whole
    assert unpack(packed, len(whole) - 1) is None


ELEMENTS = st.lists(
    st.one_of(
        st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 12, 13, 127, 128, 4095, -4096]),
        st.binary(max_size=100), st.sampled_from([bytes(4095), bytes(4096), bytes(70_000)]),
    ),
    max_size=30,
)  # fmt: skip


def texts(elements: list[int | bytes]) -> list[int]:
    return [len(str(each)) if isinstance(each, int) else len(each) for each in elements]


def in_listpack(element: int | bytes) -> bytes:
    if isinstance(element, bytes):
        size = len(element)
        head = (
            bytes([0x80 | size]) if size < 64
            else bytes([0xE0 | size >> 8, size & 0xFF]) if size < 4096
            else b"\xf0" + size.to_bytes(4, "little")
        )  # fmt: skip
        encoded = head + element
    elif 0 <= element < 128:
        encoded = bytes([element])
    elif -4096 <= element < 4096:
        value = element & 0x1FFF
        encoded = bytes([0xC0 | value >> 8, value & 0xFF])
    else:
        code, width = next(
            (code, width)
            for code, width in ((0xF1, 2), (0xF2, 3), (0xF3, 4), (0xF4, 8))
            if -(2 ** (8 * width - 1)) <= element < 2 ** (8 * width - 1)
        )
        encoded = bytes([code]) + element.to_bytes(width, "little", signed=True)
    back, rest = b"", len(encoded)
    while True:  # of which only the length counts here
        back, rest = back + bytes([rest & 127]), rest >> 7
        if not rest:
            return encoded + back


@given(elements=ELEMENTS)
def test_listpacks_tell_the_lengths_of_their_elements(elements: list[int | bytes]) -> None:
    body = b"".join(in_listpack(each) for each in elements)
    data = (len(body) + 7).to_bytes(4, "little") + bytes(2) + body + b"\xff"
    assert listpack_lengths(data) == texts(elements)
    assert listpack_lengths(data[:-1]) is None


def in_ziplist(element: int | bytes, before: int) -> bytes:
    head = bytes([before]) if before < 254 else b"\xfe" + before.to_bytes(4, "little")
    if isinstance(element, bytes):
        size = len(element)
        return head + (
            bytes([size]) if size < 64
            else bytes([0x40 | size >> 8, size & 0xFF]) if size < 2**14
            else b"\x80" + size.to_bytes(4, "big")
        ) + element  # fmt: skip
    if 0 <= element <= 12:
        return head + bytes([0xF1 + element])
    code, width = next(
        (code, width)
        for code, width in ((0xFE, 1), (0xC0, 2), (0xF0, 3), (0xD0, 4), (0xE0, 8))
        if -(2 ** (8 * width - 1)) <= element < 2 ** (8 * width - 1)
    )
    return head + bytes([code]) + element.to_bytes(width, "little", signed=True)


@given(elements=ELEMENTS)
def test_ziplists_tell_the_lengths_of_their_elements(elements: list[int | bytes]) -> None:
    body, before = b"", 0
    for element in elements:
        entry = in_ziplist(element, before)
        body, before = body + entry, len(entry)
    data = (len(body) + 11).to_bytes(4, "little") + bytes(6) + body + b"\xff"
    assert ziplist_lengths(data) == texts(elements)


@given(numbers=st.lists(st.integers(-(2**15), 2**15 - 1)), width=st.sampled_from([2, 4, 8]))
def test_sets_of_integers_tell_their_digits(numbers: list[int], width: int) -> None:
    data = width.to_bytes(4, "little") + len(numbers).to_bytes(4, "little")
    data += b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)
    assert intset_lengths(data) == [len(str(number)) for number in numbers]
    assert intset_lengths(data + b"x") is None


def check_sentence(error: InputError) -> None:
    """Check that an error is one sentence about the file."""
    assert str(error).startswith("dump.rdb: found")
    assert "\n" not in str(error)


# --- damaged files --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "found b'' at byte 0; valid is an RDB file, as SAVE writes it"),
        (b"hello world", "valid is an RDB file"),
        (b"REDIS0099\xff", "found version 99 of the format at byte 0; valid is 1 to 14"),
        (b"VALKEY081\xff", "valid is 1 to 80"),
        (b"REDIS0009", "found its end at byte 9, inside a value; valid is a whole RDB file"),
        (b"REDIS0009\x00\x01a\x05ab", "found its end at byte 15, inside a value"),
        (b"REDIS0009\x63\x01a", "type 99 of a value, which is not known"),
        (b"REDIS0009\x00\xc5", "encoding 5 of a string at byte 11; valid is 0 to 3"),
        (b"REDIS0009\x00\xa0", "length of kind 0xa0"),
        (b"REDIS0009\x10\x01a\x05abcde\xff", "a damaged packed hash"),
        (b"REDIS0009\x00\x01a\xc3\x01\x80\xff\xff\xff\xff", "a string of 4,294,967,295 bytes in 1"),
        (b"REDIS0009\x00\x01a\xc3\x80\xff\xff\xff\xff\x80\xff\xff\xff\xff", "at most 536,870,912"),
    ],
)
def test_a_bad_file_is_one_sentence(data: bytes, says: str) -> None:
    with pytest.raises(InputError, match=r"dump\.rdb: found") as caught:
        list(read(data))
    assert says in str(caught.value)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_damaged_file_is_refused_or_read(path: Path) -> None:
    draw, whole = random.Random(path.stem), path.read_bytes()
    refused = 0
    for number in range(DAMAGES):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 1, 3))):
            data[draw.randrange(9, len(data))] = draw.randrange(256)
        cut = draw.randrange(len(data)) if number % 4 == 0 else len(data)
        try:
            held = group_keys(read(bytes(data[:cut])), how="RDB")
        except InputError as error:
            refused += 1
            check_sentence(error)
        else:
            assert all(group.keys > 0 and group.elements >= 0 for group in held.groups)
    assert 0 < refused < DAMAGES


@given(data=st.binary(max_size=300), magic=st.sampled_from([b"REDIS0011", b"VALKEY080"]))
def test_any_bytes_are_refused_or_read(data: bytes, magic: bytes) -> None:
    try:
        keys = list(read(magic + data))
    except InputError as error:
        check_sentence(error)
    else:
        assert len(keys) <= len(data)


def test_the_cursor_does_not_go_beyond_the_end() -> None:
    cursor = Cursor(b"\x05abc", file="f")
    with pytest.raises(InputError, match="its end at byte 4"):
        cursor.string()

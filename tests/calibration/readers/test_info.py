from pathlib import Path

import pytest

from forecache.calibration.observe.readers.info import info_fields, info_number

SAMPLES = Path(__file__).with_name("samples") / "info"


@pytest.mark.parametrize(
    ("file", "version", "user_s"),
    [
        ("redis-7.0", ("redis_version", "7.0.15"), None),
        ("valkey-8.0", ("valkey_version", "8.0.1"), None),
        ("valkey-9.1", ("valkey_version", "9.1.2"), 0.232114),
    ],
)
def test_fields_of_engines(file: str, version: tuple[str, str], user_s: float | None) -> None:
    fields = info_fields((SAMPLES / f"{file}.txt").read_bytes().decode())
    assert fields[version[0]] == version[1]
    assert not any(name.startswith("#") for name in fields)
    if user_s is not None:
        assert info_number(fields, "used_cpu_user_main_thread") == user_s
        assert fields["cmdstat_get"].startswith("calls=20000,usec=2279,")


def test_what_is_no_number_or_not_there_is_none() -> None:
    fields = info_fields("# Server\r\n\r\nmode:standalone\r\nhz:10\r\nnoise\r\n")
    assert fields == {"mode": "standalone", "hz": "10"}
    assert info_number(fields, "hz") == 10.0
    assert info_number(fields, "mode") is None
    assert info_number(fields, "io_threads_active") is None

"""Engines that were unpacked into a folder: which there are, by name and version."""

from pathlib import Path

from evidence.live.engines import unpacked


def test_engines_are_told_by_their_folders_in_order_of_versions(tmp_path: Path) -> None:
    for folder, binary in (
        ("redis-8.0.6", "redis-server"),
        ("redis-2.8.19", "redis-server"),
        ("redis-10.0.1", "redis-server"),
        ("memcached-1.6.38", "memcached"),
        ("valkey-9.1.2", "valkey-cli"),  # no server in it
        ("libraries", "libc.so.6"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / binary).touch()
    found = unpacked(tmp_path)
    assert [(engine.name, engine.version) for engine in found] == [
        ("memcached", "1.6.38"),
        ("redis", "2.8.19"),
        ("redis", "8.0.6"),
        ("redis", "10.0.1"),
    ]
    assert all(engine.server.exists() for engine in found)


def test_a_folder_that_is_not_there_has_no_engines(tmp_path: Path) -> None:
    assert unpacked(tmp_path / "none") == []

"""C code: declarations read from a header, and a library built by whatever compiler there is."""

import ctypes
from pathlib import Path

import pytest

from forecache.sim.native import Layout
from forecache.sim.native import toolchain as native

HEADER = """
// A comment; with struct nobody { }.
enum {
    FIRST,
    SECOND = 5,
    THIRD,  // one more
    SUM = SECOND + THIRD,
};
#define WIDE (INT64_C(1) << 40)

struct pair {
    int32_t left;
    int32_t right;
};

struct row {
    int64_t *values;  // elsewhere
    union {
        struct pair pair;
        int64_t both;
    };
    struct pair pairs[SECOND];
    double
        last;
    struct pair rest[];
};
"""


def test_declarations_of_a_header_are_read(tmp_path: Path) -> None:
    header = tmp_path / "example.h"
    header.write_text(HEADER)
    layout = Layout(header)
    expected = {"FIRST": 0, "SECOND": 5, "THIRD": 6, "SUM": 11, "WIDE": 1 << 40}
    assert layout.constants == expected
    assert set(layout.dtypes) == {"pair", "row"}
    fields = layout.dtypes["row"].fields
    assert fields is not None
    offsets = {name: field[1] for name, field in fields.items()}
    assert offsets == {"values": 0, "pair": 8, "both": 8, "pairs": 16, "last": 56}
    assert layout.dtypes["row"].itemsize == 64


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    header = tmp_path / "example.h"
    header.write_text("\nstruct row {\n    int64_t (*call)(int);\n};\n")
    with pytest.raises(ValueError, match="not a declaration that can be read"):
        Layout(header)


def source(folder: Path, text: str) -> Path:
    (folder / "answer.c").write_text(text)
    return folder


def test_a_library_is_built_from_its_sources_and_again_when_they_change(tmp_path: Path) -> None:
    visible = '__attribute__((visibility("default"))) int answer(void)'
    first = native.build(source(tmp_path, visible + " { return 41; }\n"))
    assert ctypes.CDLL(str(first)).answer() == 41
    assert native.is_current(tmp_path)
    source(tmp_path, visible + " { return 42; }\n")
    assert not native.is_current(tmp_path)
    second = native.build(tmp_path)
    assert ctypes.CDLL(str(second)).answer() == 42
    assert [path.name for path in tmp_path.glob("_*.so")] == [second.name]


def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"failed:\n(.|\n)*error"):
        native.build(source(tmp_path, "int answer(void) { return nothing; }\n"))
    assert [path.name for path in tmp_path.iterdir()] == ["answer.c"]


def test_without_a_compiler_that_of_ziglang_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv(native.TARGET, raising=False)
    monkeypatch.setattr(native.shutil, "which", lambda _name: None)
    monkeypatch.setattr(native.importlib.util, "find_spec", lambda _name: object())
    assert native.compiler()[1:] == ["-m", "ziglang", "cc", "-mcpu=baseline"]
    monkeypatch.setattr(native.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(OSError, match="no C compiler"):
        native.compiler()


def test_a_wheel_for_another_machine_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.TARGET, "aarch64")
    assert native.compiler()[-2:] == ["-target", "aarch64-linux-gnu.2.28"]
    assert native.wheel_platform("aarch64") == "manylinux_2_28_aarch64"

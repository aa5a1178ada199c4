"""What Python reads from headers of C code, against the compiler."""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecache.calibration.drive import loadgen
from forecache.models.node import layout as node
from forecache.models.over_time.cluster.load import cohorts as cluster
from forecache.sim.native.toolchain import ROOT, compiler


@pytest.mark.parametrize(
    ("header", "records"),
    [
        ("models/node/native/node.h", node.RECORDS),
        ("models/over_time/cluster/load/native/cluster.h", cluster.RECORDS),
        ("calibration/drive/native/loadgen.h", loadgen.RECORDS),
    ],
)
def test_fields_lie_where_the_compiler_puts_them(
    header: str, records: dict[str, np.dtype[Any]], tmp_path: Path
) -> None:
    """A program that prints every offset says the same as the declarations that Python read."""
    expected = [
        (name, field, dtype.fields[field][1])
        for name, dtype in records.items()
        for field in dtype.names or ()
        if dtype.fields is not None
    ]
    lines = [f'printf("%zu ", offsetof(struct {name}, {field}));' for name, field, _ in expected]
    sizes = [f'printf("%zu ", sizeof(struct {name}));' for name in records]
    program = tmp_path / "offsets.c"
    program.write_text(
        f'#include <stdio.h>\n#include "{header}"\n'
        "int main(void) {\n" + "\n".join([*lines, *sizes]) + "\nreturn 0;\n}\n"
    )
    made = tmp_path / "offsets"
    subprocess.run(
        [*compiler(), "-std=c11", "-I", str(ROOT), "-o", str(made), str(program), "-lm"],
        check=True,
    )
    found = subprocess.run([str(made)], check=True, capture_output=True, text=True).stdout
    numbers = list(map(int, found.split()))
    assert numbers[: len(expected)] == [offset for _, _, offset in expected]
    assert numbers[len(expected) :] == [dtype.itemsize for dtype in records.values()]

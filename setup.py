"""Maps the top-level rooms of the checkout to subpackages of `forecache`; builds their C code."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from setuptools import Distribution, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOMS = ["sim", "hwprofiles", "models", "calibration", "reports"]
ROOT = Path(__file__).resolve().parent

package_dir = {"forecache": "forecache"}
packages = ["forecache"] + [f"forecache.{name}" for name in find_packages("forecache")]
for room in ROOMS:
    package_dir[f"forecache.{room}"] = room
    packages.append(f"forecache.{room}")
    packages += [f"forecache.{room}.{name}" for name in find_packages(room)]

# The package is not there yet, so its module is loaded by its path.
spec = importlib.util.spec_from_file_location("build", ROOT / "sim" / "native" / "toolchain.py")
assert spec is not None and spec.loader is not None
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)


class BuildWithC(build_py):
    """Build shared libraries as well: beside their sources if these are used where they are."""

    def run(self) -> None:
        super().run()
        for name in native.FOLDERS:
            folder = ROOT / name
            # What lies there is of this machine.
            is_current = native.is_current(folder) and not os.environ.get(native.TARGET)
            if self.editable_mode:
                if not is_current:
                    native.build(folder)
                continue
            to = Path(self.build_lib) / "forecache" / name
            if is_current:
                to.mkdir(parents=True, exist_ok=True)
                shutil.copy2(native.library_path(folder), to)
            else:
                native.build(folder, to)


class WithLibraries(Distribution):
    """What is built holds machine code, of no particular Python."""

    def has_ext_modules(self) -> bool:
        return True


class AnyPythonWheel(bdist_wheel):
    """Its libraries need a platform and no version of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        _, _, platform = super().get_tag()
        if target := os.environ.get(native.TARGET):
            platform = native.wheel_platform(target)
        return "py3", "none", platform


setup(
    packages=packages,
    package_dir=package_dir,
    # Catalogue entries, engine profiles, report templates and C code are data of their room.
    package_data={
        "": ["py.typed"]
        + [
            f"**/*.{suffix}"
            for suffix in (
                "yaml",
                "csv",
                "json",
                "jsonl",
                "gz",
                "jinja",
                "css",
                "js",
                "typ",
                "md",
                "c",
                "h",
                "sh",
            )
        ]
    },
    cmdclass={"build_py": BuildWithC, "bdist_wheel": AnyPythonWheel},
    distclass=WithLibraries,
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
)

"""Maps the top-level rooms of the checkout to subpackages of `forecache`."""

from pathlib import Path

from setuptools import find_packages, setup

ROOMS = ["sim", "hwprofiles", "models", "calibration", "reports"]

package_dir = {"forecache": "forecache"}
packages = ["forecache"] + [f"forecache.{name}" for name in find_packages("forecache")]
for room in ROOMS:
    package_dir[f"forecache.{room}"] = room
    packages.append(f"forecache.{room}")
    packages += [f"forecache.{room}.{name}" for name in find_packages(room)]

setup(
    packages=packages,
    package_dir=package_dir,
    # Catalogue entries, engine profiles and report templates are data of their room.
    package_data={
        "": ["py.typed"]
        + [f"**/*.{suffix}" for suffix in ("yaml", "json", "jsonl", "gz", "jinja", "css", "md")]
    },
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
)

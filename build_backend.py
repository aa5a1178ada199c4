"""Builds with setuptools, and asks for a C compiler from PyPI where the machine has none."""

from __future__ import annotations

import os
import shutil
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

Settings = dict[str, Any] | None


def _compiler() -> list[str]:
    here = any(shutil.which(name) for name in ("cc", "gcc", "clang")) or "CC" in os.environ
    return [] if here and "FORECACHE_TARGET" not in os.environ else ["ziglang>=0.13"]


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """What a wheel takes to build."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_compiler()]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """What an editable installation takes to build."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *_compiler()]

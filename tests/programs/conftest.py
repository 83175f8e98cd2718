"""Fixtures for all tests here: the library to preload; skipped tests appear in the summary."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))  # in every import mode of pytest

from finding import ROOT


def pytest_configure(config: pytest.Config) -> None:
    """Name each skipped program and its reason in the summary, whatever the options say."""
    if not {"s", "a", "A"} & set(config.option.reportchars):
        config.option.reportchars += "s"


@pytest.fixture(scope="session")
def preload() -> Path:
    """The library under test: HAKMEM_TEST_LIB, or the one that the release build made."""
    lib = Path(os.environ.get("HAKMEM_TEST_LIB") or ROOT / "build" / "libhakmem.so").resolve()
    if not lib.is_file():
        pytest.fail(
            f"{lib} does not exist: run `make build`, or name another with HAKMEM_TEST_LIB",
            pytrace=False,
        )
    return lib

"""Settings of every test run: graphs are verified, the disk cache is off, `--bless` rewrites the golden files."""

import os

import pytest

# Set at import, so that it holds for code that runs while tests are collected.
os.environ.setdefault("TRACEGRAD_VERIFY", "1")
os.environ["TRACEGRAD_CACHE"] = "0"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="rewrite golden files with what the code prints now (as TRACEGRAD_BLESS=1)"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--bless"):
        os.environ["TRACEGRAD_BLESS"] = "1"

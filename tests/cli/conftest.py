"""The fixtures of all tests of the command line."""

from __future__ import annotations

from calling import clean_environment, cli, process

__all__ = ["clean_environment", "cli", "process"]

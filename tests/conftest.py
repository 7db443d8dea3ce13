"""What tests of several folders share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from hypothesis import settings

from tests.calling import clean_environment, cli, process

__all__ = ["clean_environment", "cli", "process"]

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")


@pytest.fixture
def without_rights() -> Callable[[], AbstractContextManager[None]]:
    """A stretch in which the rights of files count for us too: root takes another user's place."""

    @contextmanager
    def as_somebody() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        os.chmod(".", 0o755)
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)

    return as_somebody

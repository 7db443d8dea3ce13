"""What each entry of the registry of mistakes must say."""

from __future__ import annotations

import attncli.verify.diagnosis  # noqa: F401  # all mistakes register theirs with it
from tests.calling import names
from tests.inside import MISTAKES


def test_every_mistake_says_where_and_how_simple_it_is() -> None:
    assert len(list(MISTAKES)) > 30
    for entry in MISTAKES:
        assert entry.help.endswith("."), entry.name
        assert set(entry.at) <= set(names("steps")), entry.name
        assert isinstance(entry.simplicity, int), entry.name

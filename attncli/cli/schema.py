"""`attncli schema`: JSON Schema of problem files."""

from __future__ import annotations


def command() -> None:
    """Print the JSON Schema of problem files, for editors that complete and check YAML as it is typed."""
    import json

    from attncli.cli import console
    from attncli.problem.schema import schema

    console.write(json.dumps(schema(), indent=2))

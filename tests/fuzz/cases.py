"""A case of the fuzzer: a command line, the files around it, and standard input; as text, so that it can be kept."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Case:
    """What is run in an empty folder that holds these files."""

    arguments: list[str]
    files: dict[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""

    def to_json(self, **facts: Any) -> str:
        """The case and what is known of it; bytes that are no text in base64."""
        files = {name: _spelled(data) for name, data in self.files.items()}
        told = {**facts, "arguments": [_spelled(each.encode("utf-8", "surrogateescape")) for each in self.arguments]}
        return json.dumps({**told, "files": files, "stdin": _spelled(self.stdin)}, ensure_ascii=True, indent=1) + "\n"

    @classmethod
    def from_json(cls, path: Path) -> Case:
        """The case of a file."""
        told = json.loads(path.read_text(encoding="utf-8"))
        arguments = [_bytes(each).decode("utf-8", "surrogateescape") for each in told["arguments"]]
        files = {name: _bytes(data) for name, data in told["files"].items()}
        return cls(arguments, files, _bytes(told.get("stdin", "")))


def _spelled(data: bytes) -> Any:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _bytes(spelled: Any) -> bytes:
    return spelled.encode() if isinstance(spelled, str) else base64.b64decode(spelled["base64"])

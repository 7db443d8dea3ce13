"""What the converters share: where files are looked up and how they are read, words and steps in a line of text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.errors import AttnError, InputError, Place
from attncli.pipeline.trace import parse_address
from attncli.problem.formats import ReadOptions, known_suffixes, note_source, open_source, read_matrix
from attncli.problem.numbers import quote
from attncli.problem.text import decode, lines_of
from attncli.problem.values import Setting, placed

if TYPE_CHECKING:
    from attncli.problem.matrix import Matrix

# What says how text files are read.
READ_OPTIONS = ("separator", "decimal", "header", "labels")


class SharedFiles:
    """Matrices that many problems read from the same files, each read once; past a limit the oldest are forgotten."""

    LIMIT = 256 * 2**20  # bytes

    def __init__(self) -> None:
        self._known: dict[tuple[str, ReadOptions], Matrix] = {}
        self._size = 0
        self._reads = True

    @contextmanager
    def only_named(self) -> Iterator[None]:
        """A stretch in which files are taken note of, as inputs, and not read: whoever asks for one gets an error."""
        self._reads = False
        try:
            yield
        finally:
            self._reads = True

    def get(self, file: str, options: ReadOptions, read: Callable[[], Matrix]) -> Matrix:
        """The matrix of a file, from before or by reading it. Raises what `read` raises."""
        if not self._reads:
            note_source(file)
            raise InputError("the file is not read now", place=Place(file))
        key = (file, options)
        if key not in self._known:
            matrix = read()
            self._known[key] = matrix
            self._size += matrix.array.nbytes
            while self._size > self.LIMIT and len(self._known) > 1:
                self._size -= self._known.pop(next(iter(self._known))).array.nbytes
        return self._known[key]


@dataclass(eq=False, repr=False)
class Reading:
    """base: the folder of relative paths, None for the current one. stdin: gives standard input, once.

    shared: what other problems have read already.
    """

    base: Path | None = None
    options: ReadOptions = field(default_factory=ReadOptions)
    stdin: Callable[[], bytes] | None = None
    shared: SharedFiles | None = None

    def matrix(self, spec: str, place: Place | str | None, *, blanks: bool = False) -> Matrix:
        """The matrix of a path, `path::NAME`, `-` or `[[...]]`; blanks: cells may be left out, as in hand calculations.

        place: where it was asked for; of inline text, and of files that cannot be read, that is the place of errors.
        Raises InputError, ShapeError, MachineError.
        """
        try:
            matrix = self._read(spec, blanks)
        except AttnError as error:
            for inner in error.errors():
                _move(inner, place)
            raise
        if spec.lstrip().startswith("["):
            matrix.place = Place(place) if isinstance(place, str) else place or matrix.place
        return matrix

    def _read(self, spec: str, blanks: bool) -> Matrix:
        def read() -> Matrix:
            return read_matrix(spec, self.options, base=self.base, stdin=self.stdin, blanks=blanks)

        if self.shared is None or spec == "-" or spec.lstrip().startswith("["):
            return read()
        file = str(self.base / spec) if self.base is not None else spec
        return self.shared.get(file, self.options._replace(blanks=blanks), read)

    def is_matrix(self, text: str) -> bool:
        """Whether the text is `[[...]]`, or names a file: one that exists, or that ends as matrices do."""
        if text.lstrip().startswith("["):
            return True
        file = Path(text.partition("::")[0])
        return file.suffix.lower() in known_suffixes() or os.path.isfile((self.base or Path()) / file)

    def lines(self, name: str, place: Place | str | None) -> list[str]:
        """The lines of a text file, blank ones at its end left out."""
        try:
            source = open_source(name, self.base)
            lines = lines_of(decode(source.read(), source.file))
        except AttnError as error:
            if not isinstance(place, Place) and error.place is not None:  # an option, which its caller names
                error.place, error.what = place, f"{error.place}: {error.what}"
            _move(error, place)
            raise
        while lines and not lines[-1].strip():
            lines.pop()
        return lines


def read_options(settings: dict[str, Setting]) -> ReadOptions:
    """--separator, --decimal, --header, --labels, --stdin-format and --dry-run as the formats take them."""
    values = {name: setting.value for name, setting in settings.items()}
    yes_no = {"yes": True, "no": False}
    return ReadOptions(
        separator=values.get("separator"),
        decimal=values.get("decimal", "."),
        header=yes_no.get(values.get("header", "")),
        labels=yes_no.get(values.get("labels", "")),
        stdin_format=values.get("stdin_format"),
        shapes=bool(values.get("dry_run")),
        stored=bool(values.get("stored")),
    )


def split_words(text: str) -> list[str]:
    """Words split at blanks, at commas where there is no blank. Raises as `check_words`."""
    words = text.split()
    return check_words(words if len(words) != 1 or "," not in text else [each.strip() for each in text.split(",")])


def check_words(words: list[str]) -> list[str]:
    """The same words. Raises InputError for one that no text file can hold: a byte of the shell that is not UTF-8."""
    for word in words:
        if not word.isascii() and re.search("[\ud800-\udfff]", word):
            raise InputError(f"the label {quote(word)} is not UTF-8", hint="set the terminal to UTF-8, or use @FILE")
    return words


def split_steps(text: str, place: Place | str | None = None) -> list[str]:
    """A comma list of steps, such as `weights[1,2],output`, or `all`, each once. Raises InputError for what is none."""
    pieces: list[list[str]] = [[]]
    inside = False
    for piece in re.split(r"([,\[\]])", text):
        inside = piece == "[" or (inside and piece != "]")
        if piece == "," and not inside:
            pieces.append([])
        else:
            pieces[-1].append(piece)
    parts = ["".join(each) for each in pieces]
    return [check_step(part, place) for part in dict.fromkeys(parts)]


def check_step(address: str, place: Place | str | None = None) -> str:
    """The address of a step, of a stage (`encoder.weights`) where it says so. Raises InputError."""
    address = address.strip()
    if address != "all":
        with placed(place):
            parse_address(split_stage(address)[1])
    return address


def split_stage(address: str) -> tuple[str | None, str]:
    """`encoder.weights[2]` as ("encoder", "weights[2]"); without a stage, None comes first."""
    stage, dot, step = address.strip().rpartition(".")
    return (stage, step) if dot else (None, step)


def _move(error: AttnError, place: Place | str | None) -> None:
    """Point at the line that names a file, where the error has no line of its own; at the option, of inline text."""
    if place is None or not isinstance(error.place, Place):
        error.place = error.place or place
    elif error.place.file == "inline":
        column = f" (column {error.place.column})" if error.place.column else ""
        error.place, error.what = place, error.what + column
    elif error.place.line is None and isinstance(place, Place) and place.file != error.place.file:
        error.place, error.what = place, f"{error.place.file}: {error.what}"
        if error.hint is None and "does not exist" in error.what:
            error.hint = "a path is looked up beside the file that names it"

"""Files of about 1 MB that a careless reader would take minutes or gigabytes for."""

from __future__ import annotations

from collections.abc import Iterator

from cases import Case

_SIZE = 1_000_000


def _filled(piece: str, size: int = _SIZE) -> str:
    return piece * (size // len(piece))


def _table(cell: str, rows: int = 1000) -> str:
    return "\n".join(",".join(cell.format(i=i, j=j, k=i * j) for j in range(100)) for i in range(1, rows))


TABLES = {
    "digits": "9" * _SIZE + "x",
    "a-cell-of-digits": "1," + "9" * _SIZE + "x,2\n1,2,3\n",
    "fractions": _table("{i}/3{j}"),
    "roots": _table("sqrt({k})"),
    "sums": _table("({i}+{j}*2)"),
    "percent": _table("{j} %", 2000),
    "words": _table("word", 2000),
    "nearly-numbers": _table("{i}O{j}"),
    "quotes": '"' * _SIZE,
    "quoted": _filled('"a",'),
    "quotes-in-quotes": _filled('"a""b",1\n'),
    "open-quotes": _filled('"a\n'),
    "rows": _filled("1\n"),
    "columns": _filled("1,") + "1",
    "a-header": ",".join(f"c{i}" for i in range(80_000)) + "\n" + "1," * 79_999 + "1",
    "comments": _filled("#\n") + "1,2\n",
    "skipped": _filled("##a,1,2\n") + "a,1,2\n",
    "blanks": " " * _SIZE + "1,2",
    "tabs": "\t" * _SIZE,
    "semicolons": ";" * _SIZE,
}
TREES = {
    "a-scale-of-digits": "X: [[1,2]]\nscale: " + "9" * _SIZE + "x\n",
    "tabs-in-a-comment": "X: [[1,2]] #" + "\t" * _SIZE + "\n",
    "tabs-in-comments": "X: [[1,2]]\n" + _filled("#\t\n"),
    "tabs-in-quotes": 'X: [[1,2]]\ntitle: "' + _filled("\ta") + '"\n',
    "fractions": "X: ["
    + ",\n".join("[" + ",".join(f"{i}/{j + 3}" for j in range(100)) + "]" for i in range(1, 1700))
    + "]\n",
    "open-brackets": "X: " + "[" * _SIZE,
    "a-row-too-short": "X: [[" + _filled("1,2],[") + "x]]\n",
    "rows": "X: [" + _filled("[1],") + "[1]]\n",
    "braces": "X: " + _filled("{a: "),
    "keys": "".join(f"k{i}: 1\n" for i in range(110_000)),
    "the-same-key": _filled("X: [[1]]\n"),
    "no-blank-after-colons": "".join(f"k{i}:[1]\n" for i in range(110_000)),
    "a-word": "a" * _SIZE,
    "a-word-in-braces": "{" + "a" * _SIZE + ":[1]",
    "dashes": _filled("- "),
    "anchors": "".join(f"&a{i} " for i in range(125_000)),
    "aliases": "a: &a [[1,2],[3,4]]\nX: [" + _filled("*a,") + "]",
    "steps": "X: [[1,2]]\nshow: " + _filled("weights,") + "weights",
    "indices": "X: [[1,2]]\nshow: weights[" + _filled("1,") + "]",
    "keys-of-a-mask": "X: [[1,2]]\nmask: keys:" + _filled("1,") + "1",
    "masks": "X: [[1,2]]\nmask: [" + _filled("causal,") + "causal]",
    "tokens": "X: [[1,2]]\ntokens: [" + _filled("a,") + "a]",
    "the-same-step": "X: [[1,2]]\nexpect: {" + _filled("weights: [[1]],") + "}",
    "stages": "stages:\n" + "".join(f"- {{name: a{i}, X: [[1]]}}\n" for i in range(40_000)),
    "a-long-score": "X: [[1]]\nscore: " + "a" * _SIZE,
    "a-long-key": "X: [[1]]\n" + "a" * _SIZE + ": 1",
}


def cases() -> Iterator[tuple[str, Case]]:
    """Each with its name: tables are shown, trees computed from."""
    for name, text in TABLES.items():
        yield f"table of {name}", Case(["show", "a.csv"], {"a.csv": text.encode()})
    for name, text in TREES.items():
        yield f"tree of {name}", Case(["run", "p.yaml"], {"p.yaml": text.encode()})

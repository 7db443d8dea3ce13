"""What attncli did not know: a score, a bias by distance and a format of files. attncli help extending"""

import numpy as np

from attncli.extending import Matrix, Setting, bias, file_format, score


@score("chebyshev", formula="-max |q - k|", kernel=None)
def chebyshev(q, k):
    """Minus the largest difference of a feature."""
    return -np.abs(q[..., :, None, :] - k[..., None, :, :]).max(axis=-1)


@bias(
    "fading",
    formula="-w sqrt|i - j|",
    setting=Setting(name="fade", kind="number", help="take W sqrt|i - j| off the score", metavar="W"),
)
def fading(at, indices, weight):
    """Less the farther a key is, ever more slowly."""
    return -weight * np.sqrt(np.abs(indices.position - indices.key))


def write(stream, steps, meta):
    """Numbers between semicolons, a line a row."""
    (part,) = steps.values()
    for row in part.array:
        stream.write("; ".join(f"{number:g}" for number in row).encode() + b"\n")


@file_format("semi", suffixes=(".semi",), write=write, axes=2)
def read(source, options, name):
    """Numbers between semicolons, a line a row."""
    rows = [line.split(";") for line in source.read().decode().splitlines()]
    return {"": Matrix(np.array(rows, dtype=float))}

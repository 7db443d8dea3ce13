"""The arithmetic of each score function, for one query and one key.

An entry takes the cells of q and k and gives the steps' terms: `scores`, and of a kernel `kernel` as well. A score
without an entry is shown with its result alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attncli.working.terms import Cell, Number, Term, op, products, total

Parameters: TypeAlias = "dict[str, float | list[list[Term]]]"
Explained: TypeAlias = "dict[str, Term]"

EXPLAINERS: dict[str, Callable[[list[Cell], list[Cell], Parameters], Explained]] = {}


def explains(*names: str) -> Callable[[Callable[..., Explained]], Callable[..., Explained]]:
    """Decorate the explanation of the scores of these names."""

    def register(function: Callable[..., Explained]) -> Callable[..., Explained]:
        EXPLAINERS.update(dict.fromkeys(names, function))
        return function

    return register


@explains("dot", "scaled-dot")
def dot(q: list[Cell], k: list[Cell], _: Parameters) -> Explained:
    """q . k"""
    return {"scores": products(q, k)}


@explains("general")
def general(q: list[Cell], k: list[Cell], given: Parameters) -> Explained:
    """q W k, entry by entry of W."""
    rows = matrix(given, "W")
    return {
        "scores": total(
            op("product", a, w, b) for a, row in zip(q, rows, strict=True) for w, b in zip(row, k, strict=True)
        )
    }


@explains("additive")
def additive(q: list[Cell], k: list[Cell], given: Parameters) -> Explained:
    """w_v . tanh(W_q q + W_k k); a matrix left out is the identity, w_v left out is ones."""
    of_q: list[Term] = [products(row, q) for row in matrix(given, "W_q")] if "W_q" in given else [*q]
    of_k: list[Term] = [products(row, k) for row in matrix(given, "W_k")] if "W_k" in given else [*k]
    return {"scores": _through_tanh(of_q, of_k, given.get("w_v"))}


@explains("concat")
def concat(q: list[Cell], k: list[Cell], given: Parameters) -> Explained:
    """v . tanh(W [q; k])"""
    rows = matrix(given, "W")
    of_q = [products(row[: len(q)], q) for row in rows]
    of_k = [products(row[len(q) :], k) for row in rows]
    return {"scores": _through_tanh(of_q, of_k, given.get("v"))}


@explains("cosine")
def cosine(q: list[Cell], k: list[Cell], _: Parameters) -> Explained:
    """q . k / (|q| |k|)"""
    return {"scores": op("quotient", products(q, k), op("product", _length(q), _length(k)))}


@explains("gaussian")
def gaussian(q: list[Cell], k: list[Cell], given: Parameters) -> Explained:
    """exp(-|q - k|^2 / (2 sigma^2))"""
    width = op("product", Number(2), op("square", number(given, "sigma")))
    exponent = op("negative", op("quotient", _squares(q, k), width))
    return {"kernel": op("exp", exponent), "scores": exponent}


@explains("laplacian")
def laplacian(q: list[Cell], k: list[Cell], given: Parameters) -> Explained:
    """exp(-|q - k| / sigma)"""
    exponent = op("negative", op("quotient", op("sqrt", _squares(q, k)), number(given, "sigma")))
    return {"kernel": op("exp", exponent), "scores": exponent}


@explains("boxcar")
def boxcar(q: list[Cell], k: list[Cell], given: Parameters) -> Explained:
    """1 if |q - k| <= radius"""
    return {"kernel": op("within", _reach(q, k, given), Number(1))}


@explains("triangular")
def triangular(q: list[Cell], k: list[Cell], given: Parameters) -> Explained:
    """max(0, 1 - u)"""
    return {"kernel": op("max", Number(0), op("difference", Number(1), _reach(q, k, given)))}


@explains("epanechnikov")
def epanechnikov(q: list[Cell], k: list[Cell], given: Parameters) -> Explained:
    """3/4 max(0, 1 - u^2)"""
    inside = op("difference", Number(1), op("square", _reach(q, k, given)))
    return {"kernel": op("product", op("quotient", Number(3), Number(4)), op("max", Number(0), inside))}


def matrix(given: Parameters, name: str) -> list[list[Term]]:
    """A parameter that is a matrix."""
    value = given[name]
    assert isinstance(value, list)
    return value


def number(given: Parameters, name: str) -> Number:
    """A parameter that is a number; 1 where it is left out, as the kernels have it."""
    value = given.get(name, 1.0)
    assert not isinstance(value, list)
    return Number(value)


def _through_tanh(of_q: list[Term], of_k: list[Term], vector: float | list[list[Term]] | None) -> Term:
    hidden = [op("tanh", op("sum", a, b)) for a, b in zip(of_q, of_k, strict=True)]
    if vector is None:
        return total(hidden)
    assert isinstance(vector, list)
    return products([entry for row in vector for entry in row], hidden)


def _squares(q: list[Cell], k: list[Cell]) -> Term:
    return total(op("square", op("difference", a, b)) for a, b in zip(q, k, strict=True))


def _length(x: list[Cell]) -> Term:
    return op("sqrt", total(op("square", entry) for entry in x))


def _reach(q: list[Cell], k: list[Cell], given: Parameters) -> Term:
    return op("quotient", op("sqrt", _squares(q, k)), number(given, "radius"))

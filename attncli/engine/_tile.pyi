"""What the compiled module holds. Arrays may be anything that has the buffer protocol."""

from attncli.lazy import Array

def levels() -> list[tuple[int, str]]: ...
def attend(
    level: int,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    weights: Array | None,
    lse: Array | None,
    states: Array,
    ranges: Array | None,
    bias: Array | None,
    shown: Array | None,
    scale: float,
    softcap: float,
    sink: float,
    /,
) -> None: ...

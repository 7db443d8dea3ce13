"""`run --dask ADDRESS`: one large problem on a cluster, into .npy files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attncli.cli import console
from attncli.errors import UsageError
from attncli.problem.problem import Problem


def compute(file: str, address: str, flags: dict[str, Any]) -> int:
    """Compute the problem of a file on a cluster; gives the exit status."""
    from attncli.batch.rows import compute_rows
    from attncli.cli.outputs import Outputs
    from attncli.cli.progress import Bar
    from attncli.cli.shared import read_problems

    found = read_problems({}, flags, file)
    if not isinstance(found, list) or len(found) != 1:
        raise UsageError("a cluster computes the rows of one problem", place="--dask", hint="`batch --dask` takes many")
    problem = found[0]
    outputs = Outputs(problem)
    files = _files(outputs, problem)
    outputs.check()
    with Bar(quiet=bool(problem.options.get("quiet"))) as bar:
        notes = compute_rows(problem, address, files, bar)
    if not problem.options.get("quiet"):
        console.notes([*problem.notes, *notes, *(f"wrote {step} to {path}" for path, step in files.items())])
    return console.DONE


def _files(outputs: Any, problem: Problem) -> dict[Path, str]:
    """The step of each file. Raises UsageError for what is not written row by row."""
    said = [name for name in ("show", "top", "stats", "format", "save_problem") if problem.options.get(name)]
    if said:
        named = said[0].replace("_", "-")
        raise UsageError(f"--{named} needs the whole result here", place="--dask", hint="-o output.npy, then `show`")
    if not outputs.files or any(output.path.suffix.lower() != ".npy" for output in outputs.files):
        raise UsageError(
            "each block goes to its place in a .npy file", place="--dask", hint="-o output.npy, or -o weights=w.npy"
        )
    valued = bool({"V", "X", "Y"} & problem.inputs.keys())
    return {output.path: output.step or ("output" if valued else "weights") for output in outputs.files}

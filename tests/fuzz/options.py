"""Text for every setting of the table and every option of a command, nearly right; one that is added is known here."""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module

from typer.models import OptionInfo
from values import Values

from attncli.cli.app import COMMANDS
from attncli.pipeline.masks import MASKS
from attncli.pipeline.normalizers import NORMALIZERS
from attncli.pipeline.scores import SCORES
from attncli.pipeline.trace import NAMED_STEPS as STEPS
from attncli.problem.settings import FIELDS

NOT_FUZZED = ("--dask", "--jobs", "--load")  # they start processes, and run code
_ARGUMENTS = (
    "", "", ":1", ":2", ":3,2", ":1,0", ":*,1", ":0,0,1", ":1,1,0", ":top-left", ":bottom-right", ":lengths",
    ":[[1,0],[1,1]]", ":0", ":-1", ":1.5", ":x", ":1 1 0", ":2,0:bottom-right", ":0,1/0,0,1", ":1,1/2,1", ":2,1",
)  # fmt: skip
_OWN = (
    "1", "2", "0", "-1", "17", "1.5", "x", "all", "1:2", "2:1", ":", "weights=2,output=1", "scores=0", "json", "csv",
    "markdown", "latex", "html", "table", "text", "npy", "p.yaml", "a.npy", "r", "6x6", "2x3", "0x0", "",
)  # fmt: skip


class Options(Values):
    """What can be said beside matrices."""

    def value(self, name: str) -> str:
        """Text for one setting, nearly right."""
        field = FIELDS[name]
        by_name = {
            "normalizer": lambda: self.chance.choice(NORMALIZERS.names()) + self.pick("", "", ":2", ":1.5", ":0", ":x"),
            "mask": self.masks,
            "rope": self.rope,
            "relative": lambda: self.matrix(self.size(), 2 * self.size() - 1),
            "output": lambda: self.pick("", f"{self.step()}=") + f"o.{self.suffix()}",
            "save_problem": lambda: self.pick("s.yaml", "s.json", "-", "s.csv"),
        }
        by_kind = {
            "number": self.number,
            "numbers": lambda: self.pick(self.number(), self.matrix(self.size()), self.matrix(self.size(), 1)),
            "integer": lambda: self.pick("1", "2", "3", "4", "0", "-1", "1.5", "17", "9" * 30),
            "matrix": lambda: self.pick(self.matrix(self.size(), self.size()), self.matrix(self.size())),
            "tokens": lambda: " ".join("abcd"[: self.size()]),
            "flag": lambda: "true",
            "parameters": lambda: self.pick(
                "sigma=2", "radius=1", "map=relu", f"W={self.matrix(2, 2)}", f"w_v={self.matrix(2)}",
                f"W_k={self.matrix(2, 2)}", "sigma=0", "W_k=2", "eps=1e-5",
            ),
            "steps": lambda: ",".join(self.step() for _ in range(self.size())),
            "expect": lambda: f"{self.step()}={self.matrix(2, 2)}",
            "score": lambda: self.chance.choice(SCORES.names()),
            "text": lambda: self.pick(";", ",", "tab", "x", "|", "2", "en", "bthd", "btd", "thd"),
        }  # fmt: skip
        if name in by_name:
            text = by_name[name]()
        elif field.choices is not None and field.choices() and self.often(0.7 if field.kind == "numbers" else 0.95):
            text = self.chance.choice(field.choices())
        else:
            text = by_kind.get(field.kind, self.number)()
        return self.mutated(text, 1) if self.often(0.08) else text

    def suffix(self) -> str:
        return self.pick("npy", "npz", "csv", "json", "yaml", "txt", "tsv", "md", "tex", "html", "svg", "png", "xlsx")

    def step(self) -> str:
        step = self.chance.choice([*STEPS])
        return step + self.pick("", "", "", "[1]", "[2]", "[1,1]", "[0]", "[" + "9" * self.pick(1, 30, 5000) + "]")

    def mask(self) -> str:
        return self.chance.choice(MASKS.names()) + self.chance.choice(_ARGUMENTS)

    def masks(self, depth: int = 0) -> str:
        """One mask, or some joined by signs or words."""
        if depth > 2 or self.often(0.6):
            return self.mask()
        if self.often(0.25):
            return self.pick("!", "not ", "!!") + self.masks(depth + 1)
        joined = self.pick(" & ", " | ", "&", "|", " and ", " or ").join(self.masks(depth + 1) for _ in range(2))
        return f"({joined})" if self.often(0.5) else joined

    def rope(self) -> str:
        more = ("", "", ":neighbours", ":halves", ":width=2", ":width=1", ":linear=2", ":ntk=4", ":yarn=4,8", ":x")
        return self.pick("10000", "10", "1", "0", "-1", "inf", "x") + self.pick(*more) + self.pick("", "", *more)

    def options(self, names: list[str], most: int = 4) -> list[str]:
        """Some options of the table."""
        arguments: list[str] = []
        for name in self.chance.sample(names, min(len(names), self.chance.randint(0, most))):
            field = FIELDS[name]
            if field.flag and name not in ("stdin_format",):
                if field.kind == "switch":
                    arguments.append(self.chance.choice((field.flag, f"--no-{field.flag[2:]}")))
                    continue
                arguments += [field.flag] if field.kind == "flag" else [field.flag, self.value(name)]
        return arguments

    def own(self, command: str) -> list[str]:
        """Some options that this command alone has."""
        arguments: list[str] = []
        for flag, is_flag in self.chance.sample(
            own_options(command), min(len(own_options(command)), self.pick(0, 1, 2))
        ):
            arguments += [flag] if is_flag else [flag, self.chance.choice(_OWN)]
        return arguments


@cache
def own_options(command: str) -> list[tuple[str, bool]]:
    """The options in the signature of a command, and whether each is a flag, without a value."""
    found: list[tuple[str, bool]] = []
    signature = inspect.signature(import_module(COMMANDS[command][0]).command, eval_str=True)
    for parameter in signature.parameters.values():
        for told in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(told, OptionInfo):
                declared = [each for each in (told.default, *(told.param_decls or ())) if isinstance(each, str)]
                flag = declared[-1] if declared else f"--{parameter.name.replace('_', '-')}"
                if flag not in NOT_FUZZED:
                    found.append((flag, parameter.annotation.__origin__ is bool))
    return found

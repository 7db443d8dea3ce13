"""Cases at random: files of every format, every option with values that are nearly right, hands, lists of jobs."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cases import Case
from files import Files

from attncli.cli.app import COMMANDS
from attncli.problem.settings import FIELDS


class Maker(Files):
    """Cases from one source of chance."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.kinds: list[Callable[[], Case]] = [
            self.read,
            self.read,
            self.compute,
            self.compute,
            self.problem,
            self.problem,
            self.hand,
            self.hand,
            self.hand,
            self.jobs,
            self.arrays,
            self.difference,
            self.told,
            self.exercise,
        ]

    def case(self) -> Case:
        """One more case."""
        return self.chance.choice(self.kinds)()

    def read(self) -> Case:
        """A file, shown or computed from."""
        name, data = self.pick(self.table, self.table, self.binary, self.seed, self.workbook)()
        reading = [
            name
            for name, field in FIELDS.items()
            if field.panel == "Reading" and name not in ("expect", "stdin_format")
        ]
        spec, stdin = name + self.pick("", "", "", "::Q", "::x", "::Q!A1:B2", "::A1"), b""
        how: list[str] = []
        if self.often(0.1):
            spec, stdin = "-", data
            how = ["--stdin-format", name.rpartition(".")[2]] if self.often(0.7) else []
        command = self.pick(
            ["show", spec],
            ["self", spec],
            ["attend", spec, name],
            ["attend", spec, "[[1,2]]"],
            ["run", name],
            ["check", name],
        )
        shown = [
            each for each in reading if command[0] != "show" or each in ("separator", "decimal", "header", "labels")
        ]
        return Case([*command, *how, *self.options(shown, 2)], {name: data}, stdin)

    def compute(self) -> Case:
        """Inline matrices, and options of every kind."""
        n, m, d = self.size(), self.size(), self.size()
        lead = self.pick((), (), (), (2,), (self.size(), self.size()))
        q, k, v = (self.matrix(*lead, each, d) for each in (n, m, m))
        if self.often(0.04):
            v = self.matrix(*lead[:-1], self.size(), d)
        command = self.pick(
            ["attend", q, k, v], ["attend", q, k], ["self", q], ["cross", q, k], ["attend", "--scores", k, v]
        )
        names = [name for name, field in FIELDS.items() if field.flag and name not in ("stdin_format",)]
        return Case([*command, *self.options(names)], self.around())

    def problem(self) -> Case:
        """A problem file under each command."""
        text = self.text(self.settings())
        if self.often(0.3):
            text += f"expect:\n  {self.step()}: {self.matrix(self.size(), self.size())}\n"
        if self.often(0.15):
            text = self.mutated(text)
        command = self.pick(
            ["run"],
            ["run"],
            ["run", "--dry-run"],
            ["check"],
            ["decode"],
            ["explain", "--query", self.pick("1", "2", "x", "all")],
            ["explain", "--query", "1", "--key", "1", "--exact"],
            ["show"],
            ["run", "--save-problem", "s.yaml"],
            ["run", "--format", self.pick("json", "latex", "markdown", "plain", "csv")],
        )
        names = [
            name
            for name, field in FIELDS.items()
            if field.flag and name not in ("stdin_format", "output", "save_problem")
        ]
        more = self.options(names, 2) if command[0] != "show" and self.often(0.5) else []
        more += self.own(command[0])
        return Case(
            [command[0], "p.yaml", *command[1:], *more],
            {"p.yaml": text.encode("utf-8", "surrogatepass"), **self.around()},
        )

    def hand(self) -> Case:
        """What a hand might have written of a problem: its steps, rounded, with slips."""
        from attncli.errors import AttnError

        told = self.settings()
        base = "".join(f"{key}: {value}\n" for key, value in told.items() if key not in ("show", "name", "title"))
        try:
            with np.errstate(all="ignore"):
                trace = _computed(base)
        except (AttnError, Exception):
            return self.problem()
        steps = [step for step in trace.names(on_request=True) if trace[step].ndim <= 3]
        expect = []
        for step in self.chance.sample(steps, min(len(steps), self.pick(1, 1, 2, 3, 4))):
            expect.append(f"  {step}: {self.spelled(trace[step].tolist(), self.pick(0, 1, 2, 2, 3, 4, 16))}\n")
        text = base + "expect:\n" + "".join(expect)
        arguments = [
            "check",
            "p.yaml",
            *self.pick(
                [],
                [],
                ["--format", self.pick("json", "csv", "markdown", "latex", "plain")],
                ["--points", f"{self.chance.choice(steps)}=2"],
            ),
        ]
        if self.often(0.15):
            arguments = ["explain", "p.yaml", "--query", "1"]
        if self.often(0.2):
            arguments += self.own(arguments[0])
        return Case(arguments, {"p.yaml": text.encode("utf-8", "surrogatepass"), **self.around()})

    def spelled(self, value: Any, places: int) -> str:
        """Numbers rounded as a hand does, one in eight off."""
        if isinstance(value, list):
            rows = list(value)
            if self.often(0.01):
                rows = rows[1:] or rows * 2
            return f"[{', '.join(self.spelled(each, places) for each in rows)}]"
        if self.often(0.06):
            return self.number()
        if value != value or value in (float("inf"), float("-inf")):
            return self.pick(repr(value), "~", "-1e9", "0")
        text = f"{value:.{places}f}" if abs(value) < 1e12 else repr(value)
        if self.often(0.1):
            text = self.pick(
                f"{-value:.2f}",
                f"{value * 100:.1f}%",
                f"{value + 0.01:.2f}",
                f"{value / 2:.3f}",
                f"≈{text}",
                "~",
                text[:-1] or "0",
                f"{value:.3e}",
            )
        return text

    def jobs(self) -> Case:
        """Lists of problems, of stages, of jobs."""
        kind = self.pick("problems", "stages", "jobs")
        if kind == "jobs":
            name = self.pick("jobs.yaml", "jobs.csv")
            rows = "name,scale,mask\n" + "".join(
                f"{self.pick('a', 'b', '')},{self.number()},{self.mask()}\n" for _ in range(self.size())
            )
            text = "problem: p.yaml\njobs:\n" + "".join(
                f"  - {{name: j{i}, scale: {self.number()}}}\n" for i in range(self.size())
            )
            files = {
                name: (rows if name.endswith("csv") else text).encode(),
                "p.yaml": self.text(self.settings()).encode(),
            }
            arguments = [
                "batch",
                name,
                *self.pick([], ["-o", "r"], ["--problem", "p.yaml"], ["--problem", "p.yaml", "-o", "r"]),
                *(self.own("batch") if self.often(0.3) else []),
            ]
            return Case(arguments, {**files, **self.around()})
        entries = []
        for number in range(self.size()):
            told = {"name": f"s{number}", **{key: value for key, value in self.settings().items() if key != "name"}}
            if kind == "stages" and number and self.often(0.6):
                told = {
                    "name": f"s{number}",
                    "X": f"{{stage: s{number - 1}, step: {self.pick('output', 'weights', 'Q', 'x')}}}",
                }
            lines = self.text(told).splitlines()
            entries.append("\n".join(f"  {'- ' if at == 0 else '  '}{line}" for at, line in enumerate(lines)))
        text = self.mutated(f"{kind}:\n" + "\n".join(entries) + "\n", self.pick(0, 0, 0, 2))
        command = self.pick(["run"], ["check"], ["batch"], ["decode"], ["show"])
        arguments = [
            *command,
            "p.yaml",
            *(["-o", self.pick("r", "r.jsonl")] if command == ["batch"] and self.often(0.5) else []),
        ]
        return Case(arguments, {"p.yaml": text.encode("utf-8", "surrogatepass"), **self.around()})

    def arrays(self) -> Case:
        """Outputs of a program, with axes, checked against a problem."""
        n, m, d = self.size(), self.size(), self.size()
        lead = self.pick((), (2,), (1, 2), (2, 2))
        q, k, v = (
            np.random.default_rng(self.chance.getrandbits(32)).normal(size=(*lead, each, d)) for each in (n, m, m)
        )
        from attncli import attend

        trace = attend(q, k, v, mask=self.pick(None, "causal"))
        step = self.pick("output", "weights", "scores")
        wrong = np.array(trace[step]) * self.pick(1, 1, 2) + self.pick(0, 0, 1e-3)
        if self.often(0.1):
            wrong = wrong.reshape(-1, wrong.shape[-1])
        files = {}
        for name, array in (("q", q), ("k", k), ("v", v), ("o", wrong)):
            stream = io.BytesIO()
            np.save(stream, array.astype(self.pick("f8", "f8", "f4")))
            files[f"{name}.npy"] = stream.getvalue()
        names = ["mask", "like", "scale", "empty_rows", "normalizer", "layout", "heads"]
        return Case(["attend", "q.npy", "k.npy", "v.npy", "--expect", f"{step}=o.npy", *self.options(names, 2)], files)

    def difference(self) -> Case:
        """Two arrays without a problem."""
        first, second = (
            self.matrix(self.size(), self.size()),
            self.pick(self.matrix(self.size(), self.size()), "a.npy", "a.csv", "a.npz::Q"),
        )
        extra = self.pick([], ["--atol", self.number()], ["--rtol", self.number()], ["--ulp", self.number()])
        return Case(["diff", first, self.pick(first, second), *extra, *self.own("diff")], self.around())

    def exercise(self) -> Case:
        """Something to begin with, or one variant of a problem."""
        kind = self.pick("self", "cross", "heads", "x", "additive")
        if self.often(0.3):
            return Case(["new", kind, *self.own("new")], self.around())
        text = self.text(self.settings())
        return Case(["new", "--like-problem", "p.yaml", "-o", "r", *self.own("new")], {"p.yaml": text.encode()})

    def told(self) -> Case:
        """What is listed, drawn, and told of commands and topics."""
        what = self.pick("scores", "normalizers", "masks", "formats", "profiles", "steps", "mistakes", "biases", "x")
        topic = self.pick("masks", "marking", "formats", "check", "problem-files", "x", "")
        command = self.pick(["list", what], ["list", "masks"], ["help", topic], ["schema"], [self.mutated("check")])
        return Case([*command, *(self.own(command[0]) if command[0] in COMMANDS else [])], self.around())


def _computed(text: str) -> Any:
    """The Trace of a problem, by a file of its own: what other fuzzers do meanwhile changes no case."""
    import attncli

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.yaml"
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        return attncli.run(str(path))

"""Cases at random: files of every format, every option with values that are nearly right, hands, lists of jobs."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from attncli.core.masks import MASKS
from attncli.core.normalizers import NORMALIZERS
from attncli.core.scores import SCORES
from attncli.core.trace import STEPS
from attncli.problem.profiles import PROFILES
from attncli.problem.settings import FIELDS
from cases import Case

SEEDS = sorted((Path(__file__).parent / "seeds").iterdir())
NUMBERS = (
    "0 1 -1 2 3 0.5 -0.25 1e3 1e-3 1e308 -1e308 1e-320 inf -inf nan 1/3 sqrt(2) e^1 27% -oo ≈0.71 2×10^3 1,5 1e400 0x10 "
    "1_0 ~ _ ? null true x 1/0 1O"
).split()
SPLICES = [
    *NUMBERS, "", " ", ",", ";", "\t", "\n", "\r", ":", "[", "]", "{", "}", "[[", "]]", "#", '"', "'", "-", "- ", "&a ",
    "*a", "!!x ", "<<: ", "|", ">", "%", "\x00", "\x1b[31m", "\u202e", "\u200b", "\ufeff", "\ud7ff", "é", "漢", "🙂",
    "9" * 400, "[" * 70, "sep=", "{identity: 3}", "{file: a.npy}", "{stage: a, step: output}", "a.npz::Q", "::", "=",
]  # fmt: skip


class Maker:
    """Cases from one source of chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.kinds: list[Callable[[], Case]] = [
            self.read, self.read, self.compute, self.compute, self.problem, self.problem, self.hand, self.hand,
            self.hand, self.jobs, self.arrays, self.difference,
        ]  # fmt: skip

    def case(self) -> Case:
        """One more case."""
        return self.chance.choice(self.kinds)()

    # --- numbers, matrices, settings ----------------------------------------------------------------------------

    def often(self, share: float) -> bool:
        return self.chance.random() < share

    def pick(self, *values: Any) -> Any:
        return self.chance.choice(values)

    def size(self) -> int:
        return self.pick(1, 1, 2, 2, 2, 3, 3, 4)

    def number(self) -> str:
        if self.often(0.9):
            return self.pick(str(self.chance.randint(-3, 4)), f"{self.chance.gauss(0, 2):.2f}", "1", "0")
        return self.chance.choice(NUMBERS)

    def rows(self, n: int, m: int) -> list[list[str]]:
        return [[self.number() for _ in range(m)] for _ in range(n)]

    def matrix(self, *shape: int) -> str:
        """Text of nested lists."""
        if len(shape) == 1:
            return f"[{', '.join(self.number() for _ in range(shape[0]))}]"
        return f"[{', '.join(self.matrix(*shape[1:]) for _ in range(shape[0]))}]"

    def mutated(self, text: str, most: int = 3) -> str:
        for _ in range(self.chance.randint(0, most)):
            at = self.chance.randint(0, len(text))
            end = min(len(text), at + self.pick(0, 0, 1, 2, 8))
            text = text[:at] + self.pick("", self.chance.choice(SPLICES), text[at:end] * 2) + text[end:]
        return text

    def value(self, name: str) -> str:
        """Text for one setting, nearly right."""
        field = FIELDS[name]
        plain = {
            "number": self.number, "integer": lambda: self.pick("1", "2", "3", "4", "0", "-1", "1.5", "17", "9" * 30),
            "matrix": lambda: self.matrix(self.size(), self.size()), "masks": self.mask,
            "tokens": lambda: " ".join("abcd"[: self.size()]), "flag": lambda: "true",
            "parameters": lambda: self.pick("sigma=2", "radius=1", "map=relu", f"W={self.matrix(2, 2)}",
                                            f"w_v={self.matrix(2)}", f"W_k={self.matrix(2, 2)}", "sigma=0", "W_k=2"),
            "steps": lambda: ",".join(self.step() for _ in range(self.size())), "expect": lambda: f"{self.step()}={self.matrix(2, 2)}",
            "score": lambda: self.chance.choice(SCORES.names()), "text": lambda: self.pick(";", ",", "tab", "x", "|"),
        }  # fmt: skip
        if field.choices is not None and self.often(0.95) and field.choices():
            text = self.chance.choice(field.choices())
        else:
            text = plain.get(field.kind, self.number)()
        if name == "normalizer":
            text = self.chance.choice(NORMALIZERS.names())
        if name == "mask":
            text = self.mask()
        if name == "output":
            text = self.pick("", f"{self.step()}=") + self.pick("o.npy", "o.npz", "o.csv", "o.json", "o.yaml", "o.txt", "o.svg")
        if name == "save_problem":
            text = self.pick("s.yaml", "s.json", "-", "s.csv")
        return self.mutated(text, 1) if self.often(0.08) else text

    def step(self) -> str:
        step = self.chance.choice([*STEPS])
        return step + self.pick("", "", "", "[1]", "[2]", "[1,1]", "[0]", "[" + "9" * self.pick(1, 30, 5000) + "]")

    def mask(self) -> str:
        name = self.chance.choice(MASKS.names())
        arguments = ("", "", ":1", ":2", ":3,2", ":1,0", ":*,1", ":0,0,1", ":1,1,0", ":top-left", ":bottom-right",
                     ":[[1,0],[1,1]]", ":0", ":-1", ":1.5", ":x", ":1 1 0", ":2,0:bottom-right", ":0,1/0,0,1")  # fmt: skip
        return name + self.chance.choice(arguments)

    def options(self, names: list[str], most: int = 4) -> list[str]:
        arguments: list[str] = []
        for name in self.chance.sample(names, min(len(names), self.chance.randint(0, most))):
            field = FIELDS[name]
            if field.flag and name not in ("stdin_format",):
                arguments += [field.flag] if field.kind == "flag" else [field.flag, self.value(name)]
        return arguments

    # --- files --------------------------------------------------------------------------------------------------

    def table(self) -> tuple[str, bytes]:
        """A delimited text, with labels and headers now and then, and slips."""
        n, m = self.size(), self.size()
        mark, suffix = self.pick((",", "csv"), (";", "csv"), ("\t", "tsv"), (" ", "txt"), ("|", "csv"), (",", "txt"))
        rows = self.rows(n, m)
        if self.often(0.3):
            rows = [[self.pick("the", "cat", "true", "NA", "", '"a b"', "##x", "é"), *row] for row in rows]
        if self.often(0.3):
            rows.insert(0, [self.pick("", "c1", "x", "1", '"q"') for _ in range(len(rows[0]) - self.pick(0, 0, 1))])
        text = self.pick("\n", "\n", "\r\n").join(mark.join(row) for row in rows)
        if self.often(0.1):
            text = f"sep={mark}\n{text}"
        return f"a.{suffix}", self.mutated(text, self.pick(0, 0, 1, 3)).encode("utf-8", "surrogatepass")

    def binary(self) -> tuple[str, bytes]:
        """A .npy or .npz, whole or with bytes changed."""
        shape = self.pick((2, 2), (3, 2), (2,), (), (1, 2, 2), (2, 1, 2, 2), (0, 2), (2, 0), (3, 3))
        dtype = self.pick("f8", "f4", "f2", "i8", "u1", "?", ">f8", "c8", "U3", "O")
        array = (np.random.default_rng(self.chance.getrandbits(32)).normal(size=shape) * 2).astype(dtype)
        stream = io.BytesIO()
        if self.often(0.4):
            np.savez(stream, Q=array, K=array, allow_pickle=True)
            name = "a.npz"
        else:
            np.save(stream, array, allow_pickle=True)
            name = self.pick("a.npy", "a.npy", "a.npy", "a.csv")
        data = bytearray(stream.getvalue())
        for _ in range(self.pick(0, 0, 0, 1, 3)):
            at = self.chance.randrange(min(len(data), self.pick(12, 128, len(data))))
            data[at : at + self.pick(0, 1)] = bytes(self.chance.randrange(256) for _ in range(self.pick(0, 1, 2)))
        return name, bytes(data)

    def seed(self) -> tuple[str, bytes]:
        """A seed with slips."""
        path = self.chance.choice(SEEDS)
        data = path.read_bytes()
        try:
            return path.name, self.mutated(data.decode(), self.pick(0, 1, 2, 4)).encode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return path.name, data

    def settings(self) -> dict[str, str]:
        """A problem, key by key, as text of YAML; the shapes mostly fit."""
        n, m, d, v = (self.size() for _ in range(4))
        kind = self.pick("attend", "self", "cross", "scores", "weights")
        told = {
            "attend": {"Q": self.matrix(n, d), "K": self.matrix(m, d), "V": self.matrix(m, v)},
            "self": {"X": self.matrix(n, d), "W_Q": self.matrix(d, v), "W_K": self.matrix(d, v)},
            "cross": {"X": self.matrix(n, d), "Y": self.matrix(m, d), "W_V": self.matrix(d, v)},
            "scores": {"scores": self.matrix(n, m), "V": self.matrix(m, v)},
            "weights": {"weights": self.matrix(n, m), "V": self.matrix(m, v)},
        }[kind]
        if kind == "attend" and self.often(0.1):
            lead = (self.size(),) if self.often(0.5) else (self.size(), self.size())
            told = {name: self.matrix(*(lead if self.often(0.9) else lead[:1]), *shape)
                    for name, shape in (("Q", (n, d)), ("K", (m, d)), ("V", (m, v)))}  # fmt: skip
        for name, shape in (("bias", (n, m)), ("past_k", (self.size(), d)), ("past_v", (self.size(), v)), ("W_O", (v, 2)),
                            ("b_Q", (v,)), ("kernel", (n, m)), ("W_V", (d, v))):  # fmt: skip
            if self.often(0.06):
                told[name] = self.matrix(*shape)
        names = [name for name, field in FIELDS.items() if field.in_file and field.kind not in ("matrix", "problems", "expect")]
        for name in self.chance.sample(names, self.pick(0, 1, 1, 2, 3)):
            told[name] = self.yaml(name)
        for name in [name for name in told if self.often(0.03)]:
            told[name] = self.pick("{identity: 2}", "a.npy", "{file: a.npz, name: Q}", "a.csv", "", "~", self.matrix(2), "x")
        return told

    def yaml(self, name: str) -> str:
        """The value of a key."""
        if name == "score" and self.often(0.5):
            extra = self.pick("", ", sigma: 2", f", W: {self.matrix(2, 2)}", f", W_q: {self.matrix(2, 2)}", ", sigma: 0",
                              f", w_v: {self.matrix(2)}", ", radius: inf", ", map: exp")  # fmt: skip
            return f"{{name: {self.chance.choice(SCORES.names())}{extra}}}"
        if name == "param":
            return self.pick("{sigma: 2}", "{radius: 1e-300}", f"{{W: {self.matrix(2, 2)}}}", "{map: relu}", "{sigma: x}")
        if name == "mask" and self.often(0.5):
            return self.pick("[causal, {window: [1, 0]}]", "{keep: [[1, 0], [1, 1]]}", "{lengths: [2, 1]}", "{keys: [1, 0]}",
                             "[causal, prefix:1]", "{segments: [0, 1]}", "none", "{block: a.npy}", "3")  # fmt: skip
        if name == "like":
            return self.chance.choice([*PROFILES])
        text = self.value(name)
        return json.dumps(text) if self.often(0.3) else text

    def text(self, told: dict[str, str], indent: str = "") -> str:
        return "".join(f"{indent}{key}: {value}\n" for key, value in told.items())

    def around(self) -> dict[str, bytes]:
        """Files that others name."""
        stream, archive = io.BytesIO(), io.BytesIO()
        np.save(stream, np.array([[1.0, 2.0], [0.5, -1.0]]))
        np.savez(archive, Q=np.eye(2), K=np.ones((2, 2)))
        return {"a.npy": stream.getvalue(), "a.npz": archive.getvalue(), "a.csv": b"1,2\n3,4\n"}

    # --- cases --------------------------------------------------------------------------------------------------

    def read(self) -> Case:
        """A file, shown or computed from."""
        name, data = self.pick(self.table, self.table, self.binary, self.seed)()
        reading = [name for name, field in FIELDS.items() if field.panel == "Reading" and name not in ("expect", "stdin_format")]
        spec, stdin = name + self.pick("", "", "", "::Q", "::x"), b""
        how: list[str] = []
        if self.often(0.1):
            spec, stdin = "-", data
            how = ["--stdin-format", name.rpartition(".")[2]] if self.often(0.7) else []
        command = self.pick(["show", spec], ["self", spec], ["attend", spec, name], ["attend", spec, "[[1,2]]"], ["run", name],
                            ["check", name])  # fmt: skip
        shown = [each for each in reading if command[0] != "show" or each in ("separator", "decimal", "header", "labels")]
        return Case([*command, *how, *self.options(shown, 2)], {name: data}, stdin)

    def compute(self) -> Case:
        """Inline matrices, and options of every kind."""
        n, m, d = self.size(), self.size(), self.size()
        lead = self.pick((), (), (), (2,), (self.size(), self.size()))
        q, k, v = (self.matrix(*lead, each, d) for each in (n, m, m))
        if self.often(0.04):
            v = self.matrix(*lead[:-1], self.size(), d)
        command = self.pick(["attend", q, k, v], ["attend", q, k], ["self", q], ["cross", q, k], ["attend", "--scores", k, v])
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
            ["run"], ["run"], ["run", "--dry-run"], ["check"], ["decode"], ["explain", "--query", self.pick("1", "2", "x", "all")],
            ["explain", "--query", "1", "--key", "1", "--exact"], ["show"], ["run", "--save-problem", "s.yaml"],
            ["run", "--format", self.pick("json", "latex", "markdown", "plain", "csv")],
        )  # fmt: skip
        names = [name for name, field in FIELDS.items() if field.flag and name not in ("stdin_format", "output", "save_problem")]
        more = self.options(names, 2) if command[0] == "run" and self.often(0.5) else []
        return Case([command[0], "p.yaml", *command[1:], *more], {"p.yaml": text.encode("utf-8", "surrogatepass"), **self.around()})

    def hand(self) -> Case:
        """What a hand might have written of a problem: its steps, rounded, with slips."""
        import attncli
        from attncli.errors import AttnError

        told = self.settings()
        base = "".join(f"{key}: {value}\n" for key, value in told.items() if key not in ("show", "name", "title"))
        try:
            with np.errstate(all="ignore"):
                trace = attncli.run(_written(base))
        except (AttnError, Exception):
            return self.problem()
        steps = [step for step in trace.names(on_request=True) if trace[step].ndim <= 3]
        expect = []
        for step in self.chance.sample(steps, min(len(steps), self.pick(1, 1, 2, 3, 4))):
            expect.append(f"  {step}: {self.spelled(trace[step].tolist(), self.pick(0, 1, 2, 2, 3, 4, 16))}\n")
        text = base + "expect:\n" + "".join(expect)
        arguments = ["check", "p.yaml", *self.pick([], [], ["--format", self.pick("json", "csv", "markdown", "latex", "plain")],
                                                   ["--points", f"{self.chance.choice(steps)}=2"])]  # fmt: skip
        if self.often(0.15):
            arguments = ["explain", "p.yaml", "--query", "1"]
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
            text = self.pick(f"{-value:.2f}", f"{value * 100:.1f}%", f"{value + 0.01:.2f}", f"{value / 2:.3f}", f"≈{text}", "~", text[:-1] or "0",
                             f"{value:.3e}")  # fmt: skip
        return text

    def jobs(self) -> Case:
        """Lists of problems, of stages, of jobs."""
        kind = self.pick("problems", "stages", "jobs")
        if kind == "jobs":
            name = self.pick("jobs.yaml", "jobs.csv")
            rows = "name,scale,mask\n" + "".join(f"{self.pick('a', 'b', '')},{self.number()},{self.mask()}\n" for _ in range(self.size()))
            text = "problem: p.yaml\njobs:\n" + "".join(f"  - {{name: j{i}, scale: {self.number()}}}\n" for i in range(self.size()))
            files = {name: (rows if name.endswith("csv") else text).encode(), "p.yaml": self.text(self.settings()).encode()}
            arguments = ["batch", name, *self.pick([], ["-o", "r"], ["--problem", "p.yaml"], ["--problem", "p.yaml", "-o", "r"])]
            return Case(arguments, {**files, **self.around()})
        entries = []
        for number in range(self.size()):
            told = {"name": f"s{number}", **{key: value for key, value in self.settings().items() if key != "name"}}
            if kind == "stages" and number and self.often(0.6):
                told = {"name": f"s{number}", "X": f"{{stage: s{number - 1}, step: {self.pick('output', 'weights', 'Q', 'x')}}}"}
            lines = self.text(told).splitlines()
            entries.append("\n".join(f"  {'- ' if at == 0 else '  '}{line}" for at, line in enumerate(lines)))
        text = self.mutated(f"{kind}:\n" + "\n".join(entries) + "\n", self.pick(0, 0, 0, 2))
        command = self.pick(["run"], ["check"], ["batch"], ["decode"], ["show"])
        arguments = [*command, "p.yaml", *(["-o", self.pick("r", "r.jsonl")] if command == ["batch"] and self.often(0.5) else [])]
        return Case(arguments, {"p.yaml": text.encode("utf-8", "surrogatepass"), **self.around()})

    def arrays(self) -> Case:
        """Outputs of a program, with axes, checked against a problem."""
        n, m, d = self.size(), self.size(), self.size()
        lead = self.pick((), (2,), (1, 2), (2, 2))
        q, k, v = (np.random.default_rng(self.chance.getrandbits(32)).normal(size=(*lead, each, d)) for each in (n, m, m))
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
        first, second = self.matrix(self.size(), self.size()), self.pick(self.matrix(self.size(), self.size()), "a.npy", "a.csv", "a.npz::Q")
        extra = self.pick([], ["--atol", self.number()], ["--rtol", self.number()], ["--ulp", self.number()])
        return Case(["diff", first, self.pick(first, second), *extra], self.around())


def _written(text: str) -> str:
    import tempfile

    path = Path(tempfile.gettempdir()) / "fuzz-problem.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return str(path)

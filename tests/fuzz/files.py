"""Files at random: tables, arrays, seeds with slips, and problems key by key."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from options import Options

from attncli.pipeline.scores import SCORES
from attncli.problem.formats import encode
from attncli.problem.matrix import Matrix
from attncli.problem.profiles import PROFILES
from attncli.problem.settings import FIELDS

SEEDS = sorted((Path(__file__).parent / "seeds").iterdir())


class Files(Options):
    """Contents of files, with their names where these say the format."""

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
        """A .npy, .npz or .safetensors, whole or with bytes changed."""
        shape = self.pick((2, 2), (3, 2), (2,), (), (1, 2, 2), (2, 1, 2, 2), (0, 2), (2, 0), (3, 3))
        dtype = self.pick("f8", "f4", "f2", "i8", "u1", "?", ">f8", "c8", "U3", "O")
        array = np.asarray(np.random.default_rng(self.chance.getrandbits(32)).normal(size=shape) * 2).astype(dtype)
        stream = io.BytesIO()
        if self.often(0.4):
            np.savez(stream, Q=array, K=array, allow_pickle=True)
            name = "a.npz"
        elif self.often(0.3) and array.dtype.kind in "fiub":
            stream.write(encode("safetensors", {"Q": Matrix(array), "K": Matrix(array)}, {}))
            name = "a.safetensors"
        else:
            np.save(stream, array, allow_pickle=True)
            name = self.pick("a.npy", "a.npy", "a.npy", "a.csv")
        data = bytearray(stream.getvalue())
        for _ in range(self.pick(0, 0, 0, 1, 3)):
            at = self.chance.randrange(min(len(data), self.pick(12, 128, len(data))))
            data[at : at + self.pick(0, 1)] = bytes(self.chance.randrange(256) for _ in range(self.pick(0, 1, 2)))
        return name, bytes(data)

    def workbook(self) -> tuple[str, bytes]:
        """An .xlsx of one sheet or two, with what cells may hold, whole or with its parts or its bytes changed."""
        import zipfile

        import openpyxl

        book = openpyxl.Workbook()
        for title in ("Q", "K")[: self.pick(1, 1, 2)]:
            sheet = book.create_sheet(title)
            for row in self.rows(self.size(), self.size()):
                sheet.append([self._cell(text) for text in row])
            if self.often(0.05):
                sheet.merge_cells("A1:B2")
            for row in sheet.iter_rows():
                for cell in row:
                    cell.number_format = self.pick("General", "0.00", "0%", "0.0E+00", "# ?/?", "yyyy", '0"x"', "@")
        stream = io.BytesIO()
        book.save(stream)
        if self.often(0.3):
            parts = io.BytesIO()
            with zipfile.ZipFile(stream) as whole, zipfile.ZipFile(parts, "w") as changed:
                for name in whole.namelist():
                    text = whole.read(name).decode()
                    changed.writestr(name, self.mutated(text, self.pick(0, 0, 1, 3)).encode("utf-8", "surrogatepass"))
            stream = parts
        data = bytearray(stream.getvalue())
        for _ in range(self.pick(0, 0, 0, 1, 3)):
            data[self.chance.randrange(len(data))] = self.chance.randrange(256)
        return "a.xlsx", bytes(data)

    def _cell(self, text: str) -> object:
        if self.often(0.9):
            try:
                return float(text)
            except ValueError:
                return text if text.isprintable() else "x"
        return self.pick(None, True, "1/2", "=1+1", "#DIV/0!", "x", "")

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
            told = {
                name: self.matrix(*(lead if self.often(0.9) else lead[:1]), *shape)
                for name, shape in (("Q", (n, d)), ("K", (m, d)), ("V", (m, v)))
            }
        for name, shape in (
            ("bias", (n, m)),
            ("past_k", (self.size(), d)),
            ("past_v", (self.size(), v)),
            ("W_O", (v, 2)),
            ("b_Q", (v,)),
            ("kernel", (n, m)),
            ("W_V", (d, v)),
        ):
            if self.often(0.06):
                told[name] = self.matrix(*shape)
        if self.often(0.2):
            told |= self.fitting(n, m, d, v)
        names = [
            name
            for name, field in FIELDS.items()
            if field.in_file and field.kind not in ("matrix", "problems", "expect")
        ]
        for name in self.chance.sample(names, self.pick(0, 1, 1, 2, 3)):
            told[name] = self.yaml(name)
        for name in [name for name in told if self.often(0.03)]:
            told[name] = self.pick(
                "{identity: 2}", "a.npy", "{file: a.npz, name: Q}", "a.csv", "", "~", self.matrix(2), "x"
            )
        return told

    def fitting(self, n: int, m: int, d: int, v: int) -> dict[str, str]:
        """Settings of positions, norms, sinks, past keys and masks, of which the sizes mostly fit."""
        heads = self.pick(*(h for h in (1, 1, 2, 3, 4) if d % h == 0 and v % h == 0))
        past = self.size()
        every = {
            "heads": str(heads),
            "rope": self.pick("10000", "10000:neighbours", "10:width=2", "10000:yarn=4,8"),
            "alibi": self.pick("published", "geometric", self.matrix(heads)),
            "relative": self.pick(self.matrix(1, n + m - 1), f"{{t5: {self.matrix(4)}, max: 8}}",
                                  f"{{shaw: {self.matrix(3, d // heads)}, max: 1}}"),
            "sink": self.pick(self.number(), self.matrix(heads)),
            "qk_norm": self.pick("l2", "rms", "layer", "rms:all"),
            "q_weight": self.matrix(d // heads),
            "k_shift": self.matrix(d),
            "eps": self.pick("0", "1e-5"),
            "positions": self.matrix(n),
            "past_k": self.pick(self.matrix(past, d), self.matrix(heads, past, d // heads)),
            "past_v": self.pick(self.matrix(past, v), self.matrix(heads, past, v // heads)),
            "past_turned": "true",
            "normalizer": self.pick("entmax:1.5", "top:2", "sparsemax", "sum", "hardmax"),
            "mask": self.pick("causal & !keys:0", f"packed:{n}/{m}", "chunk:2", "'causal | prefix-keys:1'"),
            "both_ways": "true",
        }  # fmt: skip
        return {name: every[name] for name in self.chance.sample([*every], self.pick(1, 2, 3, 5))}

    def yaml(self, name: str) -> str:
        """The value of a key."""
        if name == "score" and self.often(0.5):
            extra = self.pick(
                "",
                ", sigma: 2",
                f", W: {self.matrix(2, 2)}",
                f", W_q: {self.matrix(2, 2)}",
                ", sigma: 0",
                f", w_v: {self.matrix(2)}",
                ", radius: inf",
                ", map: exp",
            )
            return f"{{name: {self.chance.choice(SCORES.names())}{extra}}}"
        if name == "param":
            return self.pick(
                "{sigma: 2}", "{radius: 1e-300}", f"{{W: {self.matrix(2, 2)}}}", "{map: relu}", "{sigma: x}"
            )
        if name == "relative" and self.often(0.5):
            table = self.matrix(self.size(), 2 * self.size() - 1)
            return self.pick(
                f"{{t5: {table}, max: 4}}",
                f"{{t5: {table}}}",
                f"{{shaw: {self.matrix(3, 2)}}}",
                f"{{shaw: {self.matrix(3, 2)}, max: 1}}",
                f"{{xl: {self.matrix(3, 2)}, u: {self.matrix(2)}, v: {self.matrix(2)}}}",
                f"{{max: {self.number()}}}",
            )
        if name == "mask" and self.often(0.5):
            return self.pick(
                "[causal, {window: [1, 0]}]",
                "[{packed: [2, 1]}, causal]",
                "[{chunk: 2}, 'causal & (window:1,0 | prefix-keys:1)']",
                "{keep: [[1, 0], [1, 1]]}",
                "{lengths: [2, 1]}",
                "{keys: [1, 0]}",
                "[causal, prefix:1]",
                "{segments: [0, 1]}",
                "none",
                "{block: a.npy}",
                "3",
            )
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

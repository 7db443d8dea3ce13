"""Arrays in the order of axes in which frameworks store them: read so, and given back so."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from calling import attncli

from attncli import AttnError, attend, check, run, self_attention


def formula(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Softmax of q . k / sqrt(d), token by token, of (b, h, t, d); query head h uses key head h G // H."""
    out = np.zeros((*q.shape[:3], v.shape[-1]))
    for b, h, i in np.ndindex(*q.shape[:3]):
        g = h * k.shape[1] // q.shape[1]
        e = np.exp([q[b, h, i] @ key / q.shape[-1] ** 0.5 for key in k[b, g]])
        out[b, h, i] = (e / e.sum()) @ v[b, g]
    return out


def arrays(seed: int = 1, heads: int = 4, keys: int = 4) -> list[np.ndarray]:
    r = np.random.default_rng(seed)
    return [r.normal(size=shape) for shape in ((2, heads, 3, 5), (2, keys, 6, 5), (2, keys, 6, 2))]


def stored(x: np.ndarray, letters: str) -> np.ndarray:
    return np.einsum(f"bhtd->{letters}", x)


@pytest.mark.parametrize("letters", ["".join(letters) for letters in itertools.permutations("bhtd")])
def test_four_axes_in_any_order_and_the_output_in_the_same(letters: str) -> None:
    q, k, v = arrays(keys=2)
    trace = attend(*(stored(x, letters) for x in (q, k, v)), axes=letters)
    assert np.allclose(trace["output"], stored(formula(q, k, v), letters), rtol=0, atol=1e-12)
    assert np.array_equal(trace["Q"], stored(q, letters))
    assert trace["weights"].shape == (2, 4, 3, 6)
    assert np.allclose(trace["output[2,3]"], formula(q, k, v)[1, 2], rtol=0, atol=1e-12)


@pytest.mark.parametrize("like", ["jax", "flash", "keras-mha"])
def test_profiles_whose_arrays_have_tokens_before_heads(like: str) -> None:
    q, k, v = arrays()
    trace = attend(*(stored(x, "bthd") for x in (q, k, v)), like=like)
    assert np.allclose(trace["output"], stored(formula(q, k, v), "bthd"), rtol=0, atol=1e-12)
    alone = attend(*(stored(x, "bthd")[0] for x in (q, k, v)), like=like)
    assert np.allclose(alone["output"], stored(formula(q, k, v), "bthd")[0], rtol=0, atol=1e-12)
    assert alone["weights"].shape == (4, 3, 6)
    assert any("axes bthd" in note for note in trace.notes)
    other = attend(q, k, v, like=like, axes="bhtd")
    assert np.allclose(other["output"], formula(q, k, v), rtol=0, atol=1e-12)


def test_as_many_tokens_as_heads_are_told_apart_by_the_letters() -> None:
    x = np.random.default_rng(3).normal(size=(1, 3, 3, 2))
    right = stored(formula(*(np.einsum("bthd->bhtd", x),) * 3), "bthd")
    assert np.allclose(attend(x, x, x, axes="bthd")["output"], right, rtol=0, atol=1e-12)


def test_tokens_before_sequences() -> None:
    q, k, v = (x[:, :1] for x in arrays())
    turned = [x[:, 0].transpose(1, 0, 2) for x in (q, k, v)]
    right = formula(q, k, v)[:, 0].transpose(1, 0, 2)
    assert np.allclose(attend(*turned, axes="tbd")["output"], right, rtol=0, atol=1e-12)
    x = np.random.default_rng(4).normal(size=(5, 2, 4))
    once = self_attention(x.transpose(1, 0, 2), heads=2)["output"]
    assert np.array_equal(self_attention(x, heads=2, axes="tbd")["output"], once.transpose(1, 0, 2))


def test_through_w_o_the_heads_are_joined() -> None:
    q, k, v = arrays()
    w = np.random.default_rng(5).normal(size=(8, 3))
    joined = stored(formula(q, k, v), "bthd").reshape(2, 3, 8)
    trace = attend(*(stored(x, "bthd") for x in (q, k, v)), axes="bthd", wo=w)
    assert np.allclose(trace["output"], joined @ w, rtol=0, atol=1e-12)


def test_past_keys_have_the_same_order() -> None:
    q, k, v = arrays()
    cut = {"past_k": k[:, :, :2], "past_v": v[:, :, :2]}
    trace = attend(*(stored(x, "bthd") for x in (q, k[:, :, 2:], v[:, :, 2:])), axes="bthd",
                   **{name: stored(x, "bthd") for name, x in cut.items()})  # fmt: skip
    assert np.allclose(trace["output"], stored(formula(q, k, v), "bthd"), rtol=0, atol=1e-12)
    assert trace["K"].shape == (2, 6, 4, 5)


@pytest.mark.parametrize("joined", [False, True])
def test_expected_arrays_have_the_order_of_the_inputs(tmp_path: Path, joined: bool) -> None:
    q, k, v = arrays()
    right = stored(formula(q, k, v), "bthd")
    names = []
    for name, x in zip("QKV", (q, k, v), strict=True):
        np.save(tmp_path / f"{name}.npy", stored(x, "bthd"))
        names.append(tmp_path / f"{name}.npy")
    np.save(tmp_path / "out.npy", right.reshape(2, 3, 8) if joined else right)
    told = ("--expect", f"output={tmp_path / 'out.npy'}", "--like", "jax", "--format", "json")
    assert attncli("attend", *names, *told).status == 0
    right[1, 2, 3, 1] += 1e-3
    np.save(tmp_path / "out.npy", right.reshape(2, 3, 8) if joined else right)
    assert attncli("attend", *names, *told).status == 1


def test_files_hold_the_order_and_a_saved_problem_gives_it_again(tmp_path: Path) -> None:
    q, k, v = arrays()
    for name, x in zip("QKV", (q, k, v), strict=True):
        np.save(tmp_path / f"{name}.npy", stored(x, "bthd"))
    files = [tmp_path / f"{name}.npy" for name in "QKV"]
    out, saved = tmp_path / "o.npy", tmp_path / "p.yaml"
    assert attncli("attend", *files, "--axes", "bthd", "-o", out, "--save-problem", saved).status == 0
    right = stored(formula(q, k, v), "bthd")
    assert np.allclose(np.load(out), right, rtol=0, atol=1e-12)
    assert np.array_equal(run(saved)["output"], np.load(out))


def test_a_problem_file_says_its_axes_and_places_stay_those_of_the_file(tmp_path: Path) -> None:
    text = "axes: thd\nQ: [[[1, 0], [0, 2]]]\nK: [[[1, 1], [3, 1]], [[0, 1], [1, 2]]]\nV: [[[1], [2]], [[3], [4]]]\n"
    path = tmp_path / "p.yaml"
    path.write_text(text)
    q, k, v = np.array([[[1, 0]], [[0, 2]]]), np.array([[[1, 1], [0, 1]], [[3, 1], [1, 2]]]), [[[1], [3]], [[2], [4]]]
    right = stored(formula(q[None] * 1.0, k[None] * 1.0, np.array(v)[None] * 1.0), "bthd")[0]
    assert np.allclose(run(path)["output"], right, rtol=0, atol=1e-12)
    saved = tmp_path / "s.yaml"
    assert attncli("run", path, "--save-problem", saved, "--quiet").status == 0
    assert np.array_equal(run(saved)["output"], run(path)["output"])
    path.write_text(text + f"expect:\n  output: {np.round(right, 4).tolist()}\n")
    assert check(path).verdict == "agrees"


@pytest.mark.parametrize(
    ("letters", "what", "hint"),
    [
        ("bxhd", "letter 2 is 'x'", "b sequence, h head, t token, d feature"),
        ("bthh", "'h' stands twice", "bthd"),
        ("bhd", "'t' is missing", "tbd"),
        ("thd", "Q has 4 axes, but axes thd names 3", "a letter for each"),
    ],
)
def test_letters_that_do_not_fit_are_told(letters: str, what: str, hint: str) -> None:
    with pytest.raises(AttnError) as told:
        attend(*arrays(), axes=letters)
    assert what in str(told.value)
    assert hint in str(told.value)


def test_a_wrong_letter_has_its_place_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("Q: [[[[1]]]]\nK: [[[[1]]]]\naxes: bthx\n")
    result = attncli("run", path)
    assert result.status == 2
    assert "p.yaml:3:" in result.err
    assert "'x'" in result.err


def test_columns_and_axes_are_not_both_said() -> None:
    with pytest.raises(AttnError, match="both say where tokens lie"):
        attend([[1.0]], [[1.0]], axes="td", layout="columns")


def test_tables_count_sequences_and_heads_of_the_output(tmp_path: Path) -> None:
    for name, x in zip("QKV", arrays(), strict=True):
        np.save(tmp_path / f"{name}.npy", x)
    result = attncli("attend", *(tmp_path / f"{name}.npy" for name in "QKV"), "--axes", "bhtd", "--show", "output")
    assert result.status == 0
    assert result.out.count("output[") == 8
    assert "output[2,4]" in result.out

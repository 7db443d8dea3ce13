"""Everything that is wrong in a problem file, told at once, each with its line and column and with what mends it."""

from __future__ import annotations

import numpy as np
import pytest

from attncli import AttnError, load, run
from attncli.problem.document import read_document
from tests.inside import InputError

BASE = "Q: [[1, 0], [0, 1]]\nK: [[1, 0], [0, 1], [1, 1]]\n"  # two lines; what is tried stands on line 3

# text on line 3 (or more), column of the error there, words of the message, words of the hint
ONE = [
    ("W_q: [[1]]", 1, "unknown key 'W_q'", "W_Q"),
    ("x: [[1]]", 1, "unknown key 'x'", "'X'"),
    ("msk: causal", 1, "unknown key 'msk'", "mask"),
    ("wq: [[1]]", 1, "unknown key 'wq'", "W_Q"),
    ("true: 1", 1, "the key true", "names"),
    ("1: 2", 1, "the key 1 ", "names"),
    ("null: 2", 1, "the key null", "names"),
    ("quiet: true", 1, "'quiet' does not belong", "--quiet"),
    ("Q: [[1, 0]]", 1, "given twice", ""),
    ("mask-value: -1\nmask_value: -2", 1, "given twice", ""),
    ("V: 3", 4, "single value", "[[3]]"),
    ("V: 1/2", 4, "single value", "[[1/2]]"),
    ("V: true", 4, "single value", ""),
    ("V: ~", 4, "no value", "leave the key out"),
    ("V:", 3, "no value", "leave the key out"),
    ("V: nowhere.csv", 4, "nowhere.csv: the file does not exist", ""),
    ("V: {file: nowhere.npz, name: V}", 4, "does not exist", ""),
    ('V: {file: "a\\0.npy"}', 4, "null byte", ""),
    ("V: [[1, ~], [2, 3], [4, 5]]", 9, '"~" stands where a number', "only under expect:"),
    ("V: [[1, ·], [2, 3], [4, 5]]", 9, '"·" is not a number', "~ in YAML"),
    ("expect: {weights: [[1, 0, ·], [0, 0, 1]]}", 27, '"·" is not a number', "~ in YAML"),
    ("expect: {weights: }", 19, "weights has no value", "weights: [["),
    ("expect: {weights: {values: , decimals: 2}}", 28, "weights has no value", "weights: [["),
    ("score: {name: general, W: }", 27, "W has no value", "W: [["),
    ("expect: weights:[[1]]", 17, "a blank is missing", "write weights: [["),
    ("V: {fil: v.npy}", 4, "unknown key 'fil'", "{file: w.npz, name: W_K}"),
    ("V: {identity: 0}", 4, "identity", "1 to 16777216"),
    ("V: {identity: 100000000}", 4, "identity cannot be 100000000", "1 to 16777216"),
    ("V: {identity: 1e30}", 4, "identity cannot be 1e30", "1 to 16777216"),
    ("V: {stage: a}", 4, "stage and step go together", "step: output"),
    ("V: {stage: a, step: outpt}", 21, "unknown step 'outpt'", "output"),
    ("V: [[1, 2], [3]]", 13, "row 2", ""),
    ("V: [[1], [x], [3]]", 11, '"x" is not a number', ""),
    ("V: [[1:30], [2], [3]]", 6, '"1:30" is not a number', ""),
    ("temperature: [1]", 14, "temperature is a list", "temperature: 0.5"),
    ("scale: nan", 8, "finite", ""),
    ("scale: inf", 8, "finite", ""),
    ("scale: 1e400", 8, "too large", ""),
    ("scale: 1_0", 8, "not a number", "without underscores"),
    ("temperature: 0", 14, "must not be 0", "hardmax"),
    ("temperature: 1e-320", 14, "must not be 0", ""),
    ("softcap: 0", 10, "above 0", ""),
    ("softcap: -2", 10, "above 0", ""),
    ("mask_value: nan", 13, "-inf or a finite number", "-1e6"),
    ("mask_value: inf", 13, "-inf or a finite number", ""),
    ("heads: 0", 8, "heads cannot be 0", "from 1 on"),
    ("heads: 1.5", 8, "whole number", ""),
    ("heads: two", 8, "not a number", ""),
    ("precision: 18", 12, "cannot be 18", "0 to 17"),
    ("precision: -1", 12, "cannot be -1", "0 to 17"),
    ("layout: rwos", 9, "unknown layout 'rwos'", "'rows'"),
    ("normalizer: softmx", 13, "unknown normalizer", "'softmax'"),
    ("like: keras-mh", 7, "unknown profile", "'keras-mha'"),
    ("both_ways: yes", 12, "true or false", "YAML 1.2"),
    ("score: addtive", 8, "unknown score", "'additive'"),
    ("score: {sigma: 1}", 8, "no name", ""),
    ("score: {name: gausian}", 15, "unknown score", "'gaussian'"),
    ("score: {name: gaussian, sgma: 1}", 8, "'sgma'", "sigma"),
    ("score: {name: gaussian, sigma: 0}", 8, "positive", ""),
    ("score: {name: gaussian, sigma: [[1]]}", 32, "is a number, not a matrix", ""),
    ("score: {name: additive, w_v: 2}", 8, "is a matrix, not the number 2", ""),
    ("score: general", 8, "needs W", ""),
    ("score: {name: general, W: [[1, 2, 3], [4, 5, 6]]}", 27, "2 x 2", ""),
    ("tokens: [[CLS], the]", 10, "token 1 is a list: write '[CLS]' in quotes", ""),
    ("tokens: [a: b, c]", 10, "token 1 is a mapping: write 'a: b' in quotes", ""),
    ("tokens: [a, b, c]", 1, "3 labels, but there are 2 queries", ""),
    ("key_tokens: a b", 1, "2 labels, but there are 3 keys", ""),
    ("tokens: {file: nowhere.txt}", 9, "nowhere.txt: the file does not exist", ""),
    ("tokens: {file: /dev/zero}", 9, "a device", ""),
    ('tokens: {file: "a\\0"}', 9, "null byte", ""),
    ("tokens: {file: ''}", 9, "the name of the file is empty", ""),
    ("mask: [causal, 3]", 16, '"3" is not a mask', "lengths: [3, 2]"),
    ("mask: 3", 7, '"3" is not a mask', "lengths"),
    ("mask: causl", 7, "unknown mask 'causl'", "'causal'"),
    ("mask: m.npy", 7, "'m.npy' is a matrix, which may mean two things", "keep:m.npy (1 = visible) or block:m.npy"),
    ("mask: [causal, m.npz::M]", 16, "'m.npz::M' is a matrix", "block:m.npz::M (1 = hidden)"),
    ("mask: '[[1, 0]]'", 7, "'[[1, 0]]' is a matrix", "keep:[[1, 0]]"),
    ("mask: {widow: [1, 0]}", 7, "unknown mask 'widow'", "'window'"),
    ("mask: {window: [1]}", 7, "two numbers, not 1", ""),
    ("mask: {causal: left}", 16, "takes no argument", "top-left"),
    ("mask: [causal, window]", 16, "needs an argument", "window:L,R"),
    ("mask: {lengths: [9]}", 7, "9 is not among 0..3", ""),
    ("mask: {lengths: [1.5]}", 7, "1.5 is not", ""),
    ("mask: {keep: [[1, 0], [1, 1]]}", 14, "keep is 2 x 2, but the scores are 2 x 3 (queries x keys)", "cut"),
    ("mask: {keep: [[1], [1]]}", 14, "keep is 2 x 1", ""),
    ("mask: {keep: [[2, 0, 1]]}", 16, "holds 2", "--bias"),
    ("mask: {block: [[1, 0, 1], [1, nan, 1]]}", 31, "holds nan", "--bias"),
    ("mask: 'window:99999999999999999999,0'", 7, "too large", "no limit"),
    ("mask: 'dilated:99999999999999999999'", 7, "too large", ""),
    ("mask: 'segments:9007199254740993,1/1,1,1'", 7, "too large", ""),
    ("mask: {causal: top-left, keep: [[1]]}", 7, "one name", "a list"),
    ("mask: ['causal:top-left', 'window:1,0:bottom-right']", 1, "aligned top-left and bottom-right", "one alignment"),
    ("bias: [[1], [2]]", 7, "bias is 2 x 1, but the scores are 2 x 3", ""),
    ("V: [[1], [2]]", 4, "V is 2 x 1 (m x d_v), but there are 3 keys (K: 3 x 2)", "one value"),
    ("W_Q: [[1, 0], [0, 1]]", 6, "Q and W_Q are both given", "leave W_Q out"),
    ("X: [[1, 0]]", 4, "attend has no use for X", None),
    ("scores: [[1, 2, 3]]", None, "Q and scores are both given", "leave Q out"),
    ("temperature: 2\nscale: 1", 1, "scale and temperature are both given", "1/T"),
    ("kv_heads: 2", 1, "without heads", ""),
    ("heads: 3", 1, "Q has 2 features, which 3 heads cannot share equally", "divides"),
    ("score: {name: concat, W: [[1, 2, 3, 4]], v: [1, 2]}", 8, "has 2 numbers, but the hidden width h is 1", ""),
    ("heads: 2\nkv_heads: 1", None, "Q has 2 for 2 heads, K has 2 for 1", ""),
    ("heads: 2\nkv_heads: 3", None, "2 heads cannot share 3 key heads", ""),
    ("W_O: [[1]]", 6, "no values", "V"),
    ("past_v: [[1]]", 9, "no values", ""),
    ("expect: {weigts: [[1]]}", 10, "unknown step 'weigts'", "weights"),
    ("expect: {encoder.weights: [[1, 0, 0], [0, 1, 0]]}", 27, "no stage 'encoder'", "write weights"),
    ("expect: {weights: [[a]]}", 21, '"a" is not a number', ""),
    ("expect: {weights: {value: [[1]]}}", 19, "unknown key 'value'", "values"),
    ("expect: {weights: {values: [[1]], decimals: 1, significant: 2}}", 19, "both given", ""),
    ("expect: {weights: {values: [[1]], decimals: -1}}", 45, "decimals cannot be -1", ""),
    ("expect: [[1]]", 9, "not a mapping", ""),
    ("show: weigths", 7, "unknown step", "weights"),
    ("problems: 3", 11, "not a list", ""),
]  # fmt: skip


def errors_of(text, tmp_path, name="p.yaml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(AttnError) as caught:
        [problem.solve() for problem in read_document(path).problems()]
    return caught.value.errors()


def where(error):
    return (error.place.line, error.place.column)


@pytest.mark.parametrize(("text", "column", "what", "hint"), ONE, ids=[case[0] for case in ONE])
def test_each_kind_of_error_has_its_place_and_hint(text, column, what, hint, tmp_path):
    attention = "attention: attend\n" if "X:" in text else "title: a\n"
    errors = errors_of(attention + BASE + text + "\n", tmp_path)
    found = [error for error in errors if what in error.what]
    assert found, [str(error) for error in errors]
    error = found[0]
    assert str(error.place).startswith(str(tmp_path / "p.yaml"))
    if column is not None:
        line = 5 if "given twice, with" in error.what else 4
        assert where(error) == (line, column)
    assert hint is None or hint in (error.hint or "")


def test_all_at_once_and_in_the_order_of_the_lines(tmp_path):
    text = (
        "attention: self\n"
        "X: [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]]\n"
        "W_Q: [[1, 2], [3, 4], [5, 6]]\n"
        "W_K: [[1, 2, x], [3, 4, 5]]\n"
        "scale: 0x10\n"
        "mask: [causal, 3]\n"
        "tokens: a b\n"
        "normaliser: softmax\n"
    )
    errors = errors_of(text, tmp_path)
    assert [where(error) for error in errors] == [(3, 6), (4, 14), (5, 8), (6, 16), (7, 1), (8, 1)]
    assert errors[0].what == "W_Q is 3 x 2 (d_x x d_k), but X has 4 features (3 x 4)"


def test_a_matrix_that_could_not_be_read_is_not_taken_for_one_that_is_left_out(tmp_path):
    errors = errors_of("X: [[1, 0]]\nW_Q: [[x]]\nW_K: [[1], [2]]\n", tmp_path)
    assert [where(error) for error in errors] == [(2, 8)]


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("X: [[1, 2, 3]]\nW_Q: [[1, 2, 3], [4, 5, 6]]\n", "W_Q is 2 x 3", "--weight-layout out-in"),
        ("layout: columns\nX: [[1], [2], [3]]\nW_Q: [[1, 0], [2, 0], [3, 0]]\nW_K: [[1, 2, 3]]\n",
         "W_Q is 3 x 2 (d_k x d_x), but X has 3 features (3 x 1)", "W_Q transposed would fit: write it as 2 x 3"),
        ("X: [[1, 2], [3, 4], [5, 6]]\nW_Q: [[1, 2, 3]]\n", "W_Q is 1 x 3", "--layout columns"),
        ("X: [[1, 2]]\nW_V: [[1], [2], [3]]\n", "W_V is 3 x 1", "2 x ..."),
        ("X: [[1, 2]]\nY: [[1]]\nW_K: [[1, 0], [0, 1]]\n", "W_K is 2 x 2 (d_y x d_k), but Y has 1 features", ""),
        ("X: [[1, 2]]\nb_Q: [1, 2, 3]\n", "b_Q has 3 numbers, but Q has 2 features", ""),
        ("X: [[1, 2]]\nb_Q: [[1, 2], [3, 4]]\n", "b_Q is 2 x 2", "bias"),
        ("X: [[1, 2]]\nW_V: [1, 2]\n", "W_V is a vector of 2", "2 x 1 or 1 x 2"),
        ("X: [[1, 2]]\nW_O: [[1, 2, 3]]\n", "W_O is 1 x 3 (d_v x d_o)", ""),
        ("X: [[1, 2]]\nW_O: [[1, 2], [3, 4]]\nb_O: [1]\n", "b_O has 1 numbers", ""),
        ("layout: columns\nQ: [[1, 0]]\nK: [[1, 0, 1]]\nmask: {keep: [[1, 0, 1]]}\n",
         "keep is 1 x 3, but the scores are 3 x 2 (keys x queries)", "one column of 3 keys"),
    ],
)  # fmt: skip
def test_sizes_name_both_matrices_in_the_users_layout(text, what, hint, tmp_path):
    errors = errors_of(text, tmp_path)
    assert any(what in error.what and hint in (error.hint or "") for error in errors), [str(e) for e in errors]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("attention: self\nX: [[1]]\nY: [[1]]\n", "self has no use for Y"),
        ("attention: cross\nX: [[1]]\n", "Y is missing"),
        ("attention: cross\nY: [[1]]\n", "X is missing"),
        ("attention: self\n", "X is missing"),
        ("Q: [[1]]\n", "K is missing"),
        ("title: nothing\n", "Q and K are missing"),
        ("scores: [[1]]\nweights: [[1]]\n", "scores and weights are both given"),
        ("weights: [[1]]\nmask: causal\n", "mask has no effect: the problem begins at weights"),
        ("weights: [[1]]\nscale: 2\n", "scale has no effect"),
        ("weights: [[1]]\nnormalizer: sum\n", "normalizer has no effect"),
        ("masked: [[1]]\nbias: [[1]]\n", "bias has no effect"),
        ("scaled: [[1]]\ntemperature: 2\n", "temperature has no effect"),
        ("scores: [[1]]\npast_k: [[1]]\n", "past_k and scores are both given"),
        ("scores: [[1]]\nscore: scaled-dot\n", "needs d_k"),
        ("weights: [[1]]\nX: [[1]]\nV: [[1]]\n", "X has no effect"),
        ("X: [[1]]\nY: [[1]]\nK: [[1]]\nV: [[1]]\n", "Y is not needed"),
        ("X: [[1]]\nQ: [[1]]\n", "Q and X are both given"),
        ("X: [[1]]\npast_k: [[1]]\n", "past_k is given without past_v"),
    ],
)
def test_contradictions(text, what, tmp_path):
    errors = errors_of(text, tmp_path)
    assert any(what in error.what for error in errors), [str(error) for error in errors]
    assert all(str(tmp_path) in str(error.place) for error in errors)


def test_what_is_no_mapping(tmp_path):
    assert "a list, not a problem" in errors_of("[[1, 2]]", tmp_path)[0].what
    assert "a single value" in errors_of("hello", tmp_path)[0].what
    with pytest.raises(AttnError, match="does not exist"):
        load(tmp_path / "missing.yaml")
    with pytest.raises(AttnError, match="a folder"):
        load(tmp_path)
    with pytest.raises(AttnError, match="a device"):
        load("/dev/zero")
    with pytest.raises(AttnError, match="name of the file is empty"):
        load("")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    with pytest.raises(InputError, match="symbolic links"):
        load(tmp_path / "loop.yaml")


def test_errors_in_a_named_file_keep_the_place_in_that_file(tmp_path):
    (tmp_path / "q.csv").write_text("1,2\n3,x\n")
    (error,) = errors_of("Q: q.csv\nK: [[1, 2]]\n", tmp_path)
    assert (error.place.file, *where(error)) == (str(tmp_path / "q.csv"), 2, 2)  # line and cell


def test_stages_and_problems(tmp_path):
    errors = errors_of(
        "stages:\n"
        "- {name: a, X: [[1, 0], [0, 1]]}\n"
        "- {X: [[1, 0]], Y: {stage: c, step: output}}\n"
        "- {name: a, X: [[1, 0]], Y: {stage: a, step: output}}\n"
        "expect: {b.weights: [[1]]}\n",
        tmp_path,
    )
    assert [error.what for error in errors] == [
        "a stage without a name",
        "there is no earlier stage 'c'",
        "two stages are named 'a'",
        "there is no stage 'b'",
    ]
    errors = errors_of("problems:\n- {Q: [[1, 0]], K: [[1]]}\n- 3\n- {Q: [[1]], K: [[1]], layot: rows}\n", tmp_path)
    assert [where(error) for error in errors] == [(2, 7), (3, 3), (4, 24)]
    errors = errors_of("problems:\n- {Q: [[1]]}\n- {Y: [[1]]}\n", tmp_path)
    assert [error.place.line for error in errors] == [2, 3]


def test_solving_names_the_stage_that_is_missing(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("stages:\n- {name: a, X: [[1]]}\n- {name: b, X: [[1]], Y: {stage: a, step: output}}\n")
    first, second = read_document(path).problems()
    np.testing.assert_array_equal(first.solve()["output"], [[1]])
    with pytest.raises(AttnError, match="the stage 'a', which is not solved"):
        second.solve()
    with pytest.raises(AttnError, match="2 stages, not one problem"):
        load(path)


@pytest.mark.parametrize(
    ("more", "told"),
    [("", "2 x 1 x 3 (sequences x 1 x keys)"), ("heads: 2\n", "2 x 1 x 1 x 3 (sequences x 1 x 1 x keys)")],
)
def test_a_padding_mask_of_sequences_x_keys_is_told_its_ways(more, told, tmp_path):
    data = "[[[1, 0], [0, 1], [1, 1]], [[1, 0], [0, 1], [1, 1]]]"
    (error,) = errors_of(f"X: {data}\nmask: {{keep: [[1, 1, 0], [1, 0, 0]]}}\n{more}", tmp_path)
    assert error.what.startswith("keep is 2 x 3, but the scores are 3 x 3")
    assert told in error.hint
    assert "lengths:" in error.hint
    for mended in ("{keep: [[[1, 1, 0]], [[1, 0, 0]]]}", "{lengths: [2, 1]}"):
        (tmp_path / "q.yaml").write_text(f"X: {data}\nmask: {mended}\n")
        run(tmp_path / "q.yaml")

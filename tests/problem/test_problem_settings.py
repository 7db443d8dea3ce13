"""Defaults < profile < file < options, what the table of settings promises, and options as text."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from attncli import AttnError
from attncli.problem.build import make_problem
from attncli.problem.convert_text import layer_from_options
from attncli.problem.document import read_document
from attncli.problem.profiles import PROFILES
from attncli.problem.reading import Reading, split_steps, split_words
from attncli.problem.settings import FIELDS, find_key, keywords
from tests.inside import MASKS, NORMALIZERS, SCORES

FILE = "Q: [[1, 0], [0, 1]]\nK: [[1, 0], [0, 1], [1, 1]]\nV: [[1], [2], [4]]\n"


def solve(tmp_path, text="", **options):
    path = tmp_path / "p.yaml"
    path.write_text(FILE + text)
    return read_document(path).problem(layer_from_options(options, Reading()))


def test_the_table_is_importable_without_numpy_and_yaml():
    code = (
        "import sys; import attncli, attncli.problem.settings, attncli.problem.profiles;"
        "print([name for name in ('numpy.core', 'numpy._core', 'yaml') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_each_field_is_said_in_one_way():
    flags = [field.flag for field in FIELDS.values() if field.flag]
    assert len(flags) == len(set(flags))
    assert all(field.help and field.panel for field in FIELDS.values())
    assert keywords()["wq"].name == "W_Q"
    assert keywords()["weight_layout"].flag == "--weight-layout"
    for key in ("weight-layout", "weight_layout", "past-k", "W_Q"):
        assert find_key(key).name == key.replace("-", "_")


def test_order_of_the_layers(tmp_path):
    """keras: dot, -1e9, uniform; the file and then the option win over it."""
    assert solve(tmp_path).mask_value == -np.inf
    assert solve(tmp_path, like="keras").mask_value == -1e9
    assert solve(tmp_path, "mask_value: -5\n", like="keras").mask_value == -5
    assert solve(tmp_path, "mask_value: -5\n", like="keras", mask_value="-7").mask_value == -7
    assert solve(tmp_path, "like: keras\n").score.score == "dot"
    assert solve(tmp_path, "like: keras\n", like="jax").score.score == "scaled-dot"
    assert solve(tmp_path, "like: keras\nscore: cosine\n").score.score == "cosine"


def test_lists_are_replaced_and_not_added_to(tmp_path):
    assert [choice.mask for choice in solve(tmp_path, "mask: [causal]\n").masks] == ["causal"]
    assert [choice.mask for choice in solve(tmp_path, "mask: [causal]\n", mask=["keys:1,1,0"]).masks] == ["keys"]
    assert solve(tmp_path, "mask: [causal]\n", mask=["none"]).masks == []


def test_a_score_brings_its_parameters_and_param_adds_to_them(tmp_path):
    text = "score: {name: gaussian, sigma: 2}\n"
    assert solve(tmp_path, text).score.parameters == {"sigma": 2}
    assert solve(tmp_path, text, param=["sigma=3"]).score.parameters == {"sigma": 3}
    assert solve(tmp_path, text, score="laplacian").score.parameters == {}
    assert solve(tmp_path, text, score="boxcar", param=["radius=1/2"]).score.parameters == {"radius": 0.5}
    matrix = solve(tmp_path, score="general", param=["W=[[1, 2], [3, 4]]"]).score.parameters["W"]
    np.testing.assert_array_equal(matrix.array, [[1, 2], [3, 4]])


def test_a_temperature_replaces_the_files_scale_and_says_so(tmp_path):
    problem = solve(tmp_path, "scale: 2\n", temperature="4")
    assert (problem.scale, problem.temperature) == (None, 4)
    assert "temperature replaces the scale" in problem.notes[0]
    with pytest.raises(AttnError, match="both given"):
        solve(tmp_path, scale="1", temperature="2")


def test_hand_numbers_are_merged_by_step(tmp_path):
    text = "expect: {weights: [[1, 0, 0], [0, 1, 0]], output: [[1], [2]]}\n"
    problem = solve(tmp_path, text, expect=["output=[[7], [8]]"])
    assert set(problem.expect) == {"weights", "output"}
    np.testing.assert_array_equal(problem.expect["output"].matrix.array, [[7], [8]])


def test_errors_of_options_name_the_option_and_come_together(tmp_path):
    options = {"scale": "nan", "heads": "0", "mask": ["causl", "window:1"], "param": ["sigma"], "tokens": "@nowhere",
               "layout": "rwos", "bias": "nowhere.csv", "expect": ["weights"], "softcap": "1,5"}  # fmt: skip
    with pytest.raises(AttnError) as caught:
        solve(tmp_path, **options)
    places = [str(error.place) for error in caught.value.errors()]
    for flag in ("--scale", "--heads", "--param", "--tokens", "--layout", "--expect", "--softcap"):
        assert flag in places
    assert places.count("--mask") == 2
    assert "nowhere.csv" in places


def test_numbers_of_options_are_numbers_as_written():
    layer = layer_from_options({"scale": "1/sqrt(4)", "mask_value": "−inf", "precision": "010"}, Reading())
    assert {name: setting.value for name, setting in layer.settings.items()} == {
        "scale": 0.5, "mask_value": -np.inf, "precision": 10,
    }  # fmt: skip


def test_words_and_steps():
    assert split_words("the cat sat") == ["the", "cat", "sat"]
    assert split_words("the,cat, sat") == ["the,cat,", "sat"]
    assert split_words("the,cat,sat") == ["the", "cat", "sat"]
    assert split_words("it") == ["it"]
    assert split_steps("weights[1,2], output") == ["weights[1,2]", "output"]
    assert split_steps("encoder.weights,all") == ["encoder.weights", "all"]


@pytest.mark.parametrize("name", PROFILES)
def test_profiles_set_their_row_and_say_it(tmp_path, name):
    problem = solve(tmp_path, like=name)
    rules = PROFILES[name].rules()
    assert problem.score.score == rules["score"]
    assert problem.mask_value == pytest.approx(rules["mask_value"])
    assert (problem.empty_rows, problem.alignment) == (rules["empty_rows"], rules["causal"])
    assert problem.weight_layout == rules["weight_layout"]
    assert any(note.startswith(f"like {name}: score {rules['score']}") for note in problem.notes)


def test_profiles_against_the_documented_rows():
    """From the documentation of each: what it does where it disagrees with the others."""
    assert PROFILES["jax"].mask_value == pytest.approx(-0.7 * np.finfo(np.float32).max)
    assert {name for name, profile in PROFILES.items() if profile.score == "dot"} == {"keras"}
    assert {name for name, profile in PROFILES.items() if profile.causal == "bottom-right"} == {"flash"}
    assert {name for name, profile in PROFILES.items() if profile.empty_rows == "uniform"} == {"jax", "keras", "d2l"}
    assert {name for name, profile in PROFILES.items() if profile.empty_rows == "nan"} == {"torch-mha"}
    out_in = {name for name, profile in PROFILES.items() if profile.weight_layout == "out-in"}
    assert out_in == {"torch-sdpa", "torch-mha", "flex", "d2l", "flash"}


def test_flash_aligns_causal_masks_at_the_bottom_right(tmp_path):
    trace = solve(tmp_path, mask=["causal"], like="flash").solve()
    assert trace.mask == ["causal:bottom-right"]
    assert np.count_nonzero(trace["weights"]) == 2 + 3


def test_what_is_registered_at_run_time_is_known_everywhere(tmp_path):
    @SCORES("mine", formula="0", kernel=None)
    def mine(q, k, *, power: float = 1.0):
        """All alike."""
        return np.zeros((*q.shape[:-1], k.shape[-2])) * power

    @NORMALIZERS("halves", formula="1/2", sums_to_one=False, monotone=False, error="absolute")
    def halves(logits, visible):
        """A half for each."""
        return np.full_like(logits, 0.5)

    @MASKS("first", formula="j = 0", spec="first")
    def first(extent, argument):
        """The first key alone."""
        return lambda at: at.key == 0

    try:
        problem = solve(tmp_path, "score: {name: mine, power: 2}\nnormalizer: halves\nmask: first\n")
        np.testing.assert_array_equal(problem.solve()["masked"][:, 0], [0, 0])
        assert {"mine"} <= set(FIELDS["score"].choices())
        assert "halves" in FIELDS["normalizer"].choices()
        with pytest.raises(AttnError, match="did you mean 'mine'"):
            solve(tmp_path, "score: mien\n")
    finally:
        SCORES.remove("mine")
        NORMALIZERS.remove("halves")
        MASKS.remove("first")


def test_how_csv_files_are_read_reaches_the_files_named_in_the_problem(tmp_path):
    (tmp_path / "k.csv").write_text("1,5;2\n0,25;1\n")
    (tmp_path / "p.yaml").write_text("Q: [[1, 0]]\nK: k.csv\ndecimal: ','\n")
    problem = read_document(tmp_path / "p.yaml").problem()
    np.testing.assert_array_equal(problem.inputs["K"].array, [[1.5, 2], [0.25, 1]])
    (tmp_path / "p.yaml").write_text("Q: [[1, 0]]\nK: k.csv\n")
    options = layer_from_options({"decimal": ","}, Reading())
    problem = read_document(tmp_path / "p.yaml", options).problem(options)
    np.testing.assert_array_equal(problem.inputs["K"].array[0], [1.5, 2])


def test_standard_input_as_a_problem():
    document = read_document("-", stdin=lambda: b"Q: [[1]]\nK: [[1], [2]]\nkeey: 1\n")
    with pytest.raises(AttnError) as caught:
        document.problem()
    assert str(caught.value.errors()[0].place) == "standard input:3:1"


def test_make_problem_of_nothing():
    with pytest.raises(AttnError, match="Q and K are missing"):
        make_problem()

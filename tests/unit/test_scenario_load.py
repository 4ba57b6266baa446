"""What a scenario file means: defaults, matrix, exclude, ids, and where files are found."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attncheck.scenario import Scenario, ScenarioErrors, Tolerance, load
from attncheck.scenario.axes import spell
from attncheck.scenario.load import parse
from attncheck.scenario.nodes import scalar

ROOT = Path(__file__).resolve().parents[2]


def cases(text: str) -> list[Scenario]:
    """The cases of one file's text."""
    found, mistakes = parse("file.yaml", text, "file.yaml")
    assert mistakes == []
    return found


def ids(text: str) -> list[str]:
    return [case.id.removeprefix("file.yaml::") for case in cases(text)]


def only(text: str) -> Scenario:
    (case,) = cases(text)
    return case


def test_what_is_left_out_has_its_default() -> None:
    case = only("scenarios: [{name: a}]")
    assert (case.op, case.dtype, case.batch, case.q_len, case.past_len) == ("gqa", "float32", 1, (1,), (0,))
    assert (case.heads, case.kv_heads, case.head_dim, case.capacity, case.scale) == (4, 4, 16, None, None)
    assert (case.softcap, case.window, case.causal, case.rotary, case.rotary_dim) == (0.0, None, True, None, 0)
    assert (case.data, case.seed, case.kernel, case.tolerance, case.tags) == ("normal", 0, None, {}, ())


def test_defaults_that_follow_from_other_axes() -> None:
    case = only("scenarios: [{name: a, heads: 6, head_dim: 24, rotary: half, q_len: 4, past_len: [3, 20, 7]}]")
    assert case.kv_heads == 6
    assert case.batch == 3
    assert case.rotary_dim == 24
    assert case.rotary_cache == 24
    assert case.kv_len == (7, 24, 11)


def test_words_stand_for_off() -> None:
    text = "scenarios: [{name: a, capacity: exact, scale: default, softcap: none, window: none, rotary: none}]"
    case = only(text)
    assert (case.capacity, case.scale, case.softcap, case.window, case.rotary) == (None, None, 0.0, None, None)


def test_a_scenario_replaces_what_defaults_say_and_adds_its_tags() -> None:
    text = """
        defaults: {q_len: 4, past_len: 20, tags: [x, y], about: common, tolerance: {max_abs: 1}}
        scenarios:
          - {name: a, q_len: 5, tags: [y, z], about: own, tolerance: {wgsl: {max_abs: 0.5}}}
          - {name: b}
    """
    first, second = cases(text)
    assert (first.q_len, first.past_len, first.tags, first.about) == ((5,), (20,), ("x", "y", "z"), "own")
    assert first.tolerance == {"wgsl": Tolerance(0.5)}
    assert (second.q_len, second.tags, second.about) == ((4,), ("x", "y"), "common")
    assert second.tolerance == {"*": Tolerance(1.0)}


def test_a_matrix_is_a_cross_product_in_file_order_the_first_axis_slowest() -> None:
    text = "scenarios: [{name: a, matrix: {window: [3, none], q_len: [1, [2, 5]], scale: [0.25, 1, 1e-05]}}]"
    assert ids(text) == [
        f"a:window={window},q_len={q_len},scale={scale}"
        for window in ("3", "none")
        for q_len in ("1", "2+5")
        for scale in ("0.25", "1", "1e-05")
    ]


def test_exclude_leaves_out_what_matches_all_its_axes() -> None:
    matrix = "{op: [gqa, mha], q_len: [1, 2], exclude: [{op: mha, q_len: 2}]}"
    assert ids(f"scenarios: [{{name: a, matrix: {matrix}}}]") == [
        "a:op=gqa,q_len=1",
        "a:op=gqa,q_len=2",
        "a:op=mha,q_len=1",
    ]


@pytest.mark.parametrize("written", ["past_len: 3", "matrix: {past_len: [3]}"])
def test_exclude_may_name_an_axis_that_is_not_swept(written: str) -> None:
    text = f"""
        defaults: {{matrix: {{op: [gqa, mha], exclude: [{{op: mha, past_len: 3}}]}}}}
        scenarios: [{{name: a}}, {{name: b, {written}}}]
    """
    assert [case.op for case in cases(text)] == ["gqa", "mha", "gqa"]


def test_exclude_knows_the_default_of_an_axis_that_nobody_wrote() -> None:
    text = "scenarios: [{name: a, matrix: {op: [gqa, mha], exclude: [{op: mha, q_len: 1}]}}]"
    assert ids(text) == ["a:op=gqa"]


def test_an_axis_of_the_scenario_takes_it_out_of_the_matrix_of_defaults() -> None:
    text = """
        defaults: {window: 3, matrix: {op: [gqa, mha], q_len: [1, 2]}}
        scenarios:
          - {name: direct, op: gqa}
          - {name: swept, matrix: {window: [4, 5], op: [gqa]}}
    """
    assert ids(text) == [
        "direct:q_len=1",
        "direct:q_len=2",
        *(f"swept:q_len={q_len},window={window},op=gqa" for q_len in (1, 2) for window in (4, 5)),
    ]


def test_a_case_knows_the_line_of_its_scenario() -> None:
    text = "scenarios:\n  - name: a\n\n  - about: b\n    name: b\n"
    assert [(case.source.file, case.source.line) for case in cases(text)] == [("file.yaml", 2), ("file.yaml", 4)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("1E5", 1e5),
        (".5", 0.5),
        ("-0.5", -0.5),
        ("off", "off"),
        ("yes", "yes"),
        ("NO", "NO"),
        ("true", True),
        ("False", False),
        ("0o17", 15),
        ("017", 17),
        ("0x1f", 31),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("~", None),
        ("null", None),
        ("", None),
        (".inf", float("inf")),
        ("-.INF", float("-inf")),
        ("1.", 1.0),
        ("e5", "e5"),
        ("2001-12-14", "2001-12-14"),
        ("9" * 5000, float("inf")),
    ],
)
def test_scalars_are_those_of_the_yaml_1_2_core_schema(text: str, value: object) -> None:
    assert scalar(text) == value
    assert type(scalar(text)) is type(value)


def test_quotes_make_a_text() -> None:
    case = only('scenarios: [{name: "16", about: "5", tags: ["1"]}]')
    assert (case.id, case.about, case.tags) == ("file.yaml::16", "5", ("1",))


def test_linear_attention_takes_the_memory_of_its_states_and_not_of_scores() -> None:
    """Scores of 40,000 tokens would be 150 GiB; the states [kv_heads, head_dim, v_head_dim] of 8,192 dims are."""
    text = "scenarios: [{name: a, op: linear, heads: 4, %s}]"
    assert parse("f", text % "q_len: 40000", "f")[1] == []
    (mistake,) = parse("f", text % "head_dim: 8192, v_head_dim: 8192", "f")[1]
    assert "states, 4 x batch 1 x kv_heads 4 x head_dim 8192 x v_head_dim 8192" in mistake.message


def test_the_memory_limit_is_met_to_the_byte() -> None:
    # batch 2, heads 4 on 2, q_len 3, past 5, head_dim 8, float16: 2 bytes as given and 8 in the oracle's float64
    queries_and_outputs = 2 * (2 * 4 * 3 * 8) * (2 + 8)
    past_and_present = 4 * (2 * 2 * 8 * 8) * (2 + 8)
    scores = 3 * (2 * 4 * 3 * 8) * 8
    total = queries_and_outputs + past_and_present + scores
    text = "scenarios: [{name: a, dtype: float16, batch: 2, kv_heads: 2, q_len: 3, past_len: 5, head_dim: 8}]"
    assert parse("f", text, "f", memory_limit=total)[1] == []
    assert len(parse("f", text, "f", memory_limit=total - 1)[1]) == 1


def test_an_mha_graph_holds_a_copy_of_each_kv_head_for_its_query_heads() -> None:
    text = "scenarios: [{name: a, op: %s, heads: 8, kv_heads: 1, past_len: 1000}]"
    limit = 4 * (8 * 1001 * 16) * 12
    assert parse("f", text % "gqa", "f", memory_limit=limit)[1] == []
    assert len(parse("f", text % "mha", "f", memory_limit=limit)[1]) == 1


@pytest.mark.parametrize(
    ("possible", "impossible"),
    [
        ("rotary: half, head_dim: 16, rotary_dim: 16", "rotary: half, head_dim: 15, rotary_dim: 16"),
        (
            "rotary: half, q_len: 4, past_len: 20, rotary_cache: 24",
            "rotary: half, q_len: 4, past_len: 20, rotary_cache: 23",
        ),
        ("q_len: 4, past_len: [3, 20], capacity: 24", "q_len: 4, past_len: [3, 20], capacity: 23"),
        ("q_len: [1, 3], past_len: [0, 0]", "q_len: [1, 3], past_len: [0, 1]"),
        ("q_len: [3, 3], past_len: [0, 1]", "q_len: [3, 2], past_len: [0, 1]"),
        ("op: mha, q_len: [1, 3]", "op: mha, q_len: [1, 3], past_len: 1"),
        ("heads: 6, kv_heads: 3", "heads: 6, kv_heads: 4"),
        ("heads: 6, kv_heads: 6", "heads: 6, kv_heads: 12"),
        ("op: gqa, causal: false", "op: gqa, causal: false, window: 3"),
        ("op: mha, kv_len: 3, causal: false", "op: mha, kv_len: 3, causal: true"),
        ("op: attention, q_len: 3", "op: attention, q_len: [3, 2]"),
        ("op: attention, past_len: [1, 2], capacity: 3", "op: attention, past_len: [1, 2]"),
        ("op: attention, kv_len: [0, 2], capacity: 3", "op: mha, kv_len: [0, 2], causal: false"),
        ("op: attention, kv_len: 3, capacity: 3", "op: attention, kv_len: 4, capacity: 3"),
        ("op: attention, kv_len: 3", "op: attention, kv_len: 3, past_len: 1"),
        ("op: attention, window: 3, opset: 25", "op: attention, window: 3, opset: 24"),
        ("op: attention, capacity: 3, opset: 24", "op: attention, capacity: 3, opset: 23"),
        ("op: attention, bias: SxT, past_len: 4, mask_len: 5", "op: attention, bias: SxT, past_len: 4, mask_len: 6"),
        ("op: attention, bias: SxT, past_len: 4, mask_len: 3", "op: attention, bias: Sx1, past_len: 4, mask_len: 3"),
        (
            "op: attention, bias: SxT, past_len: 4, mask_len: 5, capacity: 6",
            "op: attention, bias: SxT, past_len: 4, mask_len: 4, capacity: 6",
        ),
        ("op: attention, bias: 1xT, holes: keys", "op: gqa, bias: 1xT, holes: keys"),
        ("op: attention, bias: Sx1, holes: first-row", "op: attention, bias: 1xT, holes: first-row"),
        ("op: attention, mask: Bx1x1xT, holes: entry", "op: attention, mask: 1xT, holes: entry"),
        ("op: attention, mask: SxT", "op: attention, mask: SxT, bias: SxT"),
        ("op: mha, mask: BxT", "op: mha, mask: SxT"),
        ("op: mha, q_len: [0, 2]", "op: gqa, q_len: [0, 2]"),
        ("op: ms-attention, q_len: [0, 2]", "op: ms-attention, q_len: [0, 0]"),
        ("op: ms-attention, mask: Bx1xMxM, holes: keys", "op: mha, mask: Bx1xMxM, holes: keys"),
        ("op: attention, mask: Bx1xSxT", "op: attention, mask: Bx1xMxM"),
        ("op: attention, mask: Bx1x1xT", "op: attention, mask: BxT"),
        ("op: mha, bias: BxNxSxT, holes: entry", "op: mha, bias: 1xNxSxT, holes: entry"),
        ("op: ms-attention, key_lengths: ends-and-starts", "op: mha, key_lengths: ends-and-starts"),
        ("op: mha, past_len: [1, 2], key_lengths: keys", "op: mha, past_len: [1, 2], key_lengths: counts"),
        ("op: mha, mask: BxT", "op: mha, mask: BxT, key_lengths: keys"),
        ("op: mha, bias: BxNxSxT, past_len: [1, 2]", "op: mha, bias: BxNxSxT, past_len: [1, 2], holes: keys"),
        ("op: mha, mask: BxT, past_len: 2", "op: mha, mask: BxT, past_len: [1, 2]"),
        ("past: empty", "past: empty, past_len: 2"),
        ("q_len: [1, 3], past_len: [0, 1], query_seqlens: true", "q_len: [1, 3], past_len: [0, 1]"),
        ("query_seqlens: true, past: empty", "query_seqlens: true, past: auto"),
        ("op: gqa, capacity: 3, steps: [{q_len: 2}, {q_len: 2, refused: true}]",
         "op: gqa, capacity: 3, steps: [{q_len: 2}, {q_len: 2}]"),
        ("op: gqa, capacity: 3, query_seqlens: true, steps: [{q_len: 2}, {q_len: 2}]",
         "op: mha, capacity: 3, steps: [{q_len: 2}, {q_len: 2}]"),
        ("op: gqa, capacity: 3, steps: [{q_len: 3}, {q_len: 2}]",
         "op: gqa, capacity: 3, steps: [{q_len: 3}, {q_len: 2, refused: true}]"),
        (
            "q_len: [1, 3], past_len: [4, 1], query_seqlens: true, capacity: 4",
            "q_len: [1, 3], past_len: [4, 1], query_seqlens: true, capacity: 3",
        ),
        ("past: empty, past_len: [0, 0]", "past: empty, capacity: 4"),
        ("sink: true, smooth: false", "sink: true, smooth: true"),
        ("scores: biased", "scores: raw"),
        ("op: mha, v_head_dim: 8", "op: gqa, v_head_dim: 8"),
        ("rotary: half, positions: shifted, rotary_cache: 4", "rotary: half, positions: shifted, rotary_cache: 3"),
        ("batch: 65536, heads: 1, head_dim: 2", "batch: 65537, heads: 1, head_dim: 2"),
    ],
)
def test_the_edge_between_what_can_be_and_what_cannot(possible: str, impossible: str) -> None:
    assert len(cases(f"scenarios: [{{name: a, {possible}}}]")) == 1
    found, mistakes = parse("f", f"scenarios: [{{name: a, {impossible}}}]", "f")
    assert (len(found), len(mistakes)) == (0, 1)


def test_a_matrix_may_have_ten_thousand_cases_and_not_one_more() -> None:
    text = "scenarios: [{name: a, matrix: {seed: [%s]}}]"
    assert len(cases(text % ", ".join(map(str, range(10_000))))) == 10_000
    _, (mistake,) = parse("f", text % ", ".join(map(str, range(10_001))), "f")
    assert "10,001" in mistake.message


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        (1, "1"),
        (1.0, "1"),
        (0.25, "0.25"),
        (1e-5, "1e-05"),
        (1e20, "1e20"),
        (True, "true"),
        (False, "false"),
        ("half", "half"),
        ((1, 7, 4), "1+7+4"),
    ],
)
def test_a_value_has_one_spelling(value: object, spelling: str) -> None:
    assert spell(value) == spelling


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a scenario file with one scenario; the current folder is where they are written."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, scenario: str = "a", before: bytes = b"", line_end: str = "\n") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = line_end.join(["scenarios:", f"  - name: {scenario}", "    q_len: 4", ""])
        path.write_bytes(before + text.encode())
        return path

    return write_file


def test_a_directory_means_the_yaml_files_in_and_below_it_sorted_hidden_ones_left_out(write: Write) -> None:
    for name in ("d/b.yaml", "d/a.yml", "d/sub/c.yaml", "d/.hidden.yaml", "d/.git/x.yaml", "d/notes.txt"):
        write(name)
    assert [case.id for case in load(["d"])] == ["d/a.yml::a", "d/b.yaml::a", "d/sub/c.yaml::a"]


def test_a_file_named_twice_is_loaded_once(write: Write) -> None:
    path = write("d/a.yaml")
    assert len(load(["d/a.yaml", "d", path, "d/../d/a.yaml"])) == 1


def test_ids_are_relative_to_the_base_and_may_have_a_prefix(write: Write) -> None:
    path = write("d/sub/a.yaml")
    assert [case.id for case in load([path], base=path.parents[1])] == ["sub/a.yaml::a"]
    assert [case.id for case in load([path], base=path.parents[1] / "other")] == ["../sub/a.yaml::a"]
    assert [case.id for case in load([path], base=path.parent, prefix="shipped/")] == ["shipped/a.yaml::a"]


def test_a_message_shows_the_file_as_it_was_given(write: Write) -> None:
    write("d/a.yaml", "two words")
    with pytest.raises(ScenarioErrors) as wrong:
        load(["./d/../d/a.yaml"])
    assert wrong.value.diagnostics[0].file == str(Path("d/../d/a.yaml"))


@pytest.mark.parametrize(
    ("name", "in_id"),
    [
        ("a b.yaml", "a%20b.yaml"),
        ("[x]*?.yaml", "%5Bx%5D%2A%3F.yaml"),
        ("a::b@c.yaml", "a%3A%3Ab%40c.yaml"),
        ("ü.yaml", "ü.yaml"),
    ],
)
def test_special_characters_of_a_file_name_are_escaped_in_ids(write: Write, name: str, in_id: str) -> None:
    write(name)
    assert [case.id for case in load([name])] == [f"{in_id}::a"]


def test_a_file_from_a_windows_editor_is_read_as_any_other(write: Write) -> None:
    path = write("a.yaml", before=b"\xef\xbb\xbf", line_end="\r\n")
    assert [case.q_len for case in load([path])] == [(4,)]


def test_mistakes_of_all_files_come_together_and_nothing_is_loaded(write: Write) -> None:
    write("d/a.yaml", "two words")
    write("d/b.yaml")
    write("d/c.yaml", "7")
    with pytest.raises(ScenarioErrors) as wrong:
        load(["d", "missing.yaml"])
    places = [mistake.place for mistake in wrong.value.diagnostics]
    assert places == [f"{Path('d/a.yaml')}:2:11", f"{Path('d/c.yaml')}:2:11", "missing.yaml"]


@pytest.mark.parametrize(
    ("statement", "banned"),
    [
        ("import attncheck.scenario", {"pydantic", "ruamel", "numpy", "onnx", "onnxruntime", "wgpu"}),
        ("import attncheck.scenario as s; s.load(['scenarios'])", {"numpy", "onnx", "onnxruntime", "wgpu"}),
    ],
)
def test_heavy_libraries_are_imported_only_where_they_are_needed(statement: str, banned: set[str]) -> None:
    listing = f"{statement}\nimport sys; print(' '.join(name.partition('.')[0] for name in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, cwd=ROOT, check=True)
    assert banned & set(ran.stdout.split()) == set()


@pytest.mark.parametrize("number", ["1e300", "1e-60"])
@pytest.mark.parametrize("axis", ["scale", "softcap"])
def test_a_number_that_float32_does_not_hold_is_a_mistake(tmp_path: Path, axis: str, number: str) -> None:
    """As an operator's attribute it would become infinity or 0: another case would be tested than the one written."""
    file = tmp_path / "a.yaml"
    file.write_text(f"scenarios: [{{name: a, heads: 2, head_dim: 8, {axis}: {number}}}]\n")
    with pytest.raises(ScenarioErrors) as caught:
        load([file])
    assert "within float32's range" in caught.value.diagnostics[0].message

import codecs
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric.dataset.storage import parse_head_and_members
from autorubric.errors import InputError, MissingFileError
from autorubric.files import dump_json, find_nearest_key, iter_jsonl, parse_json, read_document, read_text
from autorubric.files.strict_json import _decode_with_care, decode_quickly
from autorubric.files.strict_yaml import MOST_NODES, dump_yaml, parse_yaml
from autorubric.files.text import parse_toml, read_jsonl
from tests.offenders import each

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


def problems_of(error: pytest.ExceptionInfo[InputError]) -> list[str]:
    return list(error.value.problems)


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(codecs.BOM_UTF8 + b'{"a": 1}')
    assert read_document(path) == {"a": 1}
    assert parse_json("\ufeff[1]") == [1]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_another_encoding_is_named(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text("words", encoding=encoding)
    with pytest.raises(InputError, match=encoding.upper()):
        read_text(path)


def test_a_byte_that_is_not_utf8_is_named_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(codecs.BOM_UTF8 + b"one\ntw\xff")
    with pytest.raises(InputError, match=r"a\.txt:2: byte 0xff at column 3"):
        read_text(path)


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="File not found"):
        read_text(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        list(iter_jsonl(tmp_path / "none"))
    with pytest.raises(MissingFileError, match=r"Why does ice float\?; this is read as the path of a file"):
        read_text("Why does ice float?")
    with pytest.raises(MissingFileError, match=r"my own data\.csv$"):
        read_text("my own data.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read_text(tmp_path)


def test_every_offender_of_a_json_text_is_named_with_its_place() -> None:
    with pytest.raises(InputError) as error:
        parse_json('{"a": [NaN, {"b": -Infinity}], "c": 1e999, "d": "\\ud800", "c": 2}', "x.json")
    assert problems_of(error) == [
        "x.json: the document has the key 'c' twice",
        "x.json: a[0] is nan; JSON numbers are finite; write null, or leave the key out",
        "x.json: a[1].b is -inf; JSON numbers are finite; write null, or leave the key out",
        "x.json: d contains a lone surrogate: U+D800",
    ]


@each("text", ["", "{", "[1,]", "{'a': 1}", "[" * 100_000, "1" * 5_000, '["\\ud800"]', '["\ud800"]'])
def test_what_is_not_json_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError):
        parse_json(text)


NESTED: dict[str, Callable[[int], object]] = {
    "json list": lambda levels: parse_json("[" * levels + "]" * levels),
    "json object": lambda levels: parse_json('{"a":' * levels + "1" + "}" * levels),
    "yaml": lambda levels: parse_yaml("[" * levels + "]" * levels),
    # An object in a list of aliases: the text shows one level less than half of them.
    "yaml alias": lambda levels: parse_yaml(
        f"- &a {'[' * 50}{']' * 50}\n- {'[' * (levels - 51)}*a{']' * (levels - 51)}"
    ),
    "toml": lambda levels: parse_toml("a = " + "[" * (levels - 1) + "]" * (levels - 1), "x.toml"),
}


@each("kind", NESTED)
def test_a_hundred_levels_are_read_and_not_one_more(kind: str) -> None:
    NESTED[kind](100)
    with pytest.raises(InputError, match="too deeply; the maximum is 100 levels"):
        NESTED[kind](101)


def test_a_surrogate_pair_and_an_escaped_backslash_are_no_lone_surrogate() -> None:
    assert parse_json(r'["\ud83d\ude00", "\\ud83d"]') == ["😀", "\\ud83d"]


@given(json_values, st.sampled_from([None, 0, 2]))
def test_json_goes_out_as_the_standard_writer_has_it_and_comes_back(value: object, indent: int | None) -> None:
    text = dump_json(value, indent)
    assert text == json.dumps(value, ensure_ascii=False, indent=indent)
    assert parse_json(text) == value


@pytest.mark.parametrize(
    "value",
    [{"a": float("nan")}, ["\ud800"], {"a": {1, 2}}, {"\udfff": 1}],
    ids=["nan", "half", "set", "key"],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_what_cannot_be_read_back_is_not_written(value: object, indent: int | None) -> None:
    with pytest.raises(InputError):
        dump_json(value, indent)


def test_keys_that_are_not_text_are_written_as_the_standard_writer_has_them() -> None:
    value = {1: "one", None: [2.5], False: {}, 0.5: {7: 8}}
    assert dump_json(value, 2) == json.dumps(value, indent=2)


def test_a_value_that_holds_itself_is_not_written() -> None:
    loop: list[object] = []
    loop.append(loop)
    for indent in (None, 2):
        with pytest.raises(InputError):
            dump_json(loop, indent)


@given(json_values)
def test_yaml_comes_back_as_it_went_out(value: object) -> None:
    try:
        text = dump_yaml(value)
    except InputError:
        return  # a text that no YAML document can hold
    assert parse_yaml(text) == value


@each(
    ("text", "said"),
    [
        ("a: 1\n b: 2", "mapping values are not allowed in this context at line 2, column 3"),
        ("a: *x", "found undefined alias at line 1, column 4"),
        (
            "a: [1\nb: 2",
            "while parsing a flow sequence at line 1, column 4: did not find expected ',' or ']' at line 2, column 2",
        ),
    ],
)
def test_where_yaml_is_not_valid_is_told_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        parse_yaml(text, "rubric.yaml")
    assert problems_of(error) == [f"rubric.yaml: not valid YAML: {said}"]


def test_yaml_scalars_are_those_of_version_1_2() -> None:
    text = "[yes, No, on, 2024-01-01, 010, 0x10, 0o17, 1e3, 12:30, true, ~, 'true']"
    assert parse_yaml(text) == ["yes", "No", "on", "2024-01-01", 10, 16, 15, 1000.0, "12:30", True, None, "true"]


@each("text", ["a: 1\na: 2", "a: [1\n", "a: .nan", "--- 1\n--- 2", "!!python/object:os.x {}"])
def test_bad_yaml_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError):
        parse_yaml(text)


def test_aliases_that_unfold_without_measure_are_refused() -> None:
    # Nine levels of nine aliases: 9^9 = 387,420,489 nodes from ten lines.
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    with pytest.raises(InputError, match=f"the maximum is {MOST_NODES}"):
        parse_yaml("\n".join(lines))
    with pytest.raises(InputError, match="contains itself"):
        parse_yaml("a: &a [*a]")


def test_a_list_that_is_used_twice_is_written_twice() -> None:
    shared = ["x"]
    assert dump_yaml({"a": shared, "b": shared}) == "a:\n- x\nb:\n- x\n"


def test_ordinary_anchors_and_merge_keys_work() -> None:
    assert parse_yaml("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: *a") == {
        "a": {"x": 1},
        "b": {"x": 1, "y": 2},
        "c": {"x": 1},
    }


def test_toml_is_read_and_nan_in_it_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[a]\nb = 1")
    assert read_document(path) == {"a": {"b": 1}}
    path.write_text("a = nan")
    with pytest.raises(InputError, match=r"a\.toml: a is nan"):
        read_document(path)
    path.write_text("a = ")
    with pytest.raises(InputError, match=r"a\.toml: not valid TOML: "):
        read_document(path)


def test_an_unknown_extension_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Unsupported file format"):
        read_document(tmp_path / "a.ini")


def test_all_bad_rows_of_a_jsonl_file_are_named_and_the_good_ones_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(codecs.BOM_UTF8 + b'{"a": 1}\n\n[1]\n{"a": NaN}\n{"a": "\xff"}\r\n{"a": 2}\n{"a"')
    problems: list[str] = []
    with path.open("rb") as file:
        good = list(read_jsonl(file, str(path), problems))
    assert good == [(1, {"a": 1}), (6, {"a": 2})]
    assert [problem.removeprefix(f"{path}:").split(":")[0] for problem in problems] == ["3", "4", "5", "7"]
    with pytest.raises(InputError) as error:
        list(iter_jsonl(path))
    assert problems_of(error) == problems


@each(
    ("key", "expected"),
    [
        ("wieght", "weight"),
        ("option", "options"),
        ("Requirement", "requirement"),
        ("scale-type", "scale_type"),
        ("scaleType", "scale_type"),
        ("requirment", "requirement"),
        ("ID", "id"),
        ("tag", "tags"),
        ("idx", None),
        ("points", None),
        ("source", None),
        ("weight", None),
    ],
)
def test_misspelt_keys_are_recognised_and_own_words_are_not(key: str, expected: str | None) -> None:
    known = ("weight", "requirement", "name", "options", "scale_type", "id", "tags", "section", "check")
    assert find_nearest_key(key, known) == expected


@each(
    ("text", "said"),
    [
        ("", "column 1: expected a value, found the end of the text"),
        ("weight: 5", "column 1: expected a value, found 'weight'"),
        ('{"weight": True}', "column 12: expected a value, found 'True'"),
        ("{'weight': 5}", 'column 2: expected a key in double quotes, found "\'"'),
        ('{"weight" 5}', "column 11: expected ':' after the key, found '5'"),
        ('[\n {"weight": 5}\n {"weight": 6}\n]', "line 3, column 2: expected ',' or the closing bracket, found '{'"),
        ('{"a": 1}\n{"a": 2}\n', "line 2, column 1: expected nothing after the value, found '{'"),
        ('{"a": "open', "column 7: the string that starts here has no closing quote"),
        ('{"a": "two\nlines"}', "line 1, column 11: a string contains '\\n', which JSON requires to be escaped"),
        (r'{"path": "C:\data"}', "a string contains a backslash that starts no escape; write two backslashes"),
        (r'{"path": "\u12"}', "a string contains a backslash that starts no escape; write two backslashes"),
        ('{"a": nope', "column 7: expected a value, found 'nope'"),
    ],
)
def test_where_json_ends_to_be_json_is_told_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        parse_json(text, "rubric.json")
    [told] = problems_of(error)
    assert told.startswith("rubric.json: ")
    assert told.endswith(said)


def test_the_line_of_a_row_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n{"a": }\n')
    with pytest.raises(InputError) as error:
        list(iter_jsonl(path))
    assert problems_of(error) == [f"{path}:2: column 7: expected a value, found '}}'"]


PIECES = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    '"a"',
    '"b:"',
    r'"\u003a"',
    r'"\\u003A"',
    r'"\ud800"',
    r'"\ud83d\ude00"',
    "1",
    "1e999",
]
PIECES += [
    "1.5",
    "-0",
    str(2**70),
    "NaN",
    "true",
    "null",
    " ",
    '"什么"',
    "\ud800",
    '{"a": 1, "a": ":"}',
    '{"b": [{}]}',
]
MEMBERS = st.lists(st.tuples(st.sampled_from(PIECES[6:11]), st.sampled_from(PIECES[6:])), max_size=4)
OBJECTS = MEMBERS.map(lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}")


@given(OBJECTS | st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
def test_the_quick_reader_takes_nothing_that_the_careful_one_refuses_or_reads_otherwise(text: str) -> None:
    try:
        value, end = decode_quickly(text)
    except (ValueError, RecursionError):
        return
    expected, doubtful = _decode_with_care(text[:end])
    assert repr(value) == repr(expected)
    assert not doubtful


@each("text", ['{"a": 1, "a": "\\u003a"}', '{"a": 1e999}', '["\\ud800"]', "[NaN]"])
def test_the_quick_reader_leaves_what_is_doubtful_to_the_careful_one(text: str) -> None:
    with pytest.raises(ValueError):
        decode_quickly(text)


@given(st.dictionaries(st.text(), json_values, max_size=3), st.lists(json_values, min_size=1, max_size=4))
def test_a_list_read_by_its_members_is_the_list(others: dict[str, object], members: list[object]) -> None:
    others.pop("rows", None)
    text = dump_json({**others, "rows": members}, 2)
    try:
        head, *read = parse_head_and_members(text, "rows")
    except ValueError:  # doubtful: a colon as an escape, or "rows" deeper in the head
        return
    assert repr((head, read)) == repr((others, members))

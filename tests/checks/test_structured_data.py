import json
from typing import Any

import pytest

from autorubric.checks import CheckFailure, CheckOutcome, run_check, structured_data
from tests.offenders import each


def passes(name: str, text: str, **parameters: Any) -> bool:
    said = run_check(name, parameters, text)
    assert isinstance(said, CheckOutcome), said
    return said.passed


@each(
    ("text", "expected"),
    [
        ('{"a": [1, null]}', True),
        ("3", True),
        (' \r\n"text"\r\n', True),
        ("```json\r\n[1]\r\n```", True),
        ("```\n[1]\n```", True),
        ("", False),
        ("{'a': 1}", False),
        ('{"a": 1,}', False),
        ("NaN", False),
        ("[1] // done", False),
        ("Here you are: [1]", False),
    ],
)
def test_json_valid(text: str, expected: bool) -> None:
    assert passes("json_valid", text) is expected


def test_json_is_read_from_every_marked_block_where_asked() -> None:
    text = "First:\n```json\n[1]\n```\nthen:\n```json\n{2}\n```\n"
    assert not passes("json_valid", text, where="block")
    assert passes("json_valid", text.replace("{2}", "{}"), where="block")
    assert not passes("json_valid", "[1]", where="block")
    assert not passes("json_valid", "```yaml\n[1]\n```", where="block")


def test_an_integer_beyond_reading_cannot_be_decided() -> None:
    for name, parameters in (("json_valid", {}), ("json_schema", {"schema": True})):
        assert isinstance(run_check(name, parameters, "1" * 5_000), CheckFailure)


def test_json_nested_beyond_reading_cannot_be_decided() -> None:
    said = run_check("json_valid", {}, "[" * 100_000 + "]" * 100_000)
    assert said == CheckFailure("json_valid", "the submission is nested too deeply to be read")


PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[A-Z]"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


@each(
    ("document", "expected"),
    [
        ({"name": "Ada", "age": 36}, True),
        ({"name": "ada"}, False),
        ({"name": "Ada", "age": -1}, False),
        ({"age": 3}, False),
        ({"name": "Ada", "born": 1815}, False),
        ([], False),
    ],
)
def test_json_schema(document: Any, expected: bool) -> None:
    assert passes("json_schema", json.dumps(document), schema=PERSON) is expected


def test_equal_items_are_found_among_many_without_comparing_every_two() -> None:
    """Comparing every two of them takes minutes, in which a service answers nobody."""
    unique = {"schema": {"uniqueItems": True}}
    many = [{"a": number, "b": []} for number in range(40_000)]
    same: list[Any] = [
        [1, 1.0],
        [[], []],
        [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
        [[1], [True], [1.0], []],
        [*many, many[7]],
    ]
    differ: list[Any] = [[1, True, "1"], [0, False, None, "", [], {}], [[1], [True]], [{"a": 1}, {"a": 2}], many]
    for expected, documents in ((False, same), (True, differ)):
        for document in documents:
            found = run_check("json_schema", unique, json.dumps(document))
            assert isinstance(found, CheckOutcome), found
            assert found.passed is expected
    entries = run_check("json_schema", {"schema": {"unevaluatedItems": {"type": "integer"}}}, json.dumps([1] * 1001))
    assert isinstance(entries, CheckFailure)
    assert entries.reason == "1001 entries; unevaluatedItems is checked for at most 1000"
    assert passes("json_schema", json.dumps([1] * 1001), schema={"unevaluatedProperties": False})


def test_json_schema_says_where_the_document_breaks_it() -> None:
    said = run_check("json_schema", {"schema": PERSON}, '{"name": "Ada", "age": "36"}')
    assert said == CheckOutcome(False, "at age: '36' is not of type 'integer'")


def test_what_is_no_json_does_not_follow_the_schema() -> None:
    assert not passes("json_schema", "name: Ada", schema=PERSON)


def test_pattern_properties_and_additional_properties_work_together() -> None:
    schema = {"patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": {"type": "string"}}
    assert passes("json_schema", '{"n_a": 1, "b": "x"}', schema=schema)
    assert not passes("json_schema", '{"n_a": "1"}', schema=schema)
    assert not passes("json_schema", '{"b": 1}', schema=schema)


def test_a_schema_may_refer_to_itself_but_not_in_circles() -> None:
    tree = {
        "$ref": "#/$defs/node",
        "$defs": {"node": {"type": "object", "additionalProperties": {"$ref": "#/$defs/node"}}},
    }
    assert passes("json_schema", '{"a": {"b": {}}}', schema=tree)
    assert not passes("json_schema", '{"a": {"b": 1}}', schema=tree)
    assert isinstance(run_check("json_schema", {"schema": {"$ref": "#"}}, "1"), CheckFailure)


def test_a_schema_that_multiplies_its_references_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    # 2^40 visits if each were made.
    monkeypatch.setattr(structured_data, "_MOST_STEPS", 10_000)
    levels = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(40)}
    schema = {"$ref": "#/$defs/l0", "$defs": {**levels, "l40": True}}
    assert isinstance(run_check("json_schema", {"schema": schema}, "1"), CheckFailure)


def test_a_reference_that_leads_nowhere_cannot_be_decided() -> None:
    said = run_check("json_schema", {"schema": {"$ref": "#/$defs/gone"}}, "1")
    assert isinstance(said, CheckFailure)
    assert "/$defs/gone" in said.reason


@each(
    ("text", "root", "expected"),
    [
        ("name: Ada\r\nborn: 1815\r\n", "collection", True),
        ("- a\n- b\n", "sequence", True),
        ("- a\n- b\n", "mapping", False),
        ("Just prose.", "collection", False),
        ("Just prose.", "any", True),
        ("", "collection", False),
        ("a: [1, 2", "collection", False),
        ("a: b: c", "any", False),
        ("a: !!python/object/apply:os.system ['false']", "mapping", True),  # composed, never constructed
        ("```yaml\na: 1\n```", "mapping", True),
    ],
)
def test_yaml_valid(text: str, root: str, expected: bool) -> None:
    assert passes("yaml_valid", text, root=root) is expected


def test_yaml_that_is_not_valid_is_told_with_its_place() -> None:
    told = run_check("yaml_valid", {}, "a: b: c")
    assert "it is not valid YAML: mapping values are not allowed here at line 1, column 5" in str(told)
    assert "unicode string" not in str(told)


def test_yaml_aliases_cannot_multiply() -> None:
    lines = ["l0: &l0 [x]", *(f"l{n}: &l{n} [*l{n - 1}, *l{n - 1}]" for n in range(1, 60))]
    assert passes("yaml_valid", "\n".join(lines))


def test_too_much_yaml_cannot_be_decided() -> None:
    assert isinstance(run_check("yaml_valid", {}, "- a\n" * 100_000), CheckFailure)
    assert isinstance(run_check("yaml_valid", {}, "[" * 5_000), CheckFailure)


@each(
    ("text", "root", "expected"),
    [
        ("<a><b/></a>", None, True),
        ("<?xml version='1.0'?>\r\n<a>é</a>", None, True),
        ("<a><b></a>", None, False),
        ("<a/><b/>", None, False),
        ("", None, False),
        ("text", None, False),
        ("<a/>", "a", True),
        ("<a/>", "b", False),
        ("```xml\n<a/>\n```", "a", True),
    ],
)
def test_xml_valid(text: str, root: str | None, expected: bool) -> None:
    assert passes("xml_valid", text, root=root) is expected


def test_xml_that_declares_a_document_type_is_not_read() -> None:
    bomb = '<!DOCTYPE l [<!ENTITY a "xx"><!ENTITY b "&a;&a;">]><l>&b;</l>'
    said = run_check("xml_valid", {}, bomb)
    assert said == CheckFailure("xml_valid", "the XML declares a document type, which is not read")

"""Sound files with one value in them that cannot be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.battery.bench import COMMANDS, DATASET, READS, RUBRIC, Bench, as_jsonl
from tests.offenders import offenders

NO_NUMBER: tuple[Any, ...] = (True, "abc", "", [], {}, [1], 10**400)
NO_TEXT: tuple[Any, ...] = (True, [], {}, [[]], {"a": 1})
NO_PATH: tuple[Any, ...] = ("", " ", 7, [], {}, "a\x00b")

SETTINGS: dict[str, tuple[Any, ...]] = {
    "input": NO_PATH,
    "out": NO_PATH,
    "prices": (*NO_PATH, "no-such.yaml"),
    "prompts": (*NO_PATH, "no-such-folder", "x" * 5000),
    "question_column": (*NO_TEXT, "", "no_such_column", "asked[9]", f"asked[{'9' * 5000}]"),
    "id_column": (*NO_TEXT, "no_such_column"),
    "roles": (None, True, "m", [], {}, {"reference": "m"}),
    "concurrency": (*NO_NUMBER, None, 0, -1, 1.5, 10_001),
    "retry": (*NO_NUMBER, None, -1, 1.5, 101),
    "timeout": (*NO_NUMBER, None, 0, -1),
    "temperature": (*NO_NUMBER, None, -1, 2.5),
    "response_temperature": (*NO_NUMBER, None, -1, 2.5),
    "ref_max_tokens": (*NO_NUMBER, None, 0, -1, 1.5, 10**12),
    "merge_max_tokens": (*NO_NUMBER, None, 0, -1, 1.5, 10**12),
    "save_every": (*NO_NUMBER, None, 0, -1, 1.5),
    "max_criteria": (*NO_NUMBER, None, -1, 1.5),
    "until": (True, 1, "", "nowhere", []),
    "limit": (*NO_NUMBER, 0, -1, 1.5, 10**20),
    "budget_usd": (*NO_NUMBER, 0, -1, 1e300),
    "budget_tokens": (*NO_NUMBER, 0, -1, 1.5),
    "refresh": (True, {"a": 1}, [None], ["no_such_role"]),
    "skip_bad_rows": ("maybe", 7, [], {}),
    "profile": (True, 1, "", "fuller", None, []),
    "domain": (True, 1, "", "no such domain", "../medical", "/etc/passwd", [], {}),
    "full": (True, 1, "x", [], {"no_such_key": 1}, {"filters": 7}),
    "responses_column": (*NO_TEXT, ""),
    "license": (True, 1, [], {}),
    "concurency": (4,),
}
ROLE: dict[str, tuple[Any, ...]] = {
    "model": (True, "", " ", [], {}, "a\nb", "opnai/gpt"),
    "base_url": (True, [], "file:///etc/passwd", "http://169.254.169.254/", "http://u:p@h/"),
    "api_key_env": (True, [], "NO_SUCH_VARIABLE", "A=B", "with space"),
    "api_key": ("sk-planted",),
    "temperature": (*NO_NUMBER, -1, 3),
    "max_tokens": (*NO_NUMBER, 0, -1),
    "top_p": (*NO_NUMBER, 0, 2),
    "seed": (*NO_NUMBER, 1.5),
    "requests_per_minute": (*NO_NUMBER, 0, -1),
    "extra": (True, "x", [], {"model": "another"}, {"messages": []}, {"stream": True}),
    "modle": ("m",),
}
CRITERION: dict[str, tuple[Any, ...]] = {
    "weight": (*NO_NUMBER, None, 1e300),
    "requirement": (*NO_TEXT, None, "", " "),
    "name": NO_TEXT,
    "options": (True, "x", {}, [None], [{}], [1]),
    "check": (True, "x", [], {}, {"kind": "nope"}),
    "wieght": (3,),
}
ITEM: dict[str, tuple[Any, ...]] = {
    "submission": (*NO_TEXT, None, 7),
    "description": (*NO_TEXT, None, 7),
    "ground_truth": (True, "MET", {}, ["MET"], ["MET", "PERHAPS"], ["MET", "UNMET", "MET"], [None, None]),
    "id": (*NO_TEXT, 1.5, "e0"),
    "metadata": (True, "x", [1]),
    "rubric": (True, "x", [], {"$ref": "#/nowhere"}),
    "submision": ("x",),
}
QUERY: dict[str, tuple[Any, ...]] = {
    "question": (None, True, [], {}, ["q"], "", "  "),
    "id": (True, [], {}, "q0"),
    "__record_id__": (True, [1], {"a": 1}, "q0"),
}
PRICE: tuple[Any, ...] = (
    *(None, True, "x", [], {}, {"input": 1}, {"input": "free", "output": 1}, {"input": -1, "output": 1}),
    *({"input": 10**400, "output": 1}, {"input": True, "output": 1}, {"input": 1, "output": 1, "cahced": 1}),
)
TEMPLATE = (
    *("{{ query", "{% for x in query %}", "{{ querry }}", "no variable at all", "{{ query }}{{ 1 / 0 }}"),
    *("{{ query }}{% include '/etc/passwd' %}", "{{ query }}{% import 'os' as os %}", "{{ query.__class__ }}"),
    *("{{ query }}{{ cycler.__init__.__globals__ }}", "{{ query }}{{ ''.__class__.__mro__ }}", "{{ query | fence }}"),
    *("{{ query }}{{ 'x' * 10**10 }}", "{{ query }}{{ 2 ** 1000000000 }}", "{{ query }}{{ 'x' | center(10**10) }}"),
    *("{{ query }}{{ 'x' | indent(10**10) }}", "{{ query }}{{ lipsum(n=10**8) }}"),
    *("{% for i in range(10**9) %}{{ query }}{% endfor %}", "{{ query }}" + "{% if 1 %}" * 3000, "{{" + "(" * 5000),
    "{{ query }}{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
)


def each(table: dict[str, tuple[Any, ...]]) -> Iterator[tuple[str, str, Any]]:
    """The cases of a table: a name to tell it by, the key, the value."""
    return ((f"{key} {str(value)[:12]!r}", key, value) for key, values in table.items() for value in values)


def settings(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((bench.folder / "synth.json").read_text())
    return found


def test_a_setting_that_cannot_be_is_named(bench: Bench) -> None:
    sound = settings(bench)
    with offenders() as case:
        for name, key, value in each(SETTINGS):
            with case(name):
                (bench.folder / "synth.json").write_text(json.dumps({**sound, key: value}))
                bench.refuses(READS["synth.json"])


def test_a_setting_of_a_role_that_cannot_be_is_named(bench: Bench) -> None:
    whole = settings(bench)
    with offenders() as case:
        for name, key, value in each(ROLE):
            with case(name):
                whole["roles"]["merge"] = {"model": "m", key: value}
                (bench.folder / "synth.json").write_text(json.dumps(whole))
                bench.refuses(READS["synth.json"], "merge")


def test_a_criterion_that_cannot_be_is_named(bench: Bench) -> None:
    with offenders() as case:
        for name, key, value in each(CRITERION):
            with case(name):
                (bench.folder / "rubric.json").write_text(json.dumps([RUBRIC[0], {**RUBRIC[1], key: value}]))
                bench.refuses(READS["rubric.json"], "rubric.json", "1")


@pytest.mark.parametrize("file", ["essays.json", "essays.jsonl"])
def test_an_item_that_cannot_be_is_named(bench: Bench, file: str) -> None:
    head = {key: value for key, value in DATASET.items() if key != "items"}
    first, second, *rest = DATASET["items"]
    with offenders() as case:
        for name, key, value in each(ITEM):
            with case(name):
                items = [first, {**second, key: value}, *rest]
                written = (
                    as_jsonl([{"dataset": head}, *items])
                    if file.endswith("l")
                    else as_jsonl([{**head, "items": items}])
                )
                (bench.folder / file).write_bytes(written)
                bench.refuses(READS[file], file, "tem 1")


def test_a_query_that_cannot_be_is_named_by_its_row(bench: Bench) -> None:
    with offenders() as case:
        for name, key, value in each(QUERY):
            with case(name):
                rows = [{"id": "q0", "question": "Why?"}, {"id": "q1", "question": "How?", key: value}]
                (bench.folder / "queries.jsonl").write_bytes(as_jsonl(rows))
                bench.refuses([*COMMANDS["synthesize"], "--id-column", "id"], "queries.jsonl:2: ")


def test_a_price_that_cannot_be_is_named(bench: Bench) -> None:
    with offenders() as case:
        for file in ("prices.json", "prices.yaml"):
            for value in PRICE:
                with case(f"{file} {str(value)[:30]}"):
                    (bench.folder / file).write_text(json.dumps({"judge": value}))
                    bench.refuses(READS[file], file)


def test_a_template_that_cannot_be_filled_in_or_does_more_than_that_is_refused(bench: Bench) -> None:
    with offenders() as case:
        for text in TEMPLATE:
            with case(text[:40]):
                (bench.folder / "prompts" / "reference.jinja").write_text(text)
                bench.refuses(READS["prompts/reference.jinja"], "reference.jinja")


def test_ids_with_parts_of_a_path_name_no_files(bench: Bench) -> None:
    rows = [{"id": name, "question": "Why?"} for name in ("../../victim", "/etc/victim", "a/b", "..", "con")]
    (bench.folder / "queries.jsonl").write_bytes(as_jsonl(rows))
    outside = {path.name for path in bench.folder.parent.iterdir()}
    bench.accepts([*COMMANDS["synthesize"], "--id-column", "id"])
    assert {path.name for path in bench.folder.parent.iterdir()} == outside
    assert not [path for path in (bench.folder / "out").rglob("*") if "victim" in path.name]

import json
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, InputError, Rubric, RubricDataset
from autorubric.dataset.dataset_reading import read_record
from autorubric.dataset.storage import load_text
from autorubric.files.strict_json import parse_json
from tests.offenders import each

RECORD: dict[str, Any] = {
    "name": "n",
    "prompt": "P",
    "rubric": [{"name": "A", "requirement": "a"}, {"name": "B", "requirement": "b"}],
    "items": [{"submission": "s", "description": "d", "ground_truth": ["MET", "UNMET"]}],
}
ITEM = {"submission": "s", "description": "d", "ground_truth": ["MET", "UNMET"]}
DEEP = "[" * 97 + "]" * 97


@each(
    "text",
    [
        json.dumps(RECORD)[:-1],
        json.dumps(RECORD) + "x",
        json.dumps(RECORD) + "\n ",
        json.dumps({**RECORD, "items": []}),
        json.dumps({**RECORD, "items": [ITEM, {**ITEM, "id": "a"}, {**ITEM, "id": "a"}, 3]}),
        json.dumps({"items": [ITEM, ITEM], **RECORD}),
        json.dumps({**RECORD, "metadata": {"items": [1, 2]}, "items": [ITEM]}),
        json.dumps({**RECORD, "items": [{**ITEM, "prompt": "own"}]}).replace('"prompt": "P", ', ""),
        json.dumps({**RECORD, "items": [{**ITEM, "metadata": {"n": 2**70, "t": ":"}}, ITEM]}),
        json.dumps(RECORD).replace('"s"', '"s", "submission": "t"'),
        json.dumps(RECORD).replace('"s"', '"\\u003a", "submission": "t"'),
        json.dumps(RECORD).replace('"s"', "1e999"),
        json.dumps(RECORD).replace('"s"', '"\\ud800"'),
        json.dumps(RECORD)[:-1] + ', "items": []}',
        json.dumps(RECORD)[:-1] + ', "wrong": NaN}',
        json.dumps(RECORD).replace('"s"', '"s", "metadata": {"deep": ' + DEEP[1:-1] + "}"),
        json.dumps(RECORD).replace('"s"', '"s", "metadata": {"deep": ' + DEEP + "}"),
    ],
)
def test_items_read_one_by_one_give_what_the_whole_document_gives(text: str) -> None:
    def outcome(read: Any) -> Any:
        try:
            return RubricDataset._from_parts(read(text))
        except InputError as error:
            return list(error.problems)

    assert outcome(load_text) == outcome(lambda text: read_record(parse_json(text, "Failed to parse JSON")))


@pytest.mark.parametrize("extension", [".json", ".jsonl"])
def test_every_value_that_cannot_be_written_is_named_with_its_place(tmp_path: Path, extension: str) -> None:
    dataset = RubricDataset("P", Rubric([Criterion(requirement="a")]))
    for value in (1.0, float("nan"), "\ud800"):
        dataset.add_item("s", "d", metadata={"m": value})
    with pytest.raises(InputError) as raised:
        dataset.to_file(tmp_path / f"dataset{extension}")
    if extension == ".json":
        assert [problem.split()[0] for problem in raised.value.problems] == [
            "items[1].metadata.m",
            "items[2].metadata.m",
        ]
    assert list(tmp_path.iterdir()) == []

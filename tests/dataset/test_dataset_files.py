import gc
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autorubric import Criterion, DataItem, InputError, Rubric, RubricDataset
from autorubric.dataset.dataset_reading import read_record
from autorubric.dataset.storage import encode_dataset
from tests.offenders import each, offenders

RECORD: dict[str, Any] = {
    "name": "n",
    "prompt": "P",
    "rubric": [{"name": "A", "requirement": "a"}, {"name": "B", "requirement": "b"}],
    "items": [{"submission": "s", "description": "d", "ground_truth": ["MET", "UNMET"]}],
}
EXTENSIONS = [".json", ".yaml", ".yml", ".jsonl"]


def full_dataset() -> RubricDataset:
    rubric = Rubric(
        [
            Criterion(
                name="A",
                weight=-3.5,
                requirement="什么是\n光合作用?",
                id="c1",
                tags=["axis:style"],
                section="S",
                scale_type="nominal",
                aggregation="any",
                metadata={"version": [1, {"x": None}]},
            ),
            Criterion.model_validate(
                {
                    "requirement": "q",
                    "options": [{"label": "Yes", "value": 1}, {"label": "no: 'x' #", "value": 0.25}],
                    "scale_type": "nominal",
                    "aggregation": "mode",
                }
            ),
        ],
        guidelines="Be strict.",
    )
    shared = [Rubric([Criterion(requirement="r")]), Rubric([Criterion(requirement="r")])]
    return RubricDataset(
        prompt="P\u2028\r\n\ttrailing ",
        rubric=rubric,
        items=[
            DataItem("", "", ["MET", "yes "], ground_truth_reasons=["why", None], id="1", metadata={"k": 1.5}),
            DataItem("😀 s", "d", ["UNMET"], shared[0], "ref", "own prompt"),
            DataItem("s", "d", None, shared[1]),
            DataItem("s", "d", None, Rubric([Criterion(requirement="alone")])),
        ],
        name="nämé",
        reference_submission="R",
        metadata={"licence": "MIT"},
    )


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_what_goes_out_comes_back_equal(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"dataset{extension}"
    made = full_dataset()
    made.to_file(path)
    assert RubricDataset.from_file(path) == made
    assert RubricDataset.from_file(str(path)) == made


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_an_empty_dataset_comes_back_too(tmp_path: Path, extension: str) -> None:
    for made in (RubricDataset(), RubricDataset("P")):
        made.to_file(tmp_path / f"dataset{extension}")
        assert RubricDataset.from_file(tmp_path / f"dataset{extension}") == made


@given(
    st.lists(st.tuples(st.text(), st.text(), st.sampled_from(["MET", "UNMET", "CANNOT_ASSESS"]))),
    st.text(),
    st.sampled_from([None, 2]),
)
def test_any_text_comes_back_from_json(rows: list[tuple[str, str, str]], prompt: str, indent: int | None) -> None:
    items = [DataItem(text, description, [verdict]) for text, description, verdict in rows]
    made = RubricDataset(prompt, Rubric([Criterion(requirement="r")]), items)
    assert RubricDataset.from_json(made.to_json(indent)) == made


def test_json_has_the_seeds_layout() -> None:
    made = RubricDataset.from_json(json.dumps(RECORD))
    text = made.to_json()
    assert list(json.loads(text)) == ["name", "prompt", "rubric", "items"]
    assert json.loads(text)["items"] == RECORD["items"]
    assert json.loads(text)["rubric"][0] == {"name": "A", "weight": 10.0, "requirement": "a"}
    assert text == json.dumps(json.loads(text), indent=2)
    assert made.to_json(indent=None) == json.dumps(json.loads(text))


def test_a_shared_rubric_is_written_once_and_shared_again_when_read() -> None:
    rubrics = [Rubric([Criterion(requirement="a requirement of some length")]) for _ in range(100)]
    made = RubricDataset("P", None, [DataItem("s", "d", None, rubric) for rubric in rubrics])
    text = made.to_json()
    assert text.count("a requirement of some length") == 1
    assert json.loads(text)["items"][5]["rubric"] == {"$ref": "#/rubrics/r0"}
    read = RubricDataset.from_json(text)
    assert read == made
    assert read[0].rubric is read[99].rubric


def test_a_rubric_of_one_item_stays_inline() -> None:
    made = RubricDataset("P", None, [DataItem("s", "d", None, Rubric([Criterion(requirement="r")]))])
    record = json.loads(made.to_json())
    assert "rubrics" not in record
    assert record["items"][0]["rubric"][0]["requirement"] == "r"


def test_jsonl_has_a_header_and_one_item_a_line(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    full_dataset().to_file(path)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    assert list(lines[0]) == ["dataset"]
    assert sorted(lines[0]["dataset"]) == [
        "metadata",
        "name",
        "prompt",
        "reference_submission",
        "rubric",
        "rubrics",
    ]
    assert len(lines) == 5


def test_jsonl_items_that_carry_everything_need_no_header(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    item = {"submission": "s", "description": "d", "prompt": "p", "rubric": RECORD["rubric"]}
    path.write_text(json.dumps(item) + "\n")
    assert RubricDataset.from_file(path)[0].prompt == "p"


@each(
    ("change", "message"),
    [
        ({"prompt": ...}, "Missing required field: 'prompt'"),
        ({"rubric": ...}, "Missing required field: 'rubric'; it is null if each item has its own"),
        ({"items": 3}, "'items' must be a list, got int"),
        ({"itmes": []}, "unknown key 'itmes' in the dataset; did you mean 'items'?"),
        ({"prompt": 3}, "'prompt' must be a string or null, got int"),
        ({"items": ["x"]}, "Item 0 must be a dict, got str"),
        ({"items": [{"description": "d"}]}, "Item 0 missing required field: 'submission'"),
        ({"items": [{"submission": "s"}]}, "Item 0 missing required field: 'description'"),
        (
            {"items": [{"submission": "s"}] * 5},
            "Item 0, Item 1, Item 2 and 2 more missing required field: 'description'",
        ),
        ({"rubric": None}, "Item 0 has no rubric and dataset has no global rubric"),
        ({"prompt": None}, "Item 0 has no prompt and dataset has no global prompt"),
        ({"rubric": [{"requirement": ""}]}, "rubric: Invalid criterion at index 0:\n  requirement is empty"),
        ({"rubrics": {"a": []}}, "rubrics.a: No criteria found"),
    ],
)
def test_each_fault_of_a_dataset_has_its_message(change: dict[str, Any], message: str) -> None:
    record = {key: value for key, value in {**RECORD, **change}.items() if value is not ...}
    with pytest.raises(ValueError) as error:
        RubricDataset.from_json(json.dumps(record))
    assert message in str(error.value)


@each(
    ("change", "message"),
    [
        (
            {"ground_truth": ["MET", "banana"]},
            "Item 0, ground_truth[1]: invalid verdict 'banana'. Must",
        ),
        (
            {"ground_truth": ["MET", 3]},
            "Item 0, ground_truth[1]: invalid verdict '3'. Must be",
        ),
        ({"ground_truth": ["MET"]}, "Item 0: Ground truth has 1 value, but rubric has 2 criteria"),
        ({"ground_truth": "MET"}, "Item 0: ground_truth must be a list of verdicts, got str"),
        ({"ground_truth": 3}, "Item 0: ground_truth must be a list of verdicts, got int"),
        ({"submission": 3}, "Item 0: 'submission' must be a string, got int"),
        ({"submision": "s"}, "unknown key 'submision' in the item; did you mean 'submission'?"),
        ({"rubric": {"$ref": "#/rubrics/r9"}}, "Item 0: rubric: unknown shared rubric '#/rubrics/r9'"),
        ({"rubric": [{"requirement": "x", "wieght": 3}]}, "did you mean 'weight'?"),
        ({"metadata": 3}, "Item 0: 'metadata' must be a mapping, got int"),
        ({"metadata": ""}, "Item 0: 'metadata' must be a mapping, got str"),
        ({"source": 1, "metadata": {"source": 2}}, "Item 0: 'source' is given twice"),
    ],
)
def test_each_fault_of_an_item_has_its_message(change: dict[str, Any], message: str) -> None:
    record = {**RECORD, "items": [{**RECORD["items"][0], **change}]}
    with pytest.raises(ValueError) as error:
        RubricDataset.from_json(json.dumps(record))
    assert message in str(error.value)


ITEM_WORDS = ["submission", "description", "ground_truth", "rubric", "prompt", "id"]
WORDS = [*ITEM_WORDS, "rubrics", "items", "$ref"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just("MET"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "prompt",
                    "rubric",
                    "rubrics",
                    "items",
                    "submission",
                    "description",
                    "ground_truth",
                    "id",
                    "$ref",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
)


@given(json_values, st.sampled_from(["prompt", "rubric", "rubrics", "items", "name", "metadata", "item"]))
def test_whatever_stands_in_a_field_is_read_or_an_input_error(value: Any, key: str) -> None:
    record = {**RECORD, "items": [value]} if key == "item" else {**RECORD, key: value}
    try:
        made = RubricDataset.from_json(json.dumps(record))
    except InputError:
        return
    assert RubricDataset.from_json(made.to_json()) == made


@given(
    json_values,
    st.sampled_from(
        [
            "submission",
            "description",
            "ground_truth",
            "ground_truth_reasons",
            "rubric",
            "prompt",
            "id",
            "metadata",
        ]
    ),
)
def test_whatever_stands_in_an_item_is_read_or_an_input_error(value: Any, key: str) -> None:
    record = {**RECORD, "items": [{**RECORD["items"][0], key: value}]}
    try:
        made = RubricDataset.from_json(json.dumps(record))
    except InputError:
        return
    assert RubricDataset.from_json(made.to_json()) == made


def test_labels_of_a_multi_choice_criterion_are_checked() -> None:
    options = [{"label": "Yes", "value": 1}, {"label": "No", "value": 0}]
    record = {**RECORD, "rubric": [{"requirement": "q", "options": options}]}
    wrong: list[tuple[Any, str]] = [
        ("Maybe", "Item 0, ground_truth[0]: Label 'Maybe' not found. Available: ['Yes', 'No']"),
        (True, "ground_truth[0]: multi-choice criterion expects option label string, got bool"),
    ]
    for label, message in wrong:
        record["items"] = [{"submission": "s", "description": "d", "ground_truth": [label]}]
        with pytest.raises(ValueError) as error:
            RubricDataset.from_json(json.dumps(record))
        assert message in str(error.value)


def test_all_offenders_of_a_jsonl_file_are_named_with_file_row_and_key(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    good = {"submission": "s", "description": "d", "ground_truth": ["MET", "met"], "id": 7}
    rows = [
        json.dumps({"dataset": {key: RECORD[key] for key in ("prompt", "rubric")}}),
        json.dumps(good),
        json.dumps({**good, "id": 8, "ground_truth": ["MET", "partial"]}),
        '{"submission": "\\ud800"}',
        json.dumps({**good, "id": 9, "sumbission": 1}),
        "{",
        json.dumps(good),
    ]
    path.write_text("\n".join(rows))
    with pytest.raises(InputError) as error:
        RubricDataset.from_file(path)
    found = [problem.removeprefix(str(path)) for problem in error.value.problems]
    # Items are counted without the rows that could not be read, and without the header.
    assert sorted(found) == [
        ":3: Item 1, ground_truth[1]: invalid verdict 'partial'. Must be 'MET', 'UNMET', or 'CANNOT_ASSESS'.",
        ":4: submission contains a lone surrogate: U+D800",
        ":5: Item 2: unknown key 'sumbission' in the item; did you mean 'submission'?",
        ":6: column 2: expected a key in double quotes, found the end of the text",
        ":7: Item 3 has the same id as item 0, '7'; make ids unique (--labels reads several annotators)",
    ]


def test_a_prompt_may_be_missing_when_every_item_has_its_own() -> None:
    record = {"rubric": RECORD["rubric"], "items": [{**RECORD["items"][0], "prompt": "own"}]}
    assert RubricDataset.from_json(json.dumps(record)).get_item_prompt(0) == "own"


def test_own_keys_are_kept_as_metadata_at_every_level() -> None:
    record = {**RECORD, "licence": "MIT", "items": [{**RECORD["items"][0], "source": "web", "id": 3}]}
    made = RubricDataset.from_json(json.dumps(record))
    assert (made.metadata, made[0].metadata, made[0].id) == ({"licence": "MIT"}, {"source": "web"}, "3")
    assert RubricDataset.from_json(made.to_json()) == made


def test_the_id_of_a_thing_is_a_key_of_the_users_own() -> None:
    """The published reader ignores keys that it does not know; only misspelt ones are errors here."""
    item = {**RECORD["items"][0], "submission_id": 17, "descriptionId": "d17"}
    loaded = RubricDataset.from_json(json.dumps({**RECORD, "rubric_id": "r1", "items": [item]}))
    assert loaded.metadata == {"rubric_id": "r1"}
    assert loaded[0].metadata == {"submission_id": 17, "descriptionId": "d17"}
    with pytest.raises(InputError, match=r"unknown key .submissions. in the item; did you mean .submission."):
        RubricDataset.from_json(json.dumps({**RECORD, "items": [{**item, "submissions": "s"}]}))


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    for extension in EXTENSIONS:
        with pytest.raises(FileNotFoundError, match="Dataset file not found: "):
            RubricDataset.from_file(tmp_path / f"none{extension}")
    RubricDataset("Explain.").to_file(tmp_path / "a.dataset")
    assert json.loads((tmp_path / "a.dataset").read_text())["prompt"] == "Explain."
    assert RubricDataset.from_file(tmp_path / "a.dataset").prompt == "Explain."
    path = tmp_path / "a.json"
    path.write_text("{")
    with pytest.raises(ValueError, match=r"a\.json: Failed to parse JSON: "):
        RubricDataset.from_file(path)
    with pytest.raises(ValueError, match="Expected JSON object, got list"):
        RubricDataset.from_json("[]")
    (tmp_path / "a.jsonl").write_text("\n")
    with pytest.raises(ValueError, match="it has no rows"):
        RubricDataset.from_file(tmp_path / "a.jsonl")


def test_metadata_that_no_file_can_hold_leaves_the_old_file(tmp_path: Path) -> None:
    for extension in EXTENSIONS:
        path = tmp_path / f"d{extension}"
        path.write_text("old")
        for value in (float("nan"), "\udc00", object()):
            with pytest.raises(InputError):
                RubricDataset("P", metadata={"x": value}).to_file(path)
        assert path.read_text() == "old"


def test_the_published_example_loads_and_comes_back(tmp_path: Path) -> None:
    path = Path(__file__).parents[1] / "data" / "essay_grading_dataset.json"
    made = RubricDataset.from_file(path)
    assert (len(made), made.num_criteria, made.total_positive_weight) == (11, 5, 80.0)
    # The first essay meets the four criteria of positive weight, and has no errors: full marks.
    truth = made[0].ground_truth
    assert truth is not None
    assert made.compute_weighted_score(truth) == 1.0
    for extension in EXTENSIONS:
        made.to_file(tmp_path / f"essay{extension}")
        assert RubricDataset.from_file(tmp_path / f"essay{extension}") == made


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_what_was_loaded_is_old_to_the_garbage_collector(tmp_path: Path, extension: str) -> None:
    # Young, all of it would be gone through by the first collection after the load.
    path = tmp_path / f"d{extension}"
    full_dataset().to_file(path)
    gc.unfreeze()
    made = RubricDataset.from_file(path)
    assert any(found is made[0] for found in gc.get_objects(generation=2))
    assert gc.isenabled() and gc.get_freeze_count() == 0


def test_what_a_caller_froze_stays_frozen_over_a_load() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        RubricDataset.from_json(json.dumps(RECORD))
        # Fewer where something that was frozen is no longer referenced; none if the load had unfrozen it.
        assert 0 < gc.get_freeze_count() <= frozen
    finally:
        gc.unfreeze()


def test_a_collector_that_is_off_stays_off_over_a_load() -> None:
    gc.disable()
    try:
        RubricDataset.from_json(json.dumps(RECORD))
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_rows_as_read_do_not_stay_beside_the_items_made_of_them() -> None:
    record = {**RECORD, "items": [dict(RECORD["items"][0]) for _ in range(3)]}
    assert len(read_record(record).items) == 3
    assert record["items"] == [None, None, None]


def test_a_file_of_json_holds_what_to_json_gives(tmp_path: Path) -> None:
    for made in (full_dataset(), RubricDataset("P")):
        made.to_file(tmp_path / "dataset.json")
        assert (tmp_path / "dataset.json").read_text(encoding="utf-8") == made.to_json() + "\n"


def test_rows_in_a_json_list_are_items_and_their_faults_are_placed_by_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    row = {"submission": "s", "question": "Why?", "rubric": [{"requirement": "r"}]}
    faults: list[tuple[list[dict[str, Any]], list[str]]] = [
        ([], ["it has no rows"]),
        ([row, {**row, "descripton": "d"}], ["row 2: Item 1: unknown key 'descripton'"]),
        (
            [row, {**row, "id": "a"}, {**row, "id": "a"}],
            ["row 3: Item 2 has the same id as item 1, 'a'; make ids unique (--labels reads several annotators)"],
        ),
    ]
    with offenders() as case:
        for rows, expected in faults:
            with case(str(expected)):
                path.write_text(json.dumps(rows))
                with pytest.raises(InputError) as raised:
                    RubricDataset.from_file(path)
                found = [problem.removeprefix(f"{path}: ") for problem in raised.value.problems]
                assert [one.startswith(said) for one, said in zip(found, expected, strict=True)] == [True]
    path.write_text(json.dumps([row]))
    [item] = RubricDataset.from_file(path)
    assert (item.submission, item.prompt) == ("s", "Why?")


def test_a_blank_submission_is_one_whatever_another_column_contains(tmp_path: Path) -> None:
    """The published reader takes `submission` as it is unless it is null, and ignores keys that it does not know."""
    row = {"submission": "", "description": "d", "prompt": "P", "rubric": RECORD["rubric"]}
    found = []
    for other in ("response", "answer", "output", "actual_output", "output_text"):
        lines = [json.dumps({**row, "submission": text, other: "Not this."}) for text in ("s", "", " ")]
        (tmp_path / "rows.jsonl").write_text("\n".join(lines))
        (tmp_path / "rows.json").write_text(f"[{','.join(lines)}]")
        for name in ("rows.jsonl", "rows.json"):
            with (
                pytest.warns(UserWarning, match=f"{name}: '{other}' is not read where 'submission' is blank"),
                pytest.warns(UserWarning, match="'submission' is blank or null; blank submissions are graded"),
            ):
                items = RubricDataset.from_file(tmp_path / name).items
            found.append([item.submission for item in items] + [item.metadata[other] for item in items])
    assert found == [["s", "", " ", "Not this.", "Not this.", "Not this."]] * 10
    (tmp_path / "null.jsonl").write_text(json.dumps({**row, "submission": None, "response": "This."}))
    assert RubricDataset.from_file(tmp_path / "null.jsonl")[0].submission == "This."


def test_only_a_first_line_that_holds_nothing_but_a_mapping_under_dataset_is_the_head(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = {"submission": "s", "prompt": "P", "rubric": [{"requirement": "r"}]}
    for own in ({"dataset": {"split": "train"}}, {"dataset": "train"}):
        path.write_text(json.dumps({**row, **own}))
        [item] = RubricDataset.from_file(path)
        assert item.metadata == own
    path.write_text(json.dumps({"dataset": "train"}))
    with pytest.raises(InputError, match="no submission column found"):
        RubricDataset.from_file(path)


def test_the_copy_of_a_dataset_that_a_run_made_is_read_whatever_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dataset.json"
    full_dataset().to_file(path)
    monkeypatch.setattr("autorubric.files.text.LARGEST_FILE", 10)
    monkeypatch.setattr("autorubric.rows.reading.LARGEST_FILE", 10)
    with pytest.raises(InputError, match="the maximum is 0 MiB"):
        RubricDataset.from_file(path)
    assert RubricDataset.from_stored(path) == full_dataset()
    path.write_bytes(b'{"prompt": "caf\xe9", "rubric": null, "items": []}')
    with pytest.raises(InputError, match=r"dataset\.json: .*prompt contains a lone surrogate"):
        RubricDataset.from_stored(path)


def test_a_dataset_is_encoded_in_little_more_memory_than_its_text_takes() -> None:
    dataset = RubricDataset(prompt="p", rubric=Rubric([Criterion(requirement="Is kind")]))
    for place in range(200):
        dataset.add_item(submission=f"{place} é" * 2000, description="")
    tracemalloc.start()
    try:
        content = encode_dataset(dataset)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert content == dataset.to_json().encode()
    assert peak < 2 * len(content)  # 3.4 times through the text

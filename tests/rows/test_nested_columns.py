"""Queries, submissions and rubrics deep in a row, as files of other projects have them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas
import pytest

from autorubric.core.rubric import Rubric
from autorubric.dataset import DataItem, RubricDataset
from autorubric.errors import InputError, Note
from autorubric.formats.conversion import Options, convert
from autorubric.jobs.grade import check_data
from autorubric.jobs.submissions import Submissions, is_rows, read_dataset
from autorubric.linting.rubric_sources import iter_rubrics
from autorubric.rows.columns import COLUMN_OPTION, RowReader
from autorubric.rows.contexts import is_for_models
from autorubric.rows.paths import find_value
from autorubric.rows.record import Record, as_turns, read_prompt
from autorubric.synthesis.query_file import QueryFile
from autorubric.training.candidates import read_candidates
from autorubric.training.queries import read_queries
from tests.offenders import each, offenders

ASKED = {"role": "user", "content": "Why?"}
SAID = {"role": "assistant", "content": "So."}
ANSWER = {"uid": "a", "messages": [ASKED, {"role": "assistant", "content": {"answer": "So."}}]}
"""As in Arena-Hard v0.1 and v2.0."""
PAIR = {"question_id": 81, "conversation_a": [ASKED, SAID], "conversation_b": [ASKED, {**SAID, "content": "No."}]}
"""As in MT-bench's human judgments."""
CALL = {"function": {"name": "f", "arguments": {"a": 1}}}
RUBRIC = {"prompt_metadata": json.dumps({"rubrics": json.dumps(["Is brief.", "Is kind."])}), "question": "Why?"}
"""As in AdvancedIF."""


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def items(path: Path, **columns: str) -> tuple[list[DataItem], list[str]]:
    source = Submissions(path, columns)
    return [item for _, item in source._read_placed([])], source.notes


def read_dataset_quietly(path: Path) -> RubricDataset:
    with pytest.warns(Note):
        return read_dataset(path, None, None, None)


def test_a_path_names_what_a_column_contains(tmp_path: Path) -> None:
    path = written(tmp_path / "pairs.jsonl", PAIR)
    [item], _ = items(path, query="conversation_b[0].content", submission="conversation_b[-1].content")
    assert (item.id, item.prompt, item.submission) == ("81", "Why?", "No.")
    assert item.metadata == {key: PAIR[key] for key in ("conversation_a", "conversation_b")}
    [item], notes = items(path, submission="conversation_b[-1].content")
    assert (item.prompt, item.submission) == ("Why?", "No.")
    assert f"{path}: the other turns of 'conversation_b' are read as the query" in notes
    drafts = written(tmp_path / "drafts.jsonl", {"id": 1, "drafts": ["So.", "No."], "said": [SAID]})
    for column, text in (("drafts[-1]", "No."), ("said[-1].content", SAID["content"])):
        [item], _ = items(drafts, submission=column)
        assert (item.prompt, item.submission) == (None, text)
    models = written(tmp_path / "models.jsonl", {"answers": {"gpt-3.5": "So."}})
    assert [item.submission for item in items(models, submission="answers.gpt-3.5")[0]] == ["So."]


def test_a_path_leads_through_json_text_for_every_reader(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.jsonl", RUBRIC)
    columns = {"rubric": "prompt_metadata.rubrics"}
    [query] = read_queries(path, columns).queries
    assert [one.requirement for one in query.rubric] == ["Is brief.", "Is kind."]
    [linted] = iter_rubrics(path, [], columns)
    assert [one.text for one in linted.criteria] == ["Is brief.", "Is kind."]
    assert convert(path, tmp_path / "out.jsonl", "healthbench", options=Options(columns=columns)).criteria == 2
    [asked] = QueryFile(path, "prompt_metadata.rubrics[1]")
    assert asked.fields["question"] == "Is kind."


def test_a_path_that_leads_nowhere_is_no_column(tmp_path: Path) -> None:
    path = written(tmp_path / "pairs.jsonl", PAIR)
    with pytest.raises(
        InputError, match=r"no column 'conversation_a\[2\].content'; the columns are 'question_id', 'c"
    ):
        items(path, submission="conversation_a[2].content")
    assert find_value({"question": "Why?"}, "question[0]") is None
    assert find_value({"question": ["Why?"]}, "question[") is None
    assert find_value({"réponse": "So."}, "re\u0301ponse") == "So.", "the header of a CSV file is composed"


def test_an_answer_at_the_end_of_a_conversation_is_the_submission_and_not_part_of_the_query(tmp_path: Path) -> None:
    turns = [ASKED, {**SAID, "content": "Well."}, ASKED]
    path = written(tmp_path / "chats.jsonl", {"messages": [ASKED, SAID]}, {"messages": [*turns, SAID]})
    found, notes = items(path)
    dialogue = "user: Why?\n\nassistant: Well.\n\nuser: Why?"
    assert [(item.prompt, item.submission) for item in found] == [("Why?", "So."), (dialogue, "So.")]
    assert notes == [f"{path}: the last turn of 'messages' is read as the submission"]


def test_an_answer_at_a_path_into_the_conversation_is_not_part_of_the_query(tmp_path: Path) -> None:
    path = written(tmp_path / "answers.jsonl", ANSWER)
    [item], notes = items(path, submission="messages[-1].content.answer")
    assert (item.id, item.prompt, item.submission, item.metadata, notes) == ("a", "Why?", "So.", {}, [])


def test_an_answer_at_a_path_into_json_text_is_not_part_of_the_query(tmp_path: Path) -> None:
    path = written(tmp_path / "chats.jsonl", {"messages": json.dumps([ASKED, SAID])})
    [item], _ = items(path, submission="messages[-1].content")
    assert (item.prompt, item.submission) == ("Why?", "So.")


def test_a_column_of_lists_is_refused_with_the_path_to_a_text(tmp_path: Path) -> None:
    """As in MultiChallenge; one message for all rows."""
    path = written(tmp_path / "rows.jsonl", {"RESPONSE": [SAID], "reference": {"n": 1, "gpt": "Rayleigh."}})
    problems: list[str] = []
    assert not list(Submissions(path)._read_placed(problems))
    way = "expected a string; choose one in it with --column"
    assert problems == [
        f"{path}:1: 'RESPONSE' is of type list; {way} submission=RESPONSE[-1].content",
        f"{path}:1: 'reference' is of type dict; {way} reference=reference.gpt",
    ]
    number = written(tmp_path / "number.jsonl", {"answer": 4})
    assert not list(Submissions(number)._read_placed(problems))
    way = "expected a string; write it as text, or choose another column with --column submission=NAME"
    assert problems[2:] == [f"{number}:1: 'answer' is of type int; {way}"]
    [blank], _ = items(written(tmp_path / "blank.jsonl", {"submission": "So.", "prompt": []}))
    assert (blank.submission, blank.prompt) == ("So.", None)
    nested = written(tmp_path / "nested.jsonl", {"output": {"answer": "So."}, "input": {"question": "Why?", "n": 1}})
    assert not list(Submissions(nested)._read_placed(problems))
    way = "of type dict; expected a string; choose one in it with --column"
    assert problems[3:] == [
        f"{nested}:1: 'output' is {way} submission=output.answer",
        f"{nested}:1: 'input' is {way} query=input.question",
    ]
    turns = [{"role": "system", "content": "Be brief."}, ASKED]
    chat = written(tmp_path / "chat.jsonl", {"answer": [ASKED, SAID], "input": {"messages": turns}})
    assert not list(Submissions(chat)._read_placed(problems))
    assert problems[5:] == [
        f"{chat}:1: 'answer' is of type list; {way[14:]} submission=answer[-1].content",
        f"{chat}:1: 'input' is {way} query=input.messages",
    ]
    [item], _ = items(chat, submission="answer[-1].content", query="input.messages")
    assert (item.submission, item.prompt) == ("So.", "system: Be brief.\n\nuser: Why?")
    [item], _ = items(path, submission="RESPONSE[0].content", reference="reference.gpt")
    assert (item.submission, item.reference_submission) == ("So.", "Rayleigh.")


def test_refused_rows_are_told_with_the_paths_to_their_texts(tmp_path: Path) -> None:
    """As LangSmith, Argilla and Label Studio have them."""
    row = {
        "n": 1,
        "inputs": '{"question": "Why is it late?"}',
        "outputs": [{"said": "So.", "n": 2, "by": {"who": "A"}}],
    }
    path = written(tmp_path / "rows.jsonl", row)
    held = r"'n', 'inputs' \(inputs.question\), 'outputs' \(outputs\[0\].said, outputs\[0\].by.who\)"
    with pytest.raises(InputError, match=f"no submission column found; the columns are {held}; name it"):
        items(path)
    with pytest.raises(InputError, match=f"no column 'question'; the rows have {held}; choose"):
        QueryFile(path).check()
    with pytest.warns(Note, match="no column is read as the query, perhaps 'inputs.question'; choose one with"):
        read_dataset(path, Rubric.from_dict(["Is brief."]), None, None, {"submission": "outputs[0].said"})


def test_a_column_called_metadata_may_contain_a_text(tmp_path: Path) -> None:
    [item], _ = items(written(tmp_path / "rows.jsonl", {"answer": "So.", "metadata": "By Ann.", "n": 1}))
    assert item.metadata == {"metadata": "By Ann.", "n": 1}


@pytest.mark.parametrize("row", [ANSWER, {"messages": [ASKED]}, {"messages": [SAID]}, {"messages": "Why?"}])
def test_a_row_without_an_answer_in_words_has_no_submission(tmp_path: Path, row: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="no submission column found"):
        items(written(tmp_path / "rows.jsonl", row))


def test_rows_may_have_a_column_called_dataset(tmp_path: Path) -> None:
    """As in AlpacaEval, UltraFeedback and Tulu; a dataset begins with a line that has no other key."""
    rows = [{"prompt": f"Why {n}?", "response": "So.", "dataset": "helpful_base"} for n in range(2)]
    path, kind = written(tmp_path / "outputs.jsonl", *rows), [{"requirement": "Is kind."}]
    assert is_rows(path, rubric_given=True)
    assert is_rows(path, rubric_given=False)
    made = read_dataset(path, Rubric.from_dict(kind), None, None)
    assert [(item.prompt, item.metadata) for item in made.items] == [
        (row["prompt"], {"dataset": "helpful_base"}) for row in rows
    ]
    queries = read_queries(written(tmp_path / "queries.jsonl", *({**row, "rubric": kind} for row in rows))).queries
    assert [query.text for query in queries] == ["Why 0?", "Why 1?"]


@each(
    ("turns", "query", "submission"),
    [
        (
            [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Why"}, {"type": "text", "text": "so?"}],
                },
                {"role": "model", "content": [{"type": "text", "text": "Scattering."}]},
            ],
            "Why\nso?",
            "Scattering.",
        ),
        (
            [{"role": "user", "parts": [{"text": "Why?"}]}, {"role": "bot", "parts": ["So."]}],
            "Why?",
            "So.",
        ),
        (
            [
                {"role": "user", "content": "Why?"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}],
                },
                {"role": "tool", "content": "42", "tool_call_id": "c"},
                {"role": "assistant", "content": "So."},
            ],
            'user: Why?\n\nassistant: calls f({"a": 1})\n\ntool: 42',
            "So.",
        ),
    ],
)
def test_a_conversation_may_have_parts_calls_of_tools_and_other_roles(
    turns: list[Any], query: str, submission: str
) -> None:
    row = {"id": "1", "messages": turns, "rubrics": ["Is brief."]}
    [item] = Submissions([row]).read_items()
    assert (item.prompt, item.submission) == (query, submission)
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    with pytest.raises(InputError, match=r"messages\[0\].content is \[.*; expected a string"):
        Submissions([{**row, "messages": [image], "answer": "So."}]).read_items()


CALL = {"function": {"name": "look_up", "arguments": '{"a": 1}'}}
MESSAGES: list[tuple[dict[str, Any], str]] = [
    # OpenAI's chat format, DeepSeek's thoughts, and a call of the old format
    ({"role": "assistant", "content": "Wait.", "tool_calls": [CALL, CALL]},
     'Wait.\nlook_up({"a": 1})\nlook_up({"a": 1})'),
    ({"role": "assistant", "content": "Wait.", "tool_calls": json.dumps([CALL])}, 'Wait.\nlook_up({"a": 1})'),
    ({"role": "assistant", "content": "So.", "reasoning_content": "Hm."}, "<thinking>Hm.</thinking>\nSo."),
    ({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "1"}}, "f(1)"),
    # OpenAI's Responses
    ({"role": "assistant", "content": [{"type": "reasoning", "summary": [], "encrypted_content": "x"},
                                       {"type": "output_text", "text": "So."}]}, "\nSo."),
    ({"role": "assistant", "content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}]},
     "<thinking>Hm.</thinking>"),
    # Anthropic's
    ({"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "x"},
                                       {"type": "text", "text": "So."},
                                       {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]},
     '<thinking>Hm.</thinking>\nSo.\nf({"a": 1})'),
    ({"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "42"}]}]}, "42"),
    # Gemini's
    ({"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"text": "So."},
                                 {"functionCall": {"name": "f", "args": {"a": 1}}}]},
     '<thinking>Hm.</thinking>\nSo.\nf({"a": 1})'),
    ({"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"n": 42}}}]}, '{"n": 42}'),
    # Bedrock's
    ({"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "Hm."}}},
                                       {"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}]},
     "<thinking>Hm.</thinking>\nf({})"),
    # LangChain's
    ({"type": "ai", "content": "So."}, "So."),
    # ShareGPT's and LlamaFactory's
    ({"from": "function_call", "value": '{"name": "f", "arguments": {"a": 1}}'}, 'f({"a": 1})'),
    ({"role": "function", "content": 'So.<tool_call>[{"name": "f", "arguments": {"a": 1}}]</tool_call>'},
     'So.\nf({"a": 1})'),
    ({"from": "function_call", "value": "f()"}, "f()"),
    ({"from": "function_call", "value": '{"name": "Paris", "degrees": 12}'}, '{"name": "Paris", "degrees": 12}'),
]  # fmt: skip


@each(("message", "text"), MESSAGES)
def test_no_part_of_a_message_is_lost(message: dict[str, Any], text: str) -> None:
    read = as_turns(read_prompt([message, {"role": "user", "content": "Why?"}], "messages"))
    assert read[0]["content"].replace("calls ", "") == text
    assert read[0]["role"] in ("assistant", "user", "model")


@each(
    ("column", "first", "last"),
    [
        ("messages", {"role": "customer", "content": "Why?"}, {"role": "agent", "content": "So."}),
        ("contents", {"role": "user", "parts": [{"text": "Why?"}]}, {"role": "model", "parts": [{"text": "So."}]}),
        ("messages", {"type": "human", "content": "Why?"}, {"type": "ai", "content": "So."}),
    ],
)
def test_the_answer_of_a_conversation_is_found_by_its_role(
    column: str, first: dict[str, Any], last: dict[str, Any]
) -> None:
    [item] = Submissions([{column: [first, last], "rubrics": ["Is brief."]}]).read_items()
    assert (str(item.prompt).removeprefix("customer: "), item.submission) == ("Why?", "So.")


def test_a_null_submission_and_what_is_left_out_of_a_rubric_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    criteria = [{"requirement": "Is brief.", "weight": 2}, {"requirement": "Is kind.", "weight": None}]
    row = {"question": "Why?", "submission": None, "rubrics": criteria, "ground_truth": None}
    path.write_text(json.dumps({**row, "id": 1}) + "\n" + json.dumps({**row, "id": 2, "submission": "So."}) + "\n")
    source = Submissions(path)
    assert [item.submission for item in source.read_items()] == ["", "So."]
    assert source.notes == [
        f"{path}:1: 'submission' is blank or null; blank submissions are graded, and only the first one is reported",
        f"{path}:1: 1 of 2 criteria have no weight and count 10, the first is criterion 2",
    ]


def test_the_first_blank_submission_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,question,answer\na,Why?,So.\nb,Why?,\nc,Why?,   \n")
    source = Submissions(path, rubric=Rubric.from_dict(["Is brief."]))
    assert [item.submission.strip() for item in source.read_items()] == ["So.", "", ""]
    noted = f"{path}:3: 'answer' is blank or null; blank submissions are graded, and only the first one is reported"
    assert source.notes == [noted]


def test_a_submission_that_is_null_under_any_name_is_blank_in_files_and_in_memory(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"submission": None}, ""),
        ({"answer": None}, ""),
        ({"Response": None, "note": None}, ""),
        ({"answer": None, "messages": turns}, "So."),
    ]
    with offenders() as case:
        for number, (fields, text) in enumerate(cases):
            row = {"id": "a", "rubrics": ["Is brief."], **fields}
            path = tmp_path / f"{number}.jsonl"
            path.write_text(json.dumps(row) + "\n")
            for source in (path, check_data([row]), check_data(pandas.DataFrame([row]))):
                with case(f"{fields} in {source}"):
                    assert [item.submission for item in Submissions(source).read_items()] == [text]
        with (
            case("null among texts, in memory and in JSON"),
            pytest.warns(Note, match="item 1: 'submission' is blank or null"),
        ):
            (tmp_path / "texts.json").write_text('["So.", null]')
            for data in (
                check_data(["So.", None]),
                check_data(pandas.Series(["So.", math.nan])),
                tmp_path / "texts.json",
            ):
                made = read_dataset(data, Rubric.from_dict(["Is brief."]), None, None)
                assert [item.submission for item in made.items] == ["So.", ""]


def test_the_label_of_a_single_criterion_may_be_a_word() -> None:
    row = {"question": "Why?", "submission": "So.", "rubrics": ["Is brief."], "ground_truth": "yes"}
    assert [item.ground_truth for item in Submissions([row, {**row, "ground_truth": False}]).read_items()] == [
        ["MET"],
        ["UNMET"],
    ]
    with pytest.raises(InputError, match="Ground truth has 1 value, but rubric has 2 criteria"):
        Submissions([{**row, "rubrics": ["Is brief.", "Is kind."]}]).read_items()
    with pytest.raises(InputError, match="'ground_truth' is 'Paris'; expected MET or UNMET, or a list of them; if"):
        Submissions([{**row, "ground_truth": "Paris"}]).read_items()


TEXTS = ["Mentions the moon.", "Mentions the wind."]


@each(
    ("column", "weights", "rubric", "told"),
    [
        ("weights", [3, -1], TEXTS, True),
        ("Rubric Weights", (3, "-1"), TEXTS, True),
        ("points", "[3, -1]", json.dumps(TEXTS), True),
        ("max_points", [3, 1], TEXTS, True),
        ("Gewichte", [3, -1], TEXTS, True),
        ("scores", [3, 1], TEXTS, False),
        ("checkpoints", [3, 1], TEXTS, False),
        ("weights", [3], TEXTS, False),
        ("weights", [3, None], TEXTS, False),
        ("weights", [3, -1], [{"requirement": text, "weight": 2} for text in TEXTS], False),
        ("weights", 3, TEXTS, False),
    ],
)
def test_weights_in_a_column_beside_texts_of_criteria_are_refused(
    column: str, weights: Any, rubric: Any, told: bool
) -> None:
    record = Record("a.csv:2", 2, {"question": "Who?", "rubric": rubric, column: weights})
    problems: tuple[str, ...] = ()
    try:
        RowReader("a.csv", ("query", "rubric")).read(record)
    except InputError as error:
        problems = error.problems
    way = "write each criterion as {'requirement': 'Mentions the moon.', 'weight': 3}"
    assert [*problems] == ([f"a.csv:2: {column!r} has the weights of the criteria; {way}"] if told else [])


def test_criteria_of_faults_in_a_column_of_their_own_are_refused() -> None:
    row = {"question": "Who?", "rubric": TEXTS, "negativeRubric": []}
    reader = RowReader("a.jsonl", ("query", "rubric"))
    assert reader.read(Record("a.jsonl:1", 1, row)).columns["rubric"] == "rubric"
    with pytest.raises(InputError, match=r"a.jsonl:2: 'negativeRubric' may have criteria, which are not read; write"):
        reader.read(Record("a.jsonl:2", 2, {**row, "negativeRubric": ["Is rude."]}))
    with pytest.raises(InputError, match="'negative_rubric' may have criteria, which are not read; write"):
        Rubric.from_dict({"rubric": TEXTS, "negative_rubric": ["Is rude."]})


def test_columns_for_models_are_known_by_the_words_of_their_names() -> None:
    seen = ("query", "system_output", "context_id", "documented", "subsystem", "historian", "source")
    unseen = "context retrieved_contexts retrievalContext Chat-History conversation_history system system_message "
    unseen += "system_instruction developer_message background source_text article document passages gold "
    unseen += "gold_answer desired_answer golden_response target correct_answer ideal expected_output solution "
    unseen += "reference_text"
    with offenders() as case:
        for name in (*seen, *unseen.split()):
            with case(name):
                assert is_for_models(name) == (name not in seen)


@each(
    ("role", "column", "value", "is_refused"),
    [
        ("reference", "expected", "MET", True),
        ("reference", "Expected Output", " pass ", True),
        ("reference", "ideal", False, True),
        ("reference", "expected_answer", "No, never.", False),
        ("reference", "expected", "1", False),
        ("reference", "expected", "incorrect", True),
        ("reference", "expected", "不满足", True),
        ("reference", "标准答案", "否", True),
        ("reference", "参考答案", "是因为密度小。", False),
        ("reference", "reference", "Yes", False),
        ("query", "task", "travel_plan", True),
        ("query", "task", "t1", True),
        ("query", "task", "rubric-judge", True),
        ("query", "task", "Why?", False),
        ("query", "user_input", "Add 1 and 2", False),
        ("query", "prompt", "t1", False),
    ],
)
def test_a_last_resort_is_refused_if_it_has_a_verdict_or_a_name(
    role: str, column: str, value: Any, is_refused: bool
) -> None:
    row = Record("a.csv:2", 2, {"answer": "So.", column: value})
    roles = ("submission", "query", "labels", "reference")
    problems: Sequence[str] = ()
    try:
        assert RowReader("a.csv", roles).read(row).columns[role] == column
    except InputError as error:
        problems = error.problems
    way = f"name the {role} with {COLUMN_OPTION.format(role=role)}"
    told = f"{column!r} is {value!r}, which may not be the {role}; {way}"
    label = ", or labels with --column labels=NAME" * (role == "reference")
    assert [*problems] == ([f"a.csv:2: {told}{label}"] if is_refused else [])
    for given in ("labels", "reference", "query"):
        assert RowReader("a.csv", roles, given={given: column}).read(row).columns[given] == column


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ('{"question": "Why?"}', "input.question"),
        ('["Why?", "How?"]', "input[0]"),
        ('{"messages": [{"role": "user", "content": "Why?"}]}', "input.messages"),
        ('[{"role": "user", "content": "Why?"}]', ""),
        ("[1, 2] is a list", ""),
    ],
)
def test_a_query_in_json_text_is_noted_with_the_path_to_its_text(value: str, path: str) -> None:
    reader = RowReader("a.csv", ("query",))
    assert reader.read(Record("a.csv:2", 2, {"input": value})).read_value("query") == value
    way = COLUMN_OPTION.format(role="query").replace("NAME", path)
    told = f"a.csv: 'input' is JSON text, read whole; to read a part of it, pass {way}"
    assert reader.notes[1:] == ([told] if path else [])


@each(("blank", "is_first"), [({"answer": ""}, True), ({"answer": None}, False), ({}, True), ({}, False)])
def test_a_text_next_to_answers_is_not_the_submission_where_one_is_blank(
    blank: dict[str, Any], is_first: bool
) -> None:
    rows = [{"text": "An article.", "answer": "It is short."}, {"text": "Another article.", **blank}]
    reader = RowReader("a.jsonl", ("submission",))
    with pytest.raises(InputError, match="'text' is the only text of some rows"):
        list(reader.read_all(Record("a.jsonl", 1, row) for row in (reversed(rows) if is_first else rows)))


def test_of_a_text_and_its_summary_neither_is_guessed_to_be_the_submission() -> None:
    row = Record("a.csv:2", 2, {"text": "An article.", "summary": "Short."})
    with pytest.raises(InputError, match="the submission may be column 'text' or 'summary'; choose one"):
        RowReader("a.csv", ("submission",)).read(row)


def test_the_answer_at_the_end_of_a_conversation_is_read_by_select_and_convert(tmp_path: Path) -> None:
    rubric = [{"requirement": "Says why.", "weight": 2}]
    rows = [{"id": name, "messages": [ASKED, SAID], "rubric": rubric} for name in "ab"]
    path = written(tmp_path / "a.jsonl", *rows)
    [query] = read_queries(path).queries
    assert (query.text, query.answers) == ("Why?", (("a", "So."), ("b", "So.")))
    convert(path, tmp_path / "b.jsonl", "autorubric")
    [first, _] = RubricDataset.from_file(tmp_path / "b.jsonl").items
    assert (first.prompt, first.submission) == ("Why?", "So.")
    bare = written(tmp_path / "c.jsonl", *({"messages": row["messages"]} for row in rows))
    assert [(one.query, one.answer) for one in read_candidates(bare, [query], [])] == [("a", "So.")] * 2


@each(
    ("query", "submission", "reference"),
    [
        ("question", "Réponse", "corrigé"),
        ("Frage", "Antwort", "Musterlösung"),
        ("pregunta", "respuesta", "reference"),
        ("pergunta", "resposta", "expected"),
        ("domanda", "risposta", "ideal"),
        ("вопрос", "ответ", "reference"),
        ("設問", "解答", "模範解答"),
        ("질문", "답변", "모범답안"),
        ("题目", "学生答案", "标准答案"),
        ("问题", "模型输出", "参考答案"),
        ("提问", "回复", "ideal"),
        ("質問", "回答", "reference"),
        ("Question", "Student Response", "Reference Answer"),
        ("userInput", "ModelAnswer", "expectedOutput"),
    ],
)
def test_columns_of_schools_are_read_in_their_languages(query: str, submission: str, reference: str) -> None:
    row = Record("a.csv:2", 2, {"Nr": 1, query: "Why is it so?", submission: "So.", reference: "So it is."})
    found = RowReader("a.csv", ("query", "submission", "reference")).read(row).columns
    assert found == {"query": query, "submission": submission, "reference": reference}


def test_files_in_chinese_are_read_by_their_usual_columns(tmp_path: Path) -> None:
    rubric = [{"评分点": "指出密度", "分值": 3}, {"评分点": "指出氢键", "分值": 2}]
    row = {"题目": "为什么冰会浮起来？", "回答": "因为密度小。", "评分标准": rubric, "参考答案": "冰的密度小于水。"}
    dataset = read_dataset_quietly(written(tmp_path / "a.jsonl", row))
    [item] = dataset.items
    assert (item.prompt, item.submission, item.reference_submission) == (row["题目"], row["回答"], row["参考答案"])
    assert [(one.requirement, one.weight) for one in item.rubric or ()] == [("指出密度", 3), ("指出氢键", 2)]


def test_a_list_under_another_key_than_criteria_is_named() -> None:
    points = [{"description": "Names the wind.", "score": 2}]
    with pytest.raises(
        InputError, match="'grading_points'; if 'grading_points' has the criteria, rename it to 'crit"
    ):
        Rubric.from_dict({"question_id": "q1", "tags": ["a"], "grading_points": points})
    with pytest.raises(
        InputError, match=re.escape("'style'; write groups of criteria as a list of {'name': …, 'criteria'")
    ):
        Rubric.from_dict({"metadata": {"a": 1}, "facts": points, "style": points})

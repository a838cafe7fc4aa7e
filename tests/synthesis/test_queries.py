"""The input of a synthesis run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from autorubric import synthesize
from autorubric.errors import InputError, MissingFileError
from autorubric.synthesis.query_file import QueryFile
from tests.offenders import offenders

TURNS = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Yes?"},
    {"role": "user", "content": "Why?"},
]


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows), encoding="utf-8")
    return path


def refused(source: QueryFile) -> str:
    with pytest.raises(InputError) as caught:
        source.check()
    return str(caught.value)


def test_a_row_keeps_its_columns_and_gains_the_resume_keys(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"question": " Why? ", "topic": "sky"})
    (query,) = QueryFile(path)
    assert query.record_id == "idx:0"
    assert query.fields == {
        "question": " Why? ",
        "topic": "sky",
        "id": "",
        "__source_index__": 0,
        "__record_id__": "idx:0",
    }


def test_the_id_column_is_the_resume_key_where_it_is_filled(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"question": "a", "key": 7}, {"question": "b", "key": "  "})
    first, second = QueryFile(path, id_column="key")
    assert (first.record_id, first.fields["id"]) == ("7", 7)
    assert second.record_id == "idx:1"


def test_a_path_reaches_into_a_column(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"turns": ["Hello", "More"]}, {"turns": ["Bye"]})
    assert [q.fields["question"] for q in QueryFile(path, "turns[0]")] == ["Hello", "Bye"]


def test_another_value_than_text_is_refused_with_the_path_to_one(tmp_path: Path) -> None:
    way = "expected a string; choose one in it with --question-column"
    with offenders() as case:
        for value, told in (
            (["Hello", "More"], f"of type list; {way} turns[0] (in Python: question_column)"),
            ({"question": "Why?", "by": "Ann Lee Moss"}, f"of type dict; {way} turns.question (in"),
            ({"messages": TURNS}, f"of type dict; {way} turns.messages (in"),
            ({"n": 1}, "of type dict; expected a string\n"),
        ):
            with case(told):
                assert told in refused(QueryFile(write(tmp_path / "q.jsonl", {"turns": value}), "turns"))


def test_calls_of_tools_and_their_results_are_part_of_a_query(tmp_path: Path) -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    turns = [{"role": "developer", "content": "Be brief."}, TURNS[0], call, {"role": "tool", "content": "42"}]
    (query,) = QueryFile(write(tmp_path / "q.jsonl", {"messages": [*turns, TURNS[1]]}), "messages")
    assert query.fields["question"] == [*turns[:2], {"role": "assistant", "content": "calls f({})"}, turns[3]]
    assert query.is_answered


def test_a_guessed_column_of_lists_is_not_called_missing(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"question_id": 81, "turns": ["Why?", "And how?"]})
    told = refused(QueryFile(path).with_guesses([]))
    assert told.startswith(f"{path}:1: 'turns' is of type list; expected a string; choose one in it with --question")


def test_a_wrong_column_is_named_with_the_ones_there_are(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"prompt": "a"}, {"prompt": "b"})
    message = refused(QueryFile(path))
    assert "no column 'question'" in message
    assert "did you mean --question-column prompt (in Python: question_column)?" in message


def test_a_table_with_an_unknown_delimiter_names_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text("id^question\n1^Why?\n")
    assert "the rows have 'id^question' (the delimiter of a table is a comma, semicolon, tab or |)" in refused(
        QueryFile(path)
    )


def test_queries_in_a_list_are_refused_by_place_and_value() -> None:
    expected = "; expected a string, conversation or row for each query"
    table: list[tuple[list[Any], str]] = [
        ([], f"input is []; the list is empty{expected}"),
        ([None, "x", 3], f"input is [None, 'x', 3]; item 0 is None, item 2 is 3{expected}"),
        ([1.5] * 12, f"item 9 is 1.5 and 2 more{expected}"),
    ]
    with offenders() as case:
        for queries, says in table:
            with case(says), pytest.raises(InputError, match=re.escape(says)):
                synthesize(queries, models="builtin/offline", dry_run=True)


def test_wrong_queries_in_memory_are_named_by_their_places(tmp_path: Path) -> None:
    table: list[tuple[list[Any], str]] = [
        (
            ["Why?", ""],
            "^item 1: 'question' is blank\nfix .*, or leave them out with --skip-bad-rows .in Python: skip_b",
        ),
        ([{"question": " "}, "Why?", {"q": 1}], "^2 problems:\n  item 0: .*\n  item 2: "),
        ([{"q": "Why?"}], "^the queries: no column 'question'"),
    ]
    with offenders() as case:
        for queries, says in table:
            with case(says):
                with pytest.raises(InputError, match=says) as caught:
                    synthesize(queries, models="builtin/offline", out=tmp_path / "run")
                assert "queries.jsonl" not in "".join(caught.value.problems)
    assert not (tmp_path / "run").exists()


def test_a_wrong_column_of_responses_is_one_problem_and_not_one_a_row(tmp_path: Path) -> None:
    path = write(
        tmp_path / "q.jsonl", *({"question": f"Why {number}?", "answers": ["So.", "Thus."]} for number in range(3))
    )
    told = refused(QueryFile(path, responses_column="nope"))
    assert told == (
        f"{path}: no column 'nope'; the rows have 'question', 'answers'; "
        "did you mean --responses-column answers (in Python: responses_column)?"
    )


def test_all_wrong_columns_are_named_at_once_with_the_lines_that_cannot_be_read(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"query": "a"}, "{", {"query": "b"})
    message = refused(QueryFile(path, "questoin", "uid"))
    assert "no column 'questoin'; the rows have 'query'" in message
    assert "no column 'uid'" in message
    assert "q.jsonl:2: " in message
    assert message.startswith("3 problems")  # and not one more for each row without the column


def test_an_id_is_not_offered_as_the_column_of_the_query(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"question_id": 81, "turns": ["Hello"]})
    assert "did you mean --question-column turns (in Python: question_column)?" in refused(QueryFile(path))


def test_every_bad_row_is_named_before_anything_is_spent(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"question": "a"}, "{broken", '["no object"]', {"question": "  "})
    message = refused(QueryFile(path))
    assert "q.jsonl:2" in message
    assert "q.jsonl:3" in message
    assert "q.jsonl:4: 'question' is blank" in message


def test_bad_rows_can_be_left_out_and_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"question": "a"}, "{broken", {"question": "c"})
    source = QueryFile(path, skip_bad_rows=True)
    report = source.check()
    assert report.rows == 2
    assert len(report.skipped) == 1


def test_mending_a_bad_row_does_not_shift_the_rows_behind_it(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"question": "a"}, "{broken", {"question": "c"})
    before = [q.record_id for q in QueryFile(path, skip_bad_rows=True)]
    write(path, {"question": "a"}, {"question": "b"}, {"question": "c"})
    after = [q.record_id for q in QueryFile(path)]
    assert before == ["idx:0", "idx:2"]
    assert after == ["idx:0", "idx:1", "idx:2"]


def test_ids_that_occur_twice_are_listed_with_both_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"question": "a", "id": "x"}, {"question": "b", "id": "x"})
    message = refused(QueryFile(path, id_column="id"))
    assert "q.jsonl:2: id 'x' is already used on line 1" in message
    # --skip-bad-rows does not choose between the two.
    write(path, {"question": "a", "id": "x"}, {"question": "b", "id": "x"}, {"question": " ", "id": "y"})
    assert "leave all but the repeated ids out with --skip-bad-rows" in refused(QueryFile(path, id_column="id"))


def test_resume_keys_that_occur_twice_are_listed_without_an_id_column_too(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", *({"question": q, "__record_id__": "x"} for q in "ab"))
    assert "q.jsonl:2: id 'x' is already used on line 1" in refused(QueryFile(path))


def test_a_byte_order_mark_does_not_cost_the_first_row(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"question": "a"}\n{"question": "b"}\n')
    assert QueryFile(path).check().rows == 2


def test_a_lone_surrogate_is_found_before_anything_is_spent(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "a"}\n{"question": "\\ud83d"}\n')
    assert "q.jsonl:2" in refused(QueryFile(path))


def test_a_missing_file_and_an_empty_one_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        QueryFile(tmp_path / "none.jsonl").check()
    (tmp_path / "empty.jsonl").write_text("\n\n")
    assert "has no rows" in refused(QueryFile(tmp_path / "empty.jsonl"))


def test_a_limit_reads_only_the_first_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", *({"question": f"q{i}"} for i in range(5)))
    source = QueryFile(path, limit=2)
    assert source.check().rows == 2
    assert [q.fields["question"] for q in source] == ["q0", "q1"]


def test_a_conversation_is_a_query(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"prompt": TURNS})
    (query,) = QueryFile(path, "prompt")
    assert query.fields["question"] == TURNS


@pytest.mark.parametrize(
    "rows",
    [
        {"messages": [*TURNS, {"role": "assistant", "content": "Because."}]},
        {
            "messages": [
                {"from": "human", "value": "Hi"},
                {"from": "gpt", "value": "Yes?"},
                {"from": "human", "value": "Why?"},
                {"from": "gpt", "value": "Because."},
            ]
        },
    ],
)
def test_the_answer_at_the_end_of_a_conversation_is_not_part_of_the_query(
    tmp_path: Path, rows: dict[str, list[dict[str, str]]]
) -> None:
    source = QueryFile(write(tmp_path / "q.jsonl", rows, {"messages": TURNS}), "messages")
    assert [query.fields["question"] for query in source] == [TURNS, TURNS]
    assert source.check().answered == 1


@pytest.mark.parametrize(
    ("turns", "told"),
    [
        (TURNS[1:2], "the conversation does not end with a message of the user or a tool"),
        ([], "'prompt': the list of messages is empty"),
        (None, "'prompt' is null"),
        ([{"role": "user"}], "message 1: it has no content"),
        (
            [{"role": "judge", "content": "x"}],
            "message 1 has the role 'judge'; expected one of user, assistant, system, developer, tool",
        ),
        ([*TURNS, {"role": "user", "content": "  "}], "message 4: its content is blank"),
        (
            [{"role": "user", "content": [{"type": "text", "text": "Why?"}, {"type": "text", "value": "So?"}]}],
            "message 1: part 2 of its content is {'type': 'text', 'value': 'So?'}; expected 'text'",
        ),
        (
            [{"role": "user", "content": [{"type": "image_url"}]}],
            "message 1: part 1 of its content is {'type': 'image_url'}; expected text; models are not shown images",
        ),
    ],
)
def test_a_conversation_that_is_none_is_refused(tmp_path: Path, turns: Any, told: str) -> None:
    path = write(tmp_path / "q.jsonl", {"prompt": turns})
    assert told in refused(QueryFile(path, "prompt"))


def test_finished_responses_become_the_slots_of_the_pool(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"question": "Why?", "answers": {"m1": "x", "m2": "y"}})
    (query,) = QueryFile(path, responses_column="answers")
    assert [query.fields[f"response_{x}{end}"] for x in "ab" for end in ("", "_model")] == ["x", "m1", "y", "m2"]


def test_another_number_of_responses_is_named_with_its_line(tmp_path: Path) -> None:
    rows = [{"question": "Why?", "answers": answers} for answers in (["x", "y"], ["x", "y", "z"])]
    path = write(tmp_path / "q.jsonl", *rows)
    told = refused(QueryFile(path, responses_column="answers"))
    assert f"{path}:2: 3 responses; the rows before it have 2" in told


def test_a_query_that_refers_to_files_is_refused(tmp_path: Path) -> None:
    for mark, column in (("image", "images"), ("audio", "audios"), ("video", "video")):
        rows = [{"prompt": f"<{mark}>What is it?", column: ["a"]}, {"prompt": f"Is <{mark}> a tag?", column: []}]
        for prompt in (rows[0]["prompt"], [{"role": "user", "content": rows[0]["prompt"]}]):
            path = write(tmp_path / "q.jsonl", {**rows[0], "prompt": prompt}, rows[1])
            told = f"{path}:1: 'prompt' refers to files in {column!r} with <{mark}>; expected text alone"
            assert refused(QueryFile(path, "prompt")).startswith(told)

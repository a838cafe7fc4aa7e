"""What failed, told in groups with the server's own words and what to do: at the end of a run, and by `status`."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from autorubric.cli.app import run
from autorubric.llm.failure_groups import FailureGroup, FailureGroups
from autorubric.runs.stopping import build_resume_command
from autorubric.testing import Fault, LoopbackEndpoint
from tests.offenders import each

KEY = "sk-planted-0123456789"
WORDS = "The model produced output that does not match the expected peg-native format"
NOT_READ = "I would rather tell you about the weather \u001b[2J today."


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    essays = [{"id": f"e{n}", "submission": f"Essay {n}."} for n in range(6)]
    answers = [{"id": f"q{n}", "answer": f"Essay {n}."} for n in range(6)]
    rubrics = [{"criterion": "Is right.", "points": 6}]
    queries = [{"question": f"Why {n}?", "id": f"q{n}", "rubrics": rubrics} for n in range(6)]
    for name, found in (("essays", essays), ("answers", answers), ("final", queries)):
        Path(f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in found), encoding="utf-8")
    Path("q.csv").write_text("question\nWhy 0?\nWhy 1?\n", encoding="utf-8")
    Path("rubric.json").write_text('[{"requirement": "Is kind."}]', encoding="utf-8")
    return tmp_path


def failing(*numbers: int) -> Any:
    """A 500 with the same words for some essays."""
    wrong = Fault("500", 500, body=json.dumps({"error": {"message": f"{WORDS}, Bearer {KEY}"}}).encode())
    return lambda body: wrong if any(f"Essay {n}." in json.dumps(body) for n in numbers) else None


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    status = run(list(words))
    found = capsys.readouterr()
    assert KEY not in found.out + found.err
    return status, found.out


GRADE = ("grade", "--submissions", "essays.jsonl", "--rubric", "rubric.json", "-o", "out", "--retry", "0")


def test_a_grading_run_and_its_status_quote_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    quote = f"HTTP 500 from j: '{WORDS}, Bearer <hidden>'"
    line = f"4 judgments failed: {quote} (items e1, e2, e4, …); look at the server's log"
    with LoopbackEndpoint(faults=failing(1, 2, 4, 5)).in_thread() as endpoint:
        status, out = told(capsys, *GRADE, "--judge", f"j@{endpoint.base_url}")
    assert status == 1
    assert f"\n  {line}" in out
    _, out = told(capsys, "status", "out")
    assert f"\n  failures   {line}" in out
    assert out.count("failures") == 1  # the requests behind the judgments are not told a second time
    _, out = told(capsys, "status", "out", "--json")
    [group] = json.loads(out)["failure_groups"]
    assert (group["kind"], group["count"], group["items"]) == ("server", 4, ["e1", "e2", "e4"])


def test_why_a_run_ended_and_what_to_do_are_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    refused = Fault("401", 401, body=b'{"error": {"message": "Incorrect key"}}')
    advice = "check the key and what it may use; --api-key-env (in Python: api_key_env) names its variable"
    with LoopbackEndpoint(faults=lambda body: refused if "Essay 3." in json.dumps(body) else None).in_thread() as one:
        status, out = told(capsys, *GRADE, "-j", "1", "--judge", f"j@{one.base_url}")
    assert status == 1
    for text in (out, told(capsys, "status", "out")[1]):
        assert f"1 judgment failed (item e3); {advice}\n" in text
        assert [text.count(words) for words in ("Incorrect key", "check the key")] == [1, 1]
    assert "  2 judgments were not made\n" in out

    words = ("--models", "m", "--merge-model", "n", "--retry", "0", "-j", "1")
    rejected = Fault("500", 500, body=b'{"error": {"message": "out of memory"}}')
    with LoopbackEndpoint(faults=lambda body: None if body["model"] == "n" else rejected).in_thread() as one:
        status, out = told(capsys, "synthesize", "q.csv", "-o", "made", *words, "--base-url", one.base_url)
    assert status == 1
    assert out.count("rows failed: HTTP 500") > out.count("look at the server's log") == 1


@each(
    ("stopped", "again", "expected"),
    [
        ("budget of 900 tokens reached, ...; resume with a budget of 1,800 tokens",
         "a --budget-tokens=900", (" a budget of 1,800 tokens", "a --budget-tokens 1800")),
        ("budget of 100 tokens reached, ...; resume with a budget of 9,200 tokens (estimated: 3 of 7 are done)",
         "a -b", (" a budget of 9,200 tokens (estimated: 3 of 7 are done)", "a -b --budget-tokens 9200")),
        ("budget of $0.20 reached, ...; resume with a budget of $0.50",
         "a --budget-usd 0.2 b", (" a budget of $0.50", "a b --budget-usd 0.50")),
        ("m: HTTP 500: out of memory; resume with a budget of $6e-05", "", (" a budget of $6e-05", "")),
        ("interrupted", "a --budget-usd 0.2", ("", "a --budget-usd 0.2")),
    ],
)  # fmt: skip
def test_the_command_that_resumes_has_the_budget_that_the_message_names(
    stopped: str, again: str, expected: tuple[str, str]
) -> None:
    assert build_resume_command(stopped, again) == expected


def test_unreadable_replies_are_shown_at_the_end_and_by_status(capsys: pytest.CaptureFixture[str]) -> None:
    def reply(body: dict[str, Any]) -> str:
        sound = '{"explanation": "So.", "criterion_status": "MET"}'
        return NOT_READ if "Essay 3." in json.dumps(body) else sound

    with LoopbackEndpoint(replier=reply).in_thread() as endpoint:
        status, out = told(capsys, *GRADE, "--judge", f"j@{endpoint.base_url}")
    assert status == 1
    begins = "the reply begins: 'I would rather tell you about the weather"
    [line] = [line for line in out.splitlines() if "1 judgment failed: unreadable: " in line]
    assert begins in line and "(item e3); see whole replies with --log-json FILE --log-prompts" in line
    _, out = told(capsys, "status", "out")
    [line] = [line for line in out.splitlines() if "failures" in line]
    assert "1 judgment failed: unreadable: " in line and begins in line
    assert "\u001b" not in line


def test_a_selection_tells_failures_of_sampling_and_of_judging(capsys: pytest.CaptureFixture[str]) -> None:
    select = ("select", "final.jsonl", "--candidates", "answers.jsonl", "-o", "out", "--retry", "0")
    with LoopbackEndpoint(faults=failing(0, 5)).in_thread() as endpoint:
        status, out = told(capsys, *select, "--judge", f"j@{endpoint.base_url}")
    assert status == 1
    assert f"\n  judge: 2 candidates failed: HTTP 500 from j: '{WORDS}" in out
    assert "(items q0-0, q5-0)" in out

    wrong = Fault("400", 400, body=b'{"error": {"message": "the prompt is too long"}}')
    with LoopbackEndpoint(
        faults=lambda body: wrong if "Why 2?" in json.dumps(body) else None
    ).in_thread() as endpoint:
        words = ("select", "final.jsonl", "-o", "sampled", "-k", "1", "--retry", "0", "--base-url", endpoint.base_url)
        status, out = told(capsys, *words, "--sample", "s", "--judge", "j")
    assert status == 1
    assert (
        "response: 1 candidate failed: HTTP 400 from s: 'the prompt is too long' (item q2-0); shorten the texts"
        in out
    )
    _, out = told(capsys, "status", "sampled")
    assert "response: 1 request failed: HTTP 400 from s: 'the prompt is too long'" in out


def test_a_synthesis_tells_its_failures_by_stage(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = Fault("400", 400, body=b'{"error": {"message": "no such merge"}}')
    with LoopbackEndpoint(faults=lambda body: wrong if body["model"] == "n" else None).in_thread() as endpoint:
        words = ("--models", "m", "--merge-model", "n", "--base-url", endpoint.base_url, "--retry", "0")
        status, out = told(capsys, "synthesize", "q.csv", "-o", "out", *words)
    assert status == 1
    line = "2 rows failed: HTTP 400 from n: 'no such merge' (items "
    [found] = [found for found in out.splitlines() if line in found]
    assert found.lstrip().startswith("merged_rubrics: ")
    _, out = told(capsys, "status", "out")
    assert line in out
    counts = json.loads(Path("out/manifest.json").read_text(encoding="utf-8"))["counts"]
    assert counts["failures"] == {"merged_rubrics: rejected": 2}


def test_groups_are_bounded_and_come_back_from_a_file() -> None:
    groups = FailureGroups()
    for number in range(1000):
        groups.add("server", f"{'x' * (number + 1)} went wrong", str(number))
    assert len(groups) == 101
    assert groups.total() == 1000
    again = FailureGroups.from_list(json.loads(json.dumps(groups.to_list())))
    assert again.count_by_kind() == {"server": 1000}


@each("held", [None, 7, {}, [None], [{}], [{"where": 1}], [[]], "text"])
def test_a_manifest_without_groups_has_none(held: object) -> None:
    assert len(FailureGroups.from_list(held)) == 0


@each(
    ("words", "advice"),
    [
        ("HTTP 500: Context size has been exceeded.", "shorten the texts"),
        ("HTTP 400: This model's maximum context length is 8192 tokens", "shorten the texts"),
        ("HTTP 413: Request Entity Too Large", "shorten the texts"),
        ("HTTP 400: string_above_max_length: Input should have at most 9 characters", "shorten the texts"),
        ("HTTP 400: temperature is not supported with this model", "change the request or its settings"),
        ("HTTP 422: Unsupported value: max_tokens", "change the request or its settings"),
        ("HTTP 400: Line 3 of the input file is not valid JSON", "change the request or its settings"),
    ],
)
def test_texts_are_to_be_shortened_only_where_the_endpoint_speaks_of_their_length(words: str, advice: str) -> None:
    group = FailureGroup("", "server" if "500" in words else "rejected", words, 1, [])
    assert f"; {advice}" in group.format_line("judgment")


@each(
    ("items", "shown"),
    [
        (["7", "7", "7"], "(item 7)"),
        (["7", "2", "7"], "(items 2, 7)"),
        (["7", "2", "5"], "(items 2, 5, 7)"),
        (["7", "2", "5", "9"], "(items 2, 5, 7, …)"),
    ],
)
def test_a_group_lists_each_item_once_and_says_if_there_may_be_more(items: list[str], shown: str) -> None:
    groups = FailureGroups()
    for item in items:
        groups.add("timeout", "no reply", item)
    assert shown in next(iter(groups)).format_line("judgment")


def test_advice_that_the_reason_has_already_is_not_repeated() -> None:
    line = FailureGroup("", "truncated", "cut off at 9 tokens; raise --max-tokens-ceiling", 2, []).format_line(
        "judgment"
    )
    assert line == "2 judgments failed: truncated: cut off at 9 tokens; raise --max-tokens-ceiling"


def test_groups_of_one_size_come_in_the_same_order_whichever_failed_first() -> None:
    failures = [
        ("server", "HTTP 500: out of memory"),
        ("server", "HTTP 500: no worker"),
        ("server", "HTTP 502: down"),
    ]
    orders = set()
    for order in permutations(failures):
        groups = FailureGroups()
        for kind, message in order:
            groups.add(kind, message)
        orders.add(tuple(group.message for group in groups))
    assert orders == {("HTTP 500: no worker", "HTTP 500: out of memory", "HTTP 502: down")}


@each(
    ("message", "line"),
    [
        (
            "m: HTTP 404: 'no such model'; the URL was http://a/v1: check the base URL (3 attempts)",
            "HTTP 404 from m: 'no such model'; the URL was http://a/v1: check the base URL (3 attempts)",
        ),
        (
            "m: HTTP 500: 'no worker' (the same response twice)",
            "HTTP 500 from m: 'no worker' (the same response twice)",
        ),
        ("m: HTTP 500: no worker", "HTTP 500 from m: 'no worker'"),  # of an earlier version
    ],
)
def test_remarks_of_ours_are_outside_the_quotes_of_what_an_endpoint_says(message: str, line: str) -> None:
    assert (
        FailureGroup("", "server", message, 1, []).format_line("judgment", is_advised=False)
        == f"1 judgment failed: {line}"
    )


@each(
    ("end", "is_kept"),
    [
        ("", True),
        (" (2 attempts)", True),
        (" (run the same command again in 23 hours, or use another model)", True),
        ("; its contents are safe; fix this and run the same command again", True),
        (f" {200 * 'b'}", False),
        (f" {2076 * 'b'}; {KEY}", False),  # only the first 2,400 characters are searched for keys
    ],
)
def test_a_long_quote_is_shortened_in_the_middle_and_what_follows_stays(end: str, is_kept: bool) -> None:
    message = f"m: HTTP 500: '{300 * 'a'}'{end}"
    groups = FailureGroups()
    groups.add("server", message, "7")
    [group] = groups
    kept = f"'{end}" if "; " not in end else end.rpartition(";")[1] + end.rpartition(";")[2]
    kept = kept if is_kept else ""
    # 240 characters, of which the head of the message takes 14 and the ellipsis one
    assert group.message == f"m: HTTP 500: '{(225 - len(kept)) * 'a'}…{kept}"
    assert group.format_line("judgment", message, is_advised=False) == "1 judgment failed (item 7)"
    assert "…' (item 7); " in FailureGroup("", "server", f"m: HTTP 500: '{225 * 'a'}…", 1, ["7"]).format_line(
        "judgment"
    )


def test_groups_of_several_processes_are_merged_by_cause_with_their_counts_and_first_items() -> None:
    parts = [
        FailureGroup("", "server", "m: HTTP 500: request 7 failed (2 attempts)", 5, ["s1", "s4", "s9"]),
        FailureGroup("", "timeout", "no reply", 1, []),
        FailureGroup("", "server", "m: HTTP 500: request 8 failed (6 attempts)", 2, ["s2", "s30"]),
    ]
    merged = [(group.kind, group.count, group.items) for group in FailureGroups(parts)]
    assert merged == [("server", 7, ["s1", "s2", "s4"]), ("timeout", 1, [])]

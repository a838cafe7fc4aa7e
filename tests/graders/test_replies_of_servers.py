"""What becomes of replies in the shapes in which servers send them: a verdict, another call, or a failure."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from autorubric import Criterion, CriterionGrader, LLMConfig, Rubric
from autorubric.core.report import EnsembleEvaluationReport
from tests.graders.judge_prose import CONSISTENT, CONTRADICTED
from tests.graders.judge_shapes import CHOSEN, FIELDS, ODD, OF_ALL

LABELS = [{"label": label, "value": value} for label, value in (("None", 0), ("Some", 0.5), ("All of it", 1))]
CANNOT = json.dumps({"explanation": "Asked again.", "criterion_status": "CANNOT_ASSESS"})


@contextmanager
def server(sent: Sequence[Any], again: str = CANNOT) -> Iterator[tuple[str, Counter[int]]]:
    """An endpoint that answers a prompt on `Case N` with `sent[N]`, and a re-ask with `again`; and calls by case."""
    calls: Counter[int] = Counter()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = [message["content"] for message in body["messages"]]
            case = int(re.findall(r"Case (\d+)", "\n".join(said))[-1])
            calls[case] += 1
            one = sent[case] if calls[case] == 1 else again
            whole = {"message": {"content": one}} if isinstance(one, str) else one
            answer = json.dumps({"choices": [{"finish_reason": "stop", **whole}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}/v1", calls
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


def graded(base_url: str, count: int, **criterion: Any) -> EnsembleEvaluationReport:
    rubric = Rubric([Criterion(requirement=f"Case {number}.", **criterion) for number in range(count)])
    grader = CriterionGrader(judge_model_config=LLMConfig(f"m@{base_url}"), shuffle_options=False)
    report: EnsembleEvaluationReport = asyncio.run(rubric.grade("Coal and canals.", grader))
    return report


def test_a_reply_is_read_or_asked_for_again_and_never_taken_for_another_verdict() -> None:
    table: list[tuple[Any, str]] = [*FIELDS, *ODD, *CONSISTENT, *((text, "again") for text in CONTRADICTED)]
    with server([sent for sent, _ in table]) as (base_url, calls):
        report = graded(base_url, len(table))
    faults = []
    for number, ((sent, wanted), one) in enumerate(zip(table, report.report or (), strict=True)):
        verdict = "refused" if one.error else str(one.final_verdict and one.final_verdict.value)
        found = "again" if calls[number] == 2 and verdict == "CANNOT_ASSESS" else verdict
        if found != wanted or calls[number] != 1 + (wanted == "again"):
            faults.append(f"{sent!r}: expected {wanted}, got {found} after {calls[number]} calls")
    assert faults == []


def test_a_failure_says_what_json_a_reply_is() -> None:
    table = {
        '["MET", "UNMET"]': "is a JSON array and begins",
        '"I would say so."': "is a JSON string and begins",
        '{"explanation": "So."}': "unreadable: the reply holds no criterion_status; the reply is a JSON object with",
        "null": "is the JSON value null and begins",
        "I would say so.": "no JSON object; the reply begins",
    }
    for text, words in table.items():
        with server([text], text) as (base_url, calls):
            report = graded(base_url, 1)
        assert words in str(report.error) and calls[0] == 3, text


def test_an_option_is_read_in_other_shapes_and_asked_for_again_where_there_are_two() -> None:
    with server([text for text, _ in CHOSEN], json.dumps({"selected_option": 1})) as (base_url, calls):
        report = graded(base_url, len(CHOSEN), options=LABELS)
    found = [
        None
        if calls[number] > 1
        else one.final_multi_choice_verdict and one.final_multi_choice_verdict.selected_index
        for number, one in enumerate(report.report or ())
    ]
    wrong = [(text, index, one) for (text, index), one in zip(CHOSEN, found, strict=True) if one != index]
    assert wrong == []


def test_what_a_reply_on_all_criteria_leaves_open_is_asked_about_once() -> None:
    faults = []
    for text, wanted in OF_ALL:
        with server([text], "?") as (base_url, calls):
            grader = CriterionGrader(judge_model_config=LLMConfig(f"m@{base_url}"), llm_calls="per_item")
            rubric = Rubric([Criterion(requirement="Case 0."), Criterion(requirement="Names a date.")])
            report = asyncio.run(rubric.grade("Case 0: coal and canals.", grader)).report or ()
        found = tuple(None if one.error or not one.final_verdict else one.final_verdict.value for one in report)
        # A reply without any entry is asked for again like others, twice.
        most = 1 if None not in wanted else 2 if any(wanted) else 3
        if found != wanted or calls[0] != most:
            faults.append(f"{text!r}: expected {wanted}, got {found} after {calls[0]} calls")
    assert faults == []

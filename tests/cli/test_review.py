"""`autorubric review`: findings with verbatim quotes, files, resuming, budgets and failures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, Rubric, review, review_async
from autorubric.cli.app import run
from autorubric.errors import InputError
from autorubric.testing import LoopbackEndpoint
from autorubric.testing.faults import Fault
from tests.offenders import offenders

RUBRIC = Rubric(
    [
        Criterion(name="Tone", weight=3, requirement="Uses an appropriate tone."),
        Criterion(
            name="Length",
            weight=1,
            requirement="Is short.",
            check={"name": "word_count", "parameters": {"at_most": 9}},
        ),
        Criterion(name="Cause", weight=5, requirement="Names two causes of the strike."),
    ]
)


def answer(findings: Any) -> Fault:
    text = findings if isinstance(findings, str) else json.dumps({"findings": findings})
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 2000, "completion_tokens": 200, "total_tokens": 2200}
    return Fault("answer", body=json.dumps({"choices": [choice], "usage": usage}).encode())


def prompt_of(body: dict[str, Any]) -> str:
    return "\n".join(str(message["content"]) for message in body["messages"])


def about(body: dict[str, Any], number: int) -> bool:
    return f"Review criterion {number} alone" in prompt_of(body)


def finding(**changed: Any) -> dict[str, Any]:
    sound = {"reason": "Judges differ.", "principle": "clear", "severity": "warning", "criterion": 1}
    return {**sound, "quote": "appropriate tone", "requirement": "Uses no slang.", **changed}


def reviewer(reply: Callable[[dict[str, Any]], Fault | None]) -> LoopbackEndpoint:
    return LoopbackEndpoint(faults=reply)


def one_finding(body: dict[str, Any]) -> Fault:
    return answer([finding()] if about(body, 1) else [])


def test_findings_quote_the_rubric_and_are_written_where_improve_and_people_find_them(tmp_path: Path) -> None:
    with reviewer(one_finding).in_thread() as endpoint:
        found = review(RUBRIC, query="Why?", reviewer=f"m@{endpoint.base_url}", out=tmp_path / "run")
        # The whole rubric, and the two criteria that no check decides.
        assert endpoint.counts.requests == 3
    expected = {
        "number": 1,
        "criterion": "Tone",
        "principle": "clear",
        "severity": "warning",
        "reason": "Judges differ.",
        "quote": "appropriate tone",
        "requirement": "Uses no slang.",
    }
    assert [one.as_dict() for one in found.findings] == [expected]
    assert found.proposals == json.loads((tmp_path / "run" / "proposals.json").read_text()) == [expected]
    assert json.loads((tmp_path / "run" / "review.json").read_text())["findings"] == [expected]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<mark>appropriate tone</mark>" in page
    assert "Uses no slang." in page
    assert "<script" not in page


def test_a_review_resumes_without_a_request_and_asks_again_only_about_what_failed(tmp_path: Path) -> None:
    state = {"fails": True}

    def reply(body: dict[str, Any]) -> Fault:
        if state["fails"] and about(body, 3):
            return Fault("status", status=400)
        return one_finding(body)

    with reviewer(reply).in_thread() as endpoint:
        settings: dict[str, Any] = {"reviewer": f"m@{endpoint.base_url}", "out": tmp_path / "run"}
        first = review(RUBRIC, **settings)
        assert [(one["part"], one["kind"]) for one in first.failures] == [("criterion 3", "rejected")]
        assert len(first.findings) == 1
        state["fails"] = False
        asked = endpoint.counts.requests
        assert review(RUBRIC, **settings).failures == []
        assert endpoint.counts.requests == asked + 1
        assert len(review(RUBRIC, **settings).findings) == 1
        assert endpoint.counts.requests == asked + 1


UNUSABLE = {
    "a quote that is not in the criterion": finding(quote="polite tone"),
    "a quote of another criterion": finding(quote="two causes"),
    "no quote": finding(quote=""),
    "no reason": finding(reason=""),
    "an unknown principle": finding(principle="beauty"),
    "a principle of the whole rubric": finding(principle="weights"),
    "an unknown severity": finding(severity="fatal"),
    "another criterion's number": finding(criterion=3),
    "not an object": "appropriate",
}


def test_a_finding_that_cannot_be_used_is_requested_again_with_what_is_wrong(tmp_path: Path) -> None:
    with offenders() as case:
        for number, (name, wrong) in enumerate(UNUSABLE.items()):
            with case(name):
                asked: list[str] = []

                def reply(body: dict[str, Any], wrong: Any = wrong, asked: list[str] = asked) -> Fault:
                    if not about(body, 1):
                        return answer([])
                    asked.append(prompt_of(body))
                    return answer([finding()] if len(asked) > 1 else [wrong])

                with reviewer(reply).in_thread() as endpoint:
                    found = review(RUBRIC, reviewer=f"m@{endpoint.base_url}", out=tmp_path / str(number))
                assert [one.quote for one in found.findings] == ["appropriate tone"]
                assert len(asked) == 2
                assert "Your reply could not be used: finding 1: " in asked[1]


def test_a_part_without_a_usable_reply_is_a_failure_and_never_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    RUBRIC.to_file(tmp_path / "rubric.yaml")

    def reply(body: dict[str, Any]) -> Fault:
        return answer("I like it.") if about(body, 1) else answer([])

    with reviewer(reply).in_thread() as endpoint:
        words = ["review", str(tmp_path / "rubric.yaml"), "--reviewer", f"m@{endpoint.base_url}"]
        assert run([*words, "-o", str(tmp_path / "run")]) == 1
        assert endpoint.counts.requests == 2 + 3
    told = capsys.readouterr()
    assert told.out == ""
    assert "0 errors, 0 warnings, 0 notes; 1 part not reviewed" in told.err
    assert "criterion 1: unreadable: " in told.err
    assert "Not reviewed" in (tmp_path / "run" / "report.html").read_text()


def test_usable_findings_of_a_reply_are_kept_although_the_part_failed(tmp_path: Path) -> None:
    both = [finding(quote="nowhere"), finding(quote="Appropriate Tone")]
    with reviewer(lambda body: answer(both if about(body, 1) else [])).in_thread() as endpoint:
        found = review(RUBRIC, reviewer=f"m@{endpoint.base_url}", out=tmp_path / "run")
        assert endpoint.counts.requests == 2 + 3
    assert [one.quote for one in found.findings] == ["appropriate tone"]
    assert [one["part"] for one in found.failures] == ["criterion 1"]


def test_a_budget_is_never_exceeded_and_counts_earlier_sessions(tmp_path: Path) -> None:
    with reviewer(one_finding).in_thread() as endpoint:
        settings: dict[str, Any] = {"reviewer": f"m@{endpoint.base_url}", "out": tmp_path / "run", "concurrency": 1}
        nothing = review(RUBRIC, budget_tokens=100, **settings)
        assert endpoint.counts.requests == 0
        assert nothing.stopped
        assert {one["kind"] for one in nothing.failures} == {"budget"}
        assert review(RUBRIC, budget_tokens=10**6, **settings).stopped is None
        # Prices given later: 3 calls of 2,000 + 200 tokens at $1 and $10 a million.
        prices = tmp_path / "prices.json"
        prices.write_text(json.dumps({"m": {"input": 1.0, "output": 10.0}}))
        review(RUBRIC, prices=prices, **settings)
        assert json.loads((tmp_path / "run" / "spent.json").read_bytes())["cost"] == pytest.approx(3 * 0.004)
        assert endpoint.counts.requests == 3


def test_a_dry_run_sends_and_writes_nothing(tmp_path: Path) -> None:
    with reviewer(one_finding).in_thread() as endpoint:
        found = review(RUBRIC, reviewer=f"m@{endpoint.base_url}", out=tmp_path / "run", dry_run=True)
        assert endpoint.counts.requests == 0
    assert found.estimate is not None
    assert [(row.calls, row.recorded) for row in found.estimate] == [(3, 0)]
    assert not (tmp_path / "run").exists()


def test_another_rubric_in_the_directory_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    with reviewer(one_finding).in_thread() as endpoint:
        settings: dict[str, Any] = {"reviewer": f"m@{endpoint.base_url}", "out": tmp_path / "run"}
        review(RUBRIC, **settings)
        asked = endpoint.counts.requests
        with pytest.raises(InputError, match="contains another run"):
            review(RUBRIC, query="Why?", **settings)
        assert endpoint.counts.requests == asked
        with pytest.warns(UserWarning, match="replaced-1"):
            assert review(RUBRIC, query="Why?", replace=True, **settings).failures == []
        assert endpoint.counts.requests == asked + 3


def test_a_refused_key_is_wrong_input_and_leaves_no_directory(tmp_path: Path) -> None:
    with reviewer(lambda body: Fault("status", status=401)).in_thread() as endpoint, pytest.raises(InputError):
        review(RUBRIC, reviewer=f"m@{endpoint.base_url}", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_programs_get_json_and_sarif_alone_on_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    RUBRIC.to_file(tmp_path / "rubric.yaml")
    words = ["review", str(tmp_path / "rubric.yaml"), "--reviewer", "builtin/offline", "-o", str(tmp_path / "run")]
    assert run([*words, "--format", "json", "--fail-on", "warning"]) == 100
    [found] = json.loads(capsys.readouterr().out)
    assert (found["criterion"], found["quote"]) == ("Tone", "appropriate")
    assert run([*words, "--format", "sarif"]) == 0
    [log] = json.loads(capsys.readouterr().out)["runs"]
    [result] = log["results"]
    assert log["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "clear"
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("rubric.yaml")
    assert log["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]


def test_sarif_says_which_parts_were_not_reviewed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RUBRIC.to_file(tmp_path / "rubric.yaml")

    def reply(body: dict[str, Any]) -> Fault:
        return one_finding(body) if about(body, 1) else answer("?") if about(body, 3) else answer([])

    with reviewer(reply).in_thread() as endpoint:
        words = ["review", str(tmp_path / "rubric.yaml"), "--reviewer", f"m@{endpoint.base_url}"]
        assert run([*words, "-o", str(tmp_path / "run"), "--format", "sarif"]) == 1
    [log] = json.loads(capsys.readouterr().out)["runs"]
    [invocation] = log["invocations"]
    assert not invocation["executionSuccessful"]
    assert log["results"][0]["message"]["text"].endswith(" Proposed: Uses no slang.")
    [told] = invocation["toolExecutionNotifications"]
    assert told["level"] == "error" and told["message"]["text"].startswith("criterion 3: unreadable: ")


async def test_the_twin_works_inside_a_running_loop_and_reads_files(tmp_path: Path) -> None:
    RUBRIC.to_file(tmp_path / "rubric.yaml")
    found = await review_async(tmp_path / "rubric.yaml", reviewer="builtin/offline", out=tmp_path / "run")
    assert str(found) == "0 errors, 1 warning, 0 notes"


def test_the_query_adds_principles_and_reaches_the_model(tmp_path: Path) -> None:
    prompts: list[str] = []

    def reply(body: dict[str, Any]) -> Fault:
        prompts.append(prompt_of(body))
        return answer([])

    with reviewer(reply).in_thread() as endpoint:
        for number, query in enumerate(("", "Why did the strike begin?")):
            review(RUBRIC, query=query, reviewer=f"m@{endpoint.base_url}", out=tmp_path / str(number))
    alone, known = prompts[:3], prompts[3:]
    assert not any("- coverage: " in text for text in alone)
    assert sum("- coverage: " in text for text in known) == 1
    assert all("Why did the strike begin?" in text for text in known)

"""A sample of the shapes through the ways in that users take: a grader, and the command that makes rubrics."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, CriterionVerdict, Rubric
from autorubric.cli.app import run
from autorubric.graders import CriterionGrader
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.graders.rubric_judge import RubricJudge
from autorubric.llm.request import Reply
from autorubric.testing import LoopbackEndpoint, PromptSections, ScriptedModel, sized_replies
from tests.replies.roles import ROLES
from tests.replies.shapes import TEXTS, Sent, replies

RUBRIC = Rubric([Criterion(weight=1, requirement="Is kind"), Criterion(weight=3, requirement="Is brief")])


def sent(role: str) -> Sent:
    played = ROLES[role]
    entries = [played.entry(number, text) for number, text in enumerate(TEXTS if played.key else TEXTS[:1])]
    return Sent(entries, played.key, played.name, played.entry(1, "Or not?"))


# Role, shape, calls for the two criteria (a first request and two more for what cannot be read), and the score: None
# where the verdict is missing. One judge says MET twice; the judge of all says MET (1 point) and UNMET (3 points).
GRADED: list[tuple[str, str, int, float | None]] = [
    ("judge of one", "a fence with prose around", 2, 1.0),
    ("judge of one", "thinking with a draft", 2, 1.0),
    ("judge of one", "JSON in a string", 2, 1.0),
    ("judge of one", "a draft, then all", 6, None),
    ("judge of one", "an apology", 6, None),
    ("judge of one", "thinking that never ends", 6, None),
    ("judge of one", "a refusal in its field", 2, None),
    ("judge of all", "entries by name", 1, 0.25),
    ("judge of all", "one entry a line", 1, 0.25),
    ("judge of all", "two parts", 3, None),
    ("judge of all", "a table", 1, 0.25),
]


@pytest.mark.parametrize(("role", "shape", "calls", "score"), GRADED, ids=[f"{row[0]}, {row[1]}" for row in GRADED])
async def test_a_grader_reads_or_asks_again_and_never_guesses(
    role: str, shape: str, calls: int, score: float | None
) -> None:
    reply = replies(shape, sent(role))
    model = ScriptedModel({"judge": reply})
    judge = RubricJudge(model) if role == "judge of all" else CriterionJudge(model)
    report = await RUBRIC.grade("Hello.", CriterionGrader(judge=judge))
    assert (len(model.requests), report.score) == (calls, score)
    for found in report.report or []:
        (vote,) = found.votes
        assert (found.final_verdict is None) == vote.is_error == (score is None)
        assert (vote.error or "parse: ").startswith("parse: ")


async def test_what_a_judge_of_all_leaves_open_is_asked_about_alone() -> None:
    first = {
        "judgments": [ROLES["judge of all"].entry(0, "Kind."), {"criterion_id": "c1", "criterion_status": "partly"}]
    }
    second = {"judgments": [{"criterion_id": "c1", "explanation": "Brief.", "criterion_status": "满足"}]}
    model = ScriptedModel({"judge": [Reply(json.dumps(one)) for one in (first, second)]})
    report = await RUBRIC.grade("Hello.", CriterionGrader(judge=RubricJudge(model)))
    assert [found.final_verdict for found in report.report or []] == [CriterionVerdict.MET] * 2
    assert [len(PromptSections(request).criteria) for request in model.requests] == [2, 1]


# Shape of the first candidate rubric; how often it is requested; whether the row becomes a rubric.
SYNTHESIZED: list[tuple[str, int, bool]] = [
    ("a fence with prose around", 1, True),
    ("entries by name, bare", 1, True),
    ("each entry as JSON in a string", 1, True),
    ("one entry a line", 1, True),
    ("groups of entries", 3, False),
    ("two parts", 3, False),
    ("a bulleted list", 3, False),
    ("an apology", 3, False),
]


def test_synthesis_reads_or_asks_again_and_never_guesses(tmp_path: Path) -> None:
    good = sized_replies()

    def question(body: dict[str, Any]) -> str:
        return next(shape for shape, _, _ in SYNTHESIZED if f"Question {shape}." in body["messages"][1]["content"])

    def say(body: dict[str, Any]) -> Any:
        strange = body["model"] == "m-rubric-a"
        return replies(question(body), sent("rubrics_a")).text if strange else good(body)

    rows = ({"id": shape, "question": f"Question {shape}."} for shape, _, _ in SYNTHESIZED)
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["synthesize", str(tmp_path / "q.jsonl"), "--out", str(tmp_path / "out"), "--id-column", "id"]
    with LoopbackEndpoint(replier=say).in_thread() as endpoint:
        for slot in ("reference", "response-a", "response-b", "rubric-a", "rubric-b", "merge", "augment"):
            part, _, letter = slot.partition("-")
            name = f"--{part}-model-{letter}" if letter else f"--{part}-model"
            command += [name, f"m-{slot}", f"--{slot}-base-url", endpoint.base_url]
        assert run(command) == 1
    asked = Counter(question(one.body) for one in endpoint.received if one.body["model"] == "m-rubric-a")
    assert asked == {shape: calls for shape, calls, _ in SYNTHESIZED}
    drafts = {row["id"]: row for row in _rows(tmp_path / "out" / "step2_rubrics.jsonl")}
    for shape, _, finished in SYNTHESIZED:
        row = drafts[shape]
        assert [one["description"] for one in row["rubrics_a"]] == (list(TEXTS) if finished else []), shape
        assert finished or row["rubrics_a_error"].startswith("unreadable: "), shape
    finals = [row["id"] for row in _rows(tmp_path / "out" / "final.jsonl")]
    assert finals == [shape for shape, _, finished in SYNTHESIZED if finished]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

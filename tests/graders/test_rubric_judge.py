from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autorubric.core.criterion import Criterion, CriterionOption
from autorubric.core.judgment import CriterionVerdict, Judgment
from autorubric.core.rubric import Rubric
from autorubric.dataset.collection import RubricDataset
from autorubric.errors import ConfigError
from autorubric.graders.asking import JudgeOptions
from autorubric.graders.few_shot import FewShot, FewShotConfig
from autorubric.graders.judge import JudgeInput
from autorubric.graders.rubric_judge import RubricJudge
from autorubric.llm.executor import Executor
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Answer, Failure, Reply, Request, Unreadable
from autorubric.testing import ScriptedModel
from tests.offenders import each

MET, UNMET = CriterionVerdict.MET, CriterionVerdict.UNMET
OPTIONS = [CriterionOption(label="Flat", value=0), CriterionOption(label="Deep", value=1)]
CASE = JudgeInput(
    "Coal.",
    (
        Criterion(requirement="Names a cause"),
        Criterion(weight=-3, requirement="Invents a source"),
        Criterion(requirement="How deep?", options=OPTIONS),
    ),
)


def entry(key: str, **more: Any) -> dict[str, Any]:
    return {"criterion_id": key, "explanation": "So.", "criterion_status": None, "selected_option": None, **more}


def reply(*entries: Any) -> str:
    return json.dumps({"judgments": list(entries)})


WHOLE = [entry("c0", criterion_status="MET"), entry("c1", criterion_status="UNMET"), entry("c2", selected_option=1)]


def read(text: str) -> dict[int, Judgment]:
    found = RubricJudge(ScriptedModel({})).read(CASE, (0, 1, 2), Reply(text))
    assert isinstance(found, Answer), found
    return found.value


async def judged(script: Callable[[Request], Any] | list[Any]) -> tuple[list[Judgment], ScriptedModel]:
    model = ScriptedModel(script if callable(script) else {"judge": script}, price=(1.0, 1.0))
    with Ledger.in_memory() as ledger:
        judgments = await RubricJudge(model).judge(CASE, (0, 1, 2), Executor(ledger).ask_for)
    return judgments, model


async def test_one_call_judges_all_criteria() -> None:
    judgments, model = await judged([reply(*WHOLE)])
    assert len(model.requests) == 1
    assert [judgment.verdict for judgment in judgments[:2]] == [MET, UNMET]
    order = judgments[2].shuffle_order
    assert order is not None and judgments[2].option == order[0]
    # One reply, one bill.
    assert judgments[0].cost is not None and judgments[1].cost is judgments[2].cost is None


@each(
    ("entries", "failure"),
    [
        ([WHOLE[0], WHOLE[2]], "parse: the reply has no entry for criterion c1"),
        ([*WHOLE, WHOLE[1]], "parse: the reply has 2 entries for criterion c1"),
        (
            [WHOLE[0], entry("c1", criterion_status="partly"), WHOLE[2]],
            "parse: criterion_status is 'partly'; expected MET, UNMET or CANNOT_ASSESS",
        ),
        ([WHOLE[0], entry("c1", selected_option=1), WHOLE[2]], "parse: the reply holds no criterion_status"),
        ([WHOLE[0], "c1: MET", WHOLE[2]], "parse: the reply has no entry for criterion c1"),
        ([WHOLE[0], entry("c9", criterion_status="MET"), WHOLE[2]], "parse: the reply has no entry for criterion c1"),
    ],
)
def test_an_unusable_entry_fails_its_own_criterion_only(entries: list[Any], failure: str) -> None:
    found = read(reply(*entries))
    assert found[0].verdict is MET
    assert str(found[1].failure) == failure
    assert found[2].option is not None


# Of three criteria, the second a pitfall and the third with the options Flat and Deep: M, U, D and ? for none.
TEXTS = [
    ("### 1. Cause\nVerdict: MET\n\n### 2. Source\nVerdict: UNMET\n\n### 3. Depth\nSelected option: Deep", "MUD"),
    ("### c0: Cause\n**Verdict:** MET\n\n### c1: Source\n**Verdict:** UNMET\n\n### c2\nOption: Deep", "MUD"),
    ("## Criterion 1\n- Result: MET\n\n## Criterion 2\n- Result: UNMET\n\n## Criterion 3\n- GRADE: Deep", "MUD"),
    ("| Id | Verdict | Why |\n|---|---|---|\n| c0 | MET | Coal. |\n| c1 | ❌ UNMET | |\n| c2 | Deep | |", "MUD"),
    ("c0: MET - coal is named\nc1: UNMET (none is invented)\nc2: Deep", "MUD"),
    ("标准c0：满足\n标准c1：不满足\n标准c2：Deep", "MUD"),
    # A mark alone may also mean that a pitfall was avoided.
    ("c0: ✅\nc1: ✅\nc2: Deep", "M?D"),
    ("c0: MET\nc1: MET\nVerdict: UNMET\nc2: Deep", "M?D"),
    ("c0: MET - not really\nc1: MET, if one is lenient\nc2: Deep", "??D"),
    ("c0: MET - but only in part\nc1: MET (partially)\nc2: Deep", "??D"),
    ("c0: MET\nc1: none\n\nOverall verdict: UNMET\nc2: Deep", "M?D"),
    ("c0: MET: no\nc1: MET (1/2)\nc2: Deep", "??D"),
    ("| c0 | All is named, but it is only partly clear. | MET |\n| c1 | partly | MET |\n| c2 | Deep |", "M?D"),
    ("c0: partly, coal is named: MET\nc1: UNMET\nc2: Deep", "?UD"),
    ("c0: MET - all is named, but briefly\nc1: UNMET - the source exists. However, it is old.\nc2: Deep", "MUD"),
    ("c0: MET\nOverall: UNMET\nc1: MET (with doubts)\nc2: Deep\nOverall: MET", "??D"),
    ("# c0\nVerdict: MET\nI take that back.\n# c1\nVerdict: MET\nOn reflection, UNMET.\n# c2\nOption: Deep", "??D"),
    ("c0 and c1 are fine, but c2: MET", "???"),
    # Numbers that may count something else, and no names.
    ("1. Coal is named.\n2. Canals are named.\n3. All fits.\n\nVerdict: MET", "???"),
    ("### 2. Cause\nVerdict: MET\n### 1. Source\nVerdict: UNMET\n### 3. Depth\nOption: Deep", "???"),
    ("### Cause\nVerdict: MET\n### Source\nVerdict: UNMET\n### Depth\nOption: Deep", "???"),
]  # fmt: skip


@each(("text", "verdicts"), TEXTS)
def test_a_text_with_a_section_for_each_criterion_is_read(text: str, verdicts: str) -> None:
    found = RubricJudge(ScriptedModel({})).read(CASE, (0, 1, 2), Reply(text))
    entries = found.value.values() if isinstance(found, Answer) else ()
    shown = [(one.verdict.value[0] if one.verdict else "D" if one.option == 1 else "?") for one in entries]
    assert "".join(shown) == verdicts.replace("???", "")


def test_a_choice_out_of_range_fails_its_criterion() -> None:
    assert "expected a number from 1 to 3" in str(read(reply(*WHOLE[:2], entry("c2", selected_option=4)))[2].failure)


def test_entries_may_come_without_their_wrapper_in_any_order_and_with_odd_ids() -> None:
    found = read(
        json.dumps([WHOLE[2], {**WHOLE[1], "criterion_id": " C1: "}, {"id": 7, "criterion": "c0", "verdict": "MET"}])
    )
    assert [found[0].verdict, found[1].verdict] == [MET, UNMET]


@each(
    ("count", "text", "verdicts"),
    [
        (
            10,
            reply(
                *(
                    entry(f"criterion_{place}", criterion_status="MET" if place < 10 else "UNMET")
                    for place in range(1, 11)
                )
            ),
            "M" * 9 + "U",
        ),
        (2, '{"criterion_1": "MET", "criterion_2": "UNMET"}', "MU"),
        (1, '{"explanation": "None.", "criterion_status": "UNMET"}', "U"),
    ],
)
def test_criteria_may_be_numbered_and_the_only_one_may_have_no_id(count: int, text: str, verdicts: str) -> None:
    case = JudgeInput("Coal.", tuple(Criterion(requirement=f"Names cause {place}") for place in range(count)))
    found = RubricJudge(ScriptedModel({})).read(case, tuple(range(count)), Reply(text))
    assert isinstance(found, Answer)
    assert [one.verdict for one in found.value.values()] == [{"M": MET, "U": UNMET}[one] for one in verdicts]


@each(
    "text",
    ["", "All met.", "[]", '{"judgments": []}', reply(entry("c0", criterion_status="yes")), reply(entry("c7"))],
)
def test_a_reply_without_one_usable_entry_is_unreadable(text: str) -> None:
    assert isinstance(RubricJudge(ScriptedModel({})).read(CASE, (0, 1, 2), Reply(text)), Unreadable)


def test_a_reply_that_is_cut_off_holds_no_verdict_at_all() -> None:
    cut = Reply(reply(*WHOLE), finish_reason="length")
    assert isinstance(RubricJudge(ScriptedModel({})).read(CASE, (0, 1, 2), cut), Unreadable)


async def test_what_the_first_reply_left_open_is_asked_about_once_more() -> None:
    judgments, model = await judged([reply(WHOLE[0], WHOLE[2]), reply(WHOLE[1])])
    assert len(model.requests) == 2
    assert "Invents a source" in model.requests[1].messages[-1].content
    assert "Names a cause" not in model.requests[1].messages[-1].content
    assert judgments[1].verdict is UNMET
    # The second bill stands with the criterion that it was for.
    assert judgments[1].cost is not None


async def test_an_entry_that_is_missing_takes_one_more_call_whatever_comes() -> None:
    for again in ("?", "[]", reply(entry("c0", criterion_status="?")), reply(WHOLE[1]), reply(WHOLE[0])):
        model = ScriptedModel({"judge": [reply(*WHOLE[1:]), again, "?", "?"]}, price=(1.0, 1.0))
        with Ledger.in_memory() as ledger:
            judgments = await RubricJudge(model).judge(CASE, (0, 1, 2), Executor(ledger).ask_for)
            [total] = ledger.add_up()
        first = judgments[0]
        assert (total.calls, first.verdict, judgments[1].verdict) == (2, MET if '"MET"' in again else None, UNMET)
        # Both calls are on its bill.
        assert first.usage is not None and first.usage.prompt_tokens == total.usage.prompt_tokens, again


async def test_a_third_reply_is_not_asked_for() -> None:
    judgments, model = await judged([reply(WHOLE[0]), reply(WHOLE[1]), reply(WHOLE[2])])
    assert len(model.requests) == 2
    assert [judgment.verdict for judgment in judgments[:2]] == [MET, UNMET]
    assert str(judgments[2].failure) == "parse: the reply has no entry for criterion c2"


async def test_a_criterion_that_was_asked_about_twice_has_both_bills() -> None:
    model = ScriptedModel({"judge": [reply(*WHOLE[1:]), reply(WHOLE[0])]}, price=(1.0, 1.0))
    with Ledger.in_memory() as ledger:
        judgments = await RubricJudge(model).judge(CASE, (0, 1, 2), Executor(ledger).ask_for)
        [total] = ledger.add_up()
    usage = judgments[0].usage
    assert (judgments[0].verdict, judgments[1].usage, judgments[2].usage) == (MET, None, None)
    assert usage is not None and usage.prompt_tokens == total.usage.prompt_tokens > 0
    assert total.calls == 2
    assert judgments[0].cost == pytest.approx(total.cost)


def test_an_entry_for_a_criterion_that_was_not_asked_for_is_noted() -> None:
    found = RubricJudge(ScriptedModel({})).read(CASE, (0, 1, 2), Reply(reply(*WHOLE, entry("c9"))))
    assert isinstance(found, Answer)
    assert found.notes == ("an entry for 'c9' was left out: it was not asked for",)


def test_only_a_criterion_of_negative_weight_is_shown_as_a_fault() -> None:
    def shown(weight: float) -> str:
        case = JudgeInput("Coal.", (Criterion(weight=weight, requirement="Names a cause"),))
        return str(RubricJudge(ScriptedModel({})).build(case, (0,)).messages)

    assert shown(0.5) == shown(5) == shown(0)
    assert shown(-0.5) != shown(0.5)


async def test_what_stays_open_is_a_mistake_and_to_resume_asks_about_it_again(tmp_path: Path) -> None:
    lines = [reply(WHOLE[0], WHOLE[2]), reply(entry("c1", criterion_status="?")), "?", "?"]
    with Ledger.open(tmp_path) as ledger:
        judgments = await RubricJudge(ScriptedModel({"judge": lines})).judge(
            CASE, (0, 1, 2), Executor(ledger).ask_for
        )
        assert judgments[1].failure is not None
    with Ledger.open(tmp_path) as ledger:
        model = ScriptedModel({"judge": [reply(WHOLE[1])]})
        judgments = await RubricJudge(model).judge(CASE, (0, 1, 2), Executor(ledger).ask_for)
        assert [judgment.verdict for judgment in judgments] == [MET, UNMET, None]
        assert judgments[2].option is not None
        assert len(model.requests) == 1


async def test_a_failed_call_fails_all_criteria() -> None:
    judgments, _ = await judged([Failure("server", "503")])
    assert {str(judgment.failure) for judgment in judgments} == {"infrastructure: server: 503"}


def test_evidence_needs_a_call_a_criterion() -> None:
    with pytest.raises(ConfigError, match="evidence needs one call per criterion"):
        RubricJudge(ScriptedModel({}), options=JudgeOptions(evidence=True))


def test_whole_examples_are_shown_with_a_verdict_for_each_criterion() -> None:
    data = RubricDataset("Why?", Rubric(list(CASE.criteria)))
    data.add_item("Tea.", "", [UNMET, MET, "Flat"], ground_truth_reasons=["No cause.", None, None])
    options = JudgeOptions(few_shot=FewShot(data, FewShotConfig(include_reason=True)))
    judge = RubricJudge(ScriptedModel({}), options=options)
    request = judge.build(CASE, (0, 1, 2))
    text = request.messages[-1].content
    # Where "Flat" stands depends on the order shown.
    number = re.findall(r"^(\d)\. Flat$", text, re.MULTILINE)[0]
    assert f"Verdicts on example 1: c0 UNMET, c1 MET, c2 option {number}" in text
    assert "c0: No cause." in text
    assert text.index("Coal.") < text.index("Tea.") < text.index("The 3 criteria:")


def test_a_request_is_the_first_draw_and_asks_for_the_reply_as_json() -> None:
    request = RubricJudge(ScriptedModel({})).build(CASE, (0, 1, 2))
    assert (request.draw, request.constrained) == (0, True)
    assert request == RubricJudge(ScriptedModel({}), draw=0).build(CASE, (0, 1, 2))

"""The merge stage: sets in, one rubric out, and the fate of every criterion through every fold."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

from autorubric.llm.executor import Executor
from autorubric.llm.limits import Limit
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Answer, Failure, Reply, Request
from autorubric.prompts import package_prompts
from autorubric.synthesis.method import FullSettings
from autorubric.synthesis.rubric_merge import build_merge_stage, filter_drafts, read_merge
from autorubric.synthesis.stage_runner import StageRunner
from autorubric.synthesis.stages import StageOutcome
from autorubric.testing import PromptSections, ScriptedModel
from tests.offenders import each


def merges(request: Request) -> str:
    """Joins the first criteria of the sets it is given, drops what is called Off, and keeps the rest."""
    sets = [json.loads(text) for text in PromptSections(request).find_numbered("set")]
    firsts = [some[0] for some in sets]
    joined = {
        "sources": [one["id"] for one in firsts],
        **{k: firsts[0][k] for k in ("title", "description", "weight")},
    }
    others = [one for some in sets for one in some[1:]]
    kept = [one | {"sources": [one["id"]]} for one in others if one["title"] != "Off"]
    dropped = [{"id": one["id"], "reason": "off topic"} for one in others if one["title"] == "Off"]
    return json.dumps({"criteria": [joined, *kept], "dropped": dropped})


def items(prefix: str, count: int = 3) -> list[dict[str, Any]]:
    return [{"title": "T", "description": f"States {prefix}{n}.", "weight": n + 1} for n in range(count)]


def merged(row: dict[str, Any], settings: FullSettings | None = None, item: str = "q1", says: Any = merges) -> Any:
    settings = settings or FullSettings()
    names = {name: name.removeprefix("rubrics_") for name in row if name.startswith("rubrics_")}
    stage = build_merge_stage(package_prompts().merge_sets, names, settings)
    model = ScriptedModel(says)

    async def run() -> StageOutcome:
        with Ledger.in_memory() as ledger:
            return await StageRunner(Executor(ledger), {"merge": model})(stage, item, {"question": "Why?", **row})

    return asyncio.run(run()), model.requests, stage


def test_one_call_merges_all_sets_and_the_higher_weight_wins() -> None:
    rows = {f"rubrics_{x}": items(f"x{x}") for x in "abcd"}
    rows["rubrics_c"][0]["weight"] = 10
    found, asked, _ = merged(rows)
    assert isinstance(found, StageOutcome)
    assert len(asked) == 1
    first = found.value["criteria"][0]
    assert (first["weight"], first["parents"]) == (10, ["a1", "b1", "c1", "d1"])
    assert {fate["id"] for fate in found.value["fates"]} == {f"{x}{n}" for x in "abcd" for n in (1, 2, 3)}


@each("count", [2, 3, 5, 8, 14])
def test_a_fold_takes_one_call_less_than_sets_and_loses_nobody(count: int) -> None:
    letters = "abcdefghijklmn"[:count]
    rows = {f"rubrics_{x}": [i | {"title": "L" * 300} for i in items(f"x{x}")] for x in letters}
    found, asked, stage = merged(rows, FullSettings(merge_characters=1000))
    assert found.model == "scripted"
    assert len(asked) == count - 1
    assert len(stage.build({"question": "Why?", **rows}, {"merge": ScriptedModel(merges)})) == count - 1
    ids = {one["id"] for one in found.value["criteria"]}
    fates = found.value["fates"]
    assert [fate["id"] for fate in fates] == [f"{x}{n}" for x in letters for n in (1, 2, 3)]
    assert {fate["into"] for fate in fates} == ids
    # All first criteria end in one, however the fold was drawn.
    assert len({fate["into"] for fate in fates if fate["id"][1:] == "1"}) == 1
    # The n-th request makes the criteria `f<count + n>.…`; the last one is merged in the fewest rounds.
    depths = dict.fromkeys(letters, 0)
    for number, request in enumerate(asked):
        pair = [json.loads(text)[0]["id"] for text in PromptSections(request).find_numbered("set")]
        rounds = 1 + max(depths[one.split(".")[0] if "." in one else one[0]] for one in pair)
        depths[f"f{count + number}"] = rounds
    assert rounds == math.ceil(math.log2(count))


def test_the_fold_of_a_record_is_drawn_from_its_own_seed() -> None:
    rows = {f"rubrics_{x}": [i | {"title": "L" * 300} for i in items(f"x{x}")] for x in "abcdef"}
    settings = FullSettings(merge_characters=1000)

    def first_pair(item: str) -> list[str]:
        _, asked, _ = merged(rows, settings, item=item)
        return [json.loads(text)[0]["id"] for text in PromptSections(asked[0]).find_numbered("set")]

    assert first_pair("q1") == first_pair("q1")
    assert len({tuple(first_pair(f"q{n}")) for n in range(8)}) > 1


def test_what_the_model_drops_is_named_with_its_reason() -> None:
    rows = {
        "rubrics_a": [*items("a", 2), {"title": "Off", "description": "States z.", "weight": 3}],
        "rubrics_b": items("b"),
    }
    found, _, _ = merged(rows)
    fates = {fate["id"]: (fate["outcome"], fate["reason"]) for fate in found.value["fates"]}
    assert fates["a3"] == ("dropped", "off topic")


def test_a_single_set_stands_as_it_is_without_a_call() -> None:
    found, asked, _ = merged({"rubrics_a": items("a"), "rubrics_b": []})
    assert asked == []
    assert found.model == "passthrough"
    assert [one["parents"] for one in found.value["criteria"]] == [["a1"], ["a2"], ["a3"]]


def test_a_failed_call_is_the_failure_of_the_stage() -> None:
    found, _, _ = merged(
        {"rubrics_a": items("a"), "rubrics_b": items("b")}, says=lambda request: Failure("server", "down")
    )
    assert found.failure == Failure("server", "down")


def test_pitfalls_are_dropped_with_a_reason_where_they_are_off() -> None:
    row = {"rubrics_a": [{"title": "T", "description": "States it wrongly.", "weight": -3}]}
    sets, dropped = filter_drafts(row, {"rubrics_a": "a"}, FullSettings(pitfalls="off"))
    assert (sets, dropped[0].reason) == ([[]], "pitfalls are off")


def test_a_failed_call_of_a_fold_is_the_failure_of_the_stage() -> None:
    # Four sets are merged in two pairs, then the two results.
    rows = {f"rubrics_{x}": [i | {"title": "L" * 300} for i in items(f"x{x}")] for x in "abcd"}

    def fails_at(call: int) -> Any:
        asked = 0

        def says(request: Request) -> str | Failure:
            nonlocal asked
            asked += 1
            return Failure("server", "down") if asked == call else merges(request)

        return merged(rows, FullSettings(merge_characters=1000), says=says)

    for call, sent in ((1, 2), (2, 2), (3, 3)):
        found, asked, _ = fails_at(call)
        assert found == StageOutcome(failure=Failure("server", "down"))
        assert len(asked) == sent


def test_no_candidate_at_all_is_a_missing_input() -> None:
    found, asked, _ = merged({"rubrics_a": [], "rubrics_b": []})
    assert found == StageOutcome(failure=Failure("missing_input", "missing candidate rubrics"))
    assert asked == []


def test_a_merge_that_is_recorded_is_not_paid_again_as_a_fold() -> None:
    class Short(ScriptedModel):
        """Its replies hold 64 tokens, so a merge of all sets does not fit into one."""

        limit = Limit(64, ceiling=64)

    row = {"question": "Why?", **{f"rubrics_{x}": items(f"x{x}") for x in "abcd"}}
    stage = build_merge_stage(package_prompts().merge_sets, {f"rubrics_{x}": x for x in "abcd"}, FullSettings())

    async def run(*models: ScriptedModel) -> list[int]:
        with Ledger.in_memory() as ledger:
            for model in models:
                found = await StageRunner(Executor(ledger), {"merge": model})(stage, "q1", row)
                assert found.failure is None
        return [len(model.requests) for model in models]

    assert asyncio.run(run(Short(merges))) == [3]
    assert asyncio.run(run(ScriptedModel(merges), Short(merges))) == [1, 0]


@each(("weight", "sign"), [(5, 1), (0.5, 1), (0, 1), (-0.5, -1), (-5, -1), (None, 1)])
def test_of_a_merged_weight_only_the_sign_is_taken(weight: float | None, sign: int) -> None:
    found = read_merge(Reply(json.dumps({"criteria": [{"description": "Is brief.", "weight": weight}]})))
    assert isinstance(found, Answer)
    assert [one.weight for one in found.value.merged] == [sign]

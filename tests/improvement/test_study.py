"""The order of an improvement: what is recorded before what is asked, and what a later session can still change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from autorubric import Criterion, Rubric, RubricDataset
from autorubric.improvement.changed_wording import Wording, WordingOutcome
from autorubric.improvement.labelled import LabelledRubric, read_labelled
from autorubric.improvement.measures import Measure
from autorubric.improvement.refusals import LeakGuard
from autorubric.improvement.run_files import FileUseRecorder
from autorubric.improvement.samples import SampleSplit, UsedItems, split_items
from autorubric.improvement.search import Commission
from autorubric.improvement.study import Aims, Study
from autorubric.improvement.writing import Stopped
from autorubric.llm.request import Failure
from tests.improvement.essays import BETTER, answers, judge


@dataclass
class Judging:
    """The scripted judge without a network; it stops the run when it first sees an item of `closed`."""

    labelled: LabelledRubric
    closed: set[int] = field(default_factory=set)
    asked: list[int] = field(default_factory=list)

    async def judge(
        self, wording: Wording, items: Sequence[int], *, retest: bool = False
    ) -> dict[int, WordingOutcome]:
        self.asked += items
        if self.closed & set(items):
            raise Stopped(Failure("budget", "budget reached"))
        said = {item: judge(wording.requirements[0], self.labelled.dataset[item].submission) for item in items}
        return {item: WordingOutcome(int(one == "UNMET"), value=float(one == "MET")) for item, one in said.items()}


@dataclass
class Writing:
    texts: tuple[str, ...]
    commissions: list[Commission] = field(default_factory=list)

    async def write(self, commission: Commission) -> list[Wording]:
        self.commissions.append(commission)
        made = enumerate(self.texts, start=1)
        return [Wording(f"Tides/{commission.number}.{n}", 0, (text,), "reword", author="w") for n, text in made]


def scene(
    folder: Path, *texts: str, count: int = 240, measure: Measure = "agreement"
) -> tuple[Study, Judging, Writing]:
    data = answers(count)
    assert data.rubric is not None
    labelled = read_labelled(data.rubric, data, range(count))
    split = split_items(range(count), labelled.list_strata(), kind="three")
    judging, writing = Judging(labelled), Writing(texts)
    uses = FileUseRecorder(folder, "run", UsedItems(folder / "used.jsonl"), labelled.digests, "r")
    return (
        Study(labelled, split, judging, writing, LeakGuard(frozenset()), Aims(measure), uses=uses),
        judging,
        writing,
    )


def test_no_judge_sees_a_test_item_before_the_finalists_are_fixed(tmp_path: Path) -> None:
    study, judging, _ = scene(tmp_path, "Explains it.", BETTER)
    judging.closed = set(study.split.test)
    with pytest.raises((Stopped, ExceptionGroup)):
        asyncio.run(study.run())
    assert (tmp_path / "finalists.json").exists()
    uses = UsedItems(tmp_path / "used.jsonl").read()
    assert len(uses) == 240
    # A later session has another writer, and a judge that would now prefer another wording: the finalists stay.
    later, _, _ = scene(tmp_path, "Names the moon, and only that.")
    found = asyncio.run(later.run())
    assert [one.requirements for one in found.finalists.wordings] == [(BETTER,)]
    assert [one.requirements for one in found.accepted] == [(BETTER,)]


def test_a_run_that_cannot_begin_uses_no_label(tmp_path: Path) -> None:
    study, judging, _ = scene(tmp_path, BETTER)
    judging.closed = set(study.split.teach)
    with pytest.raises((Stopped, ExceptionGroup)):
        asyncio.run(study.run())
    assert not (tmp_path / "used.jsonl").exists()


def test_the_writer_sees_errors_of_the_teaching_set_alone(tmp_path: Path) -> None:
    study, _, writing = scene(tmp_path, "Explains it.", BETTER)
    asyncio.run(study.run())
    teach = set(study.split.teach)
    for commission in writing.commissions:
        shown = {case.item for case in (*commission.errors, *commission.right)}
        assert shown and shown <= teach
    for case in writing.commissions[0].errors:
        assert case.item % 5 in (1, 3)  # where the scripted judge errs
        assert case.label != case.verdict


def test_the_second_round_revises_the_best_wording_so_far(tmp_path: Path) -> None:
    study, judging, writing = scene(tmp_path, "Explains it.", "Explains it in depth.")

    async def half(wording: Wording, items: Sequence[int], *, retest: bool = False) -> dict[int, WordingOutcome]:
        found = await Judging(study.labelled).judge(wording, items)
        if "depth" in wording.requirements[0]:  # right on half of the items on which the original errs
            truth = study.labelled.truth
            found |= {item: WordingOutcome(int(truth[item, 0]), value=1.0) for item in items if item % 10 in (1, 3)}
        return found

    judging.judge = half  # type: ignore[method-assign]
    asyncio.run(study.run())
    second = writing.commissions[1]
    assert second.wording.requirements == ("Explains it in depth.",)
    assert second.failed == ["Explains it."]
    assert {case.item % 10 for case in second.errors} <= {6, 8}


@pytest.mark.parametrize("measure", ["agreement", "ac1", "score_error"])
def test_each_measure_accepts_the_better_wording_and_keeps_the_original_otherwise(
    tmp_path: Path, measure: Measure
) -> None:
    (tmp_path / "a").mkdir()
    study, _, _ = scene(tmp_path / "a", BETTER, "Explains it.", measure=measure)
    assert [one.requirements for one in asyncio.run(study.run()).accepted] == [(BETTER,)]
    (tmp_path / "b").mkdir()
    study, _, _ = scene(tmp_path / "b", "Explains it.", "Explains it in depth.", measure=measure)
    assert asyncio.run(study.run()).accepted == []


def test_ordered_options_are_compared_by_their_distance() -> None:
    options = [{"label": str(n), "value": n / 4} for n in range(5)]
    rubric = Rubric([Criterion(name="Depth", requirement="How deep?", options=options)])
    data = RubricDataset("Why?", rubric)
    for number in range(40):
        data.add_item(f"a {number}", "", [str(number % 5)])
    labelled = read_labelled(rubric, data, range(40))

    class Off:
        """Two options off under the original, one off under the other wording."""

        async def judge(
            self, wording: Wording, items: Sequence[int], *, retest: bool = False
        ) -> dict[int, WordingOutcome]:
            by = 2 if wording.kind == "original" else 1
            codes = {item: item % 5 + (by if item % 5 + by < 5 else -by) for item in items}
            return {item: WordingOutcome(code, value=code / 4) for item, code in codes.items()}

    study = Study(
        labelled,
        split_items(range(40), labelled.list_strata()),
        Off(),
        Writing(("How deep is it?",)),
        LeakGuard(frozenset()),
    )
    found = asyncio.run(study.run())
    [decision] = found.decisions.values()
    assert (decision.pairs.before, decision.pairs.after) == pytest.approx((0.5, 0.75))
    assert decision.accepted


def test_labels_that_are_missing_are_left_out_and_cost_nothing(tmp_path: Path) -> None:
    study, judging, _ = scene(tmp_path, BETTER)
    study.labelled.truth[::2, 0] = -1
    asyncio.run(study.run())
    found = [item for item in judging.asked if item % 2 == 0]
    # Kindness is labelled everywhere; the tides cost nothing where nobody labelled them.
    assert len(found) <= 2 * len([*study.split.teach, *study.split.choose])
    assert isinstance(study.split, SampleSplit)
    assert np.isfinite(study.labelled.target).all()

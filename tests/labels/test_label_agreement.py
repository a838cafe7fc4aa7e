"""Agreement with drawn labels: by simulation, and against `sampled_score`, which was written before it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import autorubric
from autorubric import Criterion, CriterionOption, DataItem, InputError, Rubric, RubricDataset
from autorubric.cli.app import run as run_command
from autorubric.core.judgment import CriterionVerdict
from autorubric.core.report import CriterionReport, EvaluationReport
from autorubric.labels import Ask, Event, History, LabelDraw, find_pair, label_queue, read_history
from autorubric.labels.drawing import KnownPair, draw_from_pairs
from autorubric.labels.event import Pair, PairFinder
from autorubric.labels.label_agreement import (
    LabelAgreement,
    compare_by_labels,
    correct_by_labels,
    label_agreement,
    projected_half_width,
)
from autorubric.labels.weights import weight_labels
from autorubric.metrics import CellLabel, sampled_score
from autorubric.metrics.arrays import Flags, Floats, Ints
from autorubric.metrics.jackknife import Draws
from autorubric.metrics.label_choice import read_pairs
from autorubric.metrics.reading_runs import read_table
from autorubric.metrics.table import Modes
from autorubric.runs.items_file import read_run
from tests.labels.runs import answers, graded, truth_and_verdicts
from tests.oracles import alpha, cohen_kappa_score
from tests.view.viewing import STORED

QUICK = Draws(200, seed=0)
FEW = Draws(20, seed=0)
"""Where no interval is looked at."""
CRITERIA = [
    Criterion(name=f"K{place}", weight=weight, requirement=f"Requirement {place}.")
    for place, weight in enumerate([10, 6, 3, 1, -4])
]


@dataclass
class Drawn:
    """A graded run in memory whose truth is known, and a store that is filled by draws."""

    truth: Flags
    judged: Flags

    def __post_init__(self) -> None:
        rubric, self.items = Rubric(CRITERIA), len(self.truth)
        items = [DataItem(f"text {n}", "", id=f"i{n}") for n in range(self.items)]
        self.dataset = RubricDataset("Why?", rubric, items)
        results = [
            SimpleNamespace(item_idx=n, report=self._report(row, rubric), error=None, item=items[n])
            for n, row in enumerate(self.judged)
        ]
        self.run = SimpleNamespace(item_results=results, grader_config=None)
        self.pairs = read_pairs(self.run, self.dataset)
        self.accuracy = float((self.truth == self.judged).mean())

    def _report(self, row: Flags, rubric: Rubric) -> EvaluationReport:
        verdicts = [CriterionVerdict.MET if met else CriterionVerdict.UNMET for met in row]
        entries = [
            CriterionReport(**criterion.model_dump(), verdict=verdict, reason="")
            for criterion, verdict in zip(CRITERIA, verdicts, strict=True)
        ]
        return EvaluationReport(score=RubricDataset("?", rubric).compute_weighted_score(verdicts), report=entries)

    @cached_property
    def named(self) -> list[list[Pair]]:
        """Every pair, by item and criterion."""
        return [[find_pair(self.dataset, n, place) for place in range(len(CRITERIA))] for n in range(self.items)]

    def word(self, item: int, place: int) -> str:
        return "MET" if self.truth[item, place] else "UNMET"

    def history(self, policies: str, batches: int, size: int, seed: int, last: int | None = None) -> History:
        """Batches that are drawn and labelled in turn; after the first, perhaps only `last` pairs of each.

        The policies take turns; `criterion` draws from the fourth criterion.
        """
        turns = policies.split()
        history, known, number = History(), dict[tuple[int, int], KnownPair](), 0
        for batch in range(batches):
            seen, policy = history.last, turns[batch % len(turns)]
            scope = "K3" if policy == "criterion" else None
            found = draw_from_pairs(self.pairs, Ask(policy, scope, size, seed), list(known.values()), batch)  # type: ignore[arg-type]
            for one in found.pairs:
                pair, number = self.named[one.item][one.criterion], number + 1
                draw = LabelDraw(batch, policy, scope, seed + batch, one.probability, found.open, seen)
                history.add(Event(number, 0.0, "draw", pair.item, pair.criterion, pair.digest, draw=draw))
                known[one.item, one.criterion] = KnownPair(one.item, one.criterion)
            labelled = found.pairs[:last] if batch else found.pairs
            for one in labelled:
                pair, number, word = self.named[one.item][one.criterion], number + 1, self.word(*one[:2])
                history.add(Event(number, 0.0, "label", pair.item, pair.criterion, pair.digest, "ana", word))
                known[one.item, one.criterion] = KnownPair(one.item, one.criterion, word)
        return history

    def measured(self, history: History, draws: Draws = QUICK) -> LabelAgreement:
        return label_agreement(self.run, self.dataset, history, draws=draws)

    def plain(self, history: History) -> float:
        """The accuracy on the labelled pairs without weights."""
        names = {f"i{n}": n for n in range(self.items)}
        right = [
            self.word(names[event.item], place) == ("MET" if self.judged[names[event.item], place] else "UNMET")
            for event in history.events
            if event.kind == "label" and (place := int(event.criterion[1:])) >= 0
        ]
        return float(np.mean(right))


def test_weighted_agreement_is_unbiased_where_plain_agreement_on_drawn_pairs_is_not() -> None:
    drawn = Drawn(*truth_and_verdicts(200, seed=5))
    plain, weighted, covered, scores = [], [], [], []
    pairs = drawn.pairs
    score = float((pairs.starts + pairs.sum_by_item(drawn.truth.ravel() * pairs.shares)).mean())
    for seed in range(25):
        history = drawn.history("uncertain", 4, 30, 1000 * seed)
        whole = drawn.measured(history)
        found = whole.judge.accuracy
        assert whole.mean_score is not None and whole.mean_score.interval is not None
        scores.append(whole.mean_score.interval.contains(score))
        assert found.value is not None and found.interval is not None
        plain.append(drawn.plain(history))
        weighted.append(found.value)
        covered.append(found.interval.contains(drawn.accuracy))
    error = np.std(weighted) / np.sqrt(len(weighted))
    assert abs(np.mean(weighted) - drawn.accuracy) < 3 * error
    assert np.mean(covered) >= 0.88
    assert np.mean(scores) >= 0.88
    bias = np.mean(plain) - drawn.accuracy
    assert abs(bias) > 4 * np.std(plain) / np.sqrt(len(plain))
    assert abs(bias) > 2 * abs(np.mean(weighted) - drawn.accuracy)


def test_batches_labelled_in_part_stand_for_all_pairs() -> None:
    drawn = Drawn(*truth_and_verdicts(120, seed=5))
    finder, agree = PairFinder(drawn.dataset), drawn.truth == drawn.judged
    totals, plain = [], []
    for seed in range(30):
        history = drawn.history("uncertain", 6, 30, 1000 * seed, last=8)
        found = weight_labels(history, finder, drawn.pairs)
        right = np.array([agree[pair.index, pair.place] for pair in found.labels])
        totals.append([found.weights.sum(), found.weights[right].sum()])
        plain.append(drawn.plain(history))
    # Labels that each count 1/probability have the sum over all pairs as their expectation.
    expected, allowed = np.array([agree.size, agree.sum()]), 3 * standard_error(totals)
    assert (abs(np.mean(totals, axis=0) - expected) < allowed).all()
    # The same without weights: the share of right pairs times all pairs is too low by more than that.
    assert expected[1] - np.mean(plain) * agree.size > allowed[1]


def standard_error(values: list[Any]) -> Floats:
    """Of the mean of each column."""
    found = np.asarray(values, float)
    error: Floats = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    return error


def test_batches_of_one_criterion_between_those_of_all_pairs_leave_it_unbiased() -> None:
    drawn = Drawn(*truth_and_verdicts(120, seed=8))
    found = [
        drawn.measured(
            drawn.history("criterion uncertain criterion", 5, 24, 1000 * seed, last=9), FEW
        ).judge.accuracy.value
        for seed in range(20)
    ]
    values = np.array(found, float)
    # Without weights the mean of these 20 is 10 standard errors too low.
    assert abs(values.mean() - drawn.accuracy) < 3 * values.std() / np.sqrt(20)


def test_two_runs_and_corrected_means_are_unbiased_on_drawn_labels() -> None:
    drawn = Drawn(*truth_and_verdicts(120, seed=11))
    other = Drawn(drawn.truth, drawn.truth ^ (np.random.default_rng(1).random(drawn.truth.shape) < 0.15))
    differences, means, covered = [], [], []
    for seed in range(20):
        history = drawn.history("uncertain", 3, 30, 1000 * seed)
        found = compare_by_labels((drawn.run, other.run), drawn.dataset, history, Modes(), QUICK)
        differences.append(found.accuracy.difference)
        corrected = correct_by_labels(drawn.run, drawn.dataset, history)
        means.append([corrected.criteria[f"K{place}"].ppi.value for place in range(5)])
        interval = corrected.criteria["K0"].ppi.interval
        assert interval is not None and corrected.weighted
        covered.append(interval.contains(drawn.truth[:, 0].mean()))
    values, expected = np.array(differences, float), drawn.accuracy - other.accuracy
    assert abs(values.mean() - expected) < 3 * values.std() / np.sqrt(20)
    rates = np.array(means, float)
    assert (abs(rates.mean(axis=0) - drawn.truth.mean(axis=0)) < 3.5 * rates.std(axis=0) / np.sqrt(20)).all()
    assert np.mean(covered) >= 0.85


def test_each_judge_of_a_panel_is_measured_against_the_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(STORED / "grade_panel" / "run", tmp_path / "panel")
    panel = tmp_path / "panel"
    dataset = RubricDataset.from_file(panel / "dataset.json")
    said = {}
    with label_queue(panel, Ask("random", size=200), second_share=0.0) as queue:
        while (task := queue.next("ana")) is not None:
            said[task.pair.index, task.pair.place] = task.choices[0]
            queue.label("ana", task.pair.index, task.pair.place, task.choices[0])
    labels = ("--labels", str(panel / "labels"))
    found = autorubric.label_agreement(panel, labels=panel / "labels")
    table = read_table(read_run(panel), dataset)
    assert len(found.by_judge) == len(table.judges) > 1
    for place, one in enumerate(found.by_judge):
        votes = {
            (int(table.items[row]), n): int(code)
            for n, row, code in zip(
                _places(table.points.row), table.points.row, table.points.votes[place], strict=True
            )
        }
        right = [votes[key] == 0 for key in said if votes[key] >= 0]
        assert (one.name, one.n) == (table.judges[place], len(right))
        assert one.accuracy.value == pytest.approx(np.mean(right))
    assert run_command(["agree", str(panel), *labels, "--by", "judge"]) == 0
    told = capsys.readouterr().out
    assert all(judge in told for judge in table.judges)
    assert "\naccuracy of the panel " in told and "\npanel and ana: accuracy " in told
    for mode in ("--corrected", "--against"):
        other = [str(panel)] if mode == "--against" else []
        assert run_command(["agree", str(panel), *labels, "--annotator", "ben", mode, *other]) == 2
        assert "annotator 'ben' has no labels; the annotators are ana" in capsys.readouterr().err
    assert run_command(["agree", str(panel), *labels, "--corrected"]) == 0
    assert "labels are weighted by the probabilities of the draw" in capsys.readouterr().out
    assert run_command(["agree", str(panel), *labels, "--against", str(panel)]) == 0
    assert "accuracy" in capsys.readouterr().out


def _places(rows: Ints) -> Ints:
    return np.arange(len(rows)) - np.searchsorted(rows, rows)


def test_one_judge_alone_has_no_table_by_judge(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    label(run, Ask("random", size=5), 5)
    assert run_command(["agree", str(run), "--by", "judge"]) == 2
    assert "needs a run with several judges" in capsys.readouterr().err


def test_the_mean_score_is_that_of_sampled_score() -> None:
    drawn = Drawn(*truth_and_verdicts(60, seed=7))
    # One batch gives the same number. Of three, the store weighs all labels at once, and `sampled_score` takes the
    # mean of the three corrections: the two differ by a small part of the interval.
    for batches, size, apart in ((1, 75, 1e-9), (3, 25, 0.05)):
        history = drawn.history("label_next", batches, size, 9)
        labels = []
        for event in history.draws.values():
            assert event.draw is not None
            item, place = int(event.item[1:]), int(event.criterion[1:])
            labels.append(CellLabel(item, place, drawn.word(item, place), event.draw.probability, event.draw.batch))
        expected = sampled_score(drawn.run, drawn.dataset, labels)
        found = drawn.measured(history).mean_score
        assert found is not None and found.value is not None
        assert found.interval is not None and expected.interval is not None
        assert abs(found.value - (expected.value or 0.0)) <= apart * expected.interval.width
        assert found.interval.width == pytest.approx(expected.interval.width, rel=0.2)


def test_a_census_gives_the_plain_metrics_whatever_the_probabilities() -> None:
    drawn = Drawn(*truth_and_verdicts(40, seed=8))
    history = drawn.history("label_next", 5, 40, 0)
    found = drawn.measured(history)
    assert found.judge.n == 200
    last = drawn.history("random", 1, 200, 0)
    whole = drawn.measured(last)
    assert whole.judge.accuracy.value == pytest.approx(drawn.accuracy)
    expected = [cohen_kappa_score(drawn.truth[:, place], drawn.judged[:, place]) for place in range(5)]
    assert [one.kappa.value for one in whole.criteria] == pytest.approx(expected)
    assert whole.judge.kappa.value == pytest.approx(cohen_kappa_score(drawn.truth.ravel(), drawn.judged.ravel()))
    assert whole.judge.mean_kappa.value == pytest.approx(np.mean(expected))


def test_the_projected_half_width_is_what_more_labels_bring() -> None:
    drawn = Drawn(*truth_and_verdicts(200, seed=9))
    projected, reached = [], []
    for seed in range(6):
        few = drawn.measured(drawn.history("random", 1, 60, seed)).judge
        many = drawn.measured(drawn.history("random", 1, 180, seed + 500)).judge
        assert many.accuracy.interval is not None
        projected.append(projected_half_width(few, 120))
        reached.append(many.accuracy.interval.width / 2)
    assert np.mean(projected) == pytest.approx(np.mean(reached), rel=0.15)
    with pytest.raises(InputError, match="more=-1"):
        projected_half_width(few, -1)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return graded(tmp_path / "run", 30)


def label(run: Path, ask: Ask, count: int, name: str = "ana", share: float = 0.0) -> None:
    with label_queue(run, ask, second_share=share) as queue:
        for _ in range(count):
            task = queue.next(name)
            assert task is not None
            verdict = "MET" if ("moon" in task.submission) == (task.pair.criterion == "Moon") else "UNMET"
            queue.label(name, task.pair.index, task.pair.place, verdict)


def test_labels_drawn_from_different_parts_wait_for_a_batch_from_all_pairs(run: Path) -> None:
    for criterion in ("Short", "Moon"):
        label(run, Ask("criterion", criterion, size=5), 5)
    with pytest.raises(
        InputError,
        match=r"different parts of the run \(batch 0 from criterion 'Short'; batch 1 from criterion 'Moon'\)",
    ):
        autorubric.label_agreement(run)
    label(run, Ask("random", size=5), 5)
    assert autorubric.label_agreement(run).judge.n == 15
    label(run, Ask("criterion", "Moon", size=5), 5)
    found = autorubric.label_agreement(run)
    assert found.judge.n == 15
    assert found.notes == ("5 labels do not count until the next batch from all pairs; no batch covers them yet",)


def test_labels_of_one_criterion_give_metrics_of_that_criterion(run: Path) -> None:
    label(run, Ask("criterion", "Moon", size=12), 12)
    found = autorubric.label_agreement(run)
    assert [one.name for one in found.criteria] == ["Moon"]
    assert found.mean_score is None
    assert "the metrics are for criterion 'Moon' only, from which all batches were drawn" in found.notes


@pytest.mark.filterwarnings("ignore:.*items.jsonl has changed since")
def test_labels_of_another_state_of_the_run_are_refused(run: Path) -> None:
    label(run, Ask("random", size=10), 10)
    lines = (run / "items.jsonl").read_text().splitlines(keepends=True)
    (run / "items.jsonl").write_text("".join(lines[:-3]))
    with pytest.raises(InputError, match="batch 0 was drawn from 60 open pairs, and 54 are open to it now"):
        autorubric.label_agreement(run)


def test_labels_before_a_draw_are_known_to_it_and_later_ones_wait(run: Path) -> None:
    with label_queue(run, Ask("random", size=10), second_share=0.0) as queue:
        queue.label("ana", 0, 0, "MET")  # before the first draw
        for _ in range(10):
            task = queue.next("ana")
            assert task is not None
            queue.label("ana", task.pair.index, task.pair.place, "MET")
        taken = {(draw.item, draw.criterion) for draw in queue.history.draws.values()} | {("q0", "Short")}
        free = next(n for n in range(30) if (f"q{n}", "Moon") not in taken)
        queue.label("ana", free, 1, "MET")  # after it
    found = autorubric.label_agreement(run)
    assert found.judge.n == 11
    assert found.notes == ("1 label does not count until the next batch from all pairs; no batch covers them yet",)


def test_undrawn_labels_are_not_weighted(run: Path) -> None:
    with label_queue(run) as queue:
        for item in range(6):
            queue.label("ana", item, 1, "MET")
    found = autorubric.label_agreement(run)
    assert (found.weighted, found.mean_score, found.judge.n) == (False, None, 6)
    # q0 and q3 do not mention the moon
    assert found.judge.accuracy.value == pytest.approx(4 / 6)


def test_annotators_against_one_another_the_judge_and_the_adjudication(run: Path) -> None:
    ana = ["MET", "MET", "UNMET", "UNMET", "MET", "CANNOT_ASSESS", "MET", "UNMET"]
    ben = ["MET", "UNMET", "UNMET", "MET", "MET", "CANNOT_ASSESS", "UNMET", "UNMET"]
    with label_queue(run) as queue:
        for name, verdicts in (("ana", ana), ("ben", ben)):
            for item, verdict in enumerate(verdicts):
                queue.label(name, item, 1, verdict)
        queue.adjudicate("cy", 1, 1, "MET")
        queue.adjudicate("cy", 3, 1, "UNMET")
    found = autorubric.label_agreement(run)
    codes = {"MET": 0, "UNMET": 1, "CANNOT_ASSESS": 2}
    table = [[codes[verdict] for verdict in said] for said in (ana, ben)]
    expected = alpha(reliability_data=table, level_of_measurement="nominal", value_domain=[0, 1, 2])
    among = found.annotators
    assert among.alpha == pytest.approx(expected)
    assert among.by_criterion == {"Moon": pytest.approx(expected)}
    [two] = among.by_two
    assert (two.n, two.agreement) == (8, 0.625)
    assert two.kappa == pytest.approx(cohen_kappa_score(ana, ben))
    assert (among.n, among.differing, among.labels) == (8, 3, {"ana": 8, "ben": 8})
    # The judge says MET but for items 0, 3 and 6; item 5 is left out, as its label abstains.
    judge = {"ana": 3, "ben": 2}
    assert {one.name: one.accuracy.value for one in found.by_annotator} == {
        name: pytest.approx(right / 7) for name, right in judge.items()
    }
    assert found.adjudicated is not None
    assert (found.adjudicated.n, found.adjudicated.accuracy.value) == (2, 1.0)
    assert any("annotators differ on 1 pair without adjudication" in note for note in found.notes)
    left = "1 of 8 labelled pairs left out: the judgment failed, or the judge or the label abstains (not applicable)"
    # The pair that is not decided has no majority.
    assert left.replace("8", "7") in found.notes and found.judge.n == 6
    assert any(note.startswith("annotators are tied on 1 of 1 pair without adjudication; ") for note in found.notes)
    of_ben = autorubric.label_agreement(run, annotator="ben")
    assert of_ben.judge.accuracy.value == pytest.approx(2 / 7)
    assert of_ben.notes == (left,)
    as_unmet = autorubric.label_agreement(run, cannot_assess="as_unmet")
    assert as_unmet.judge.n == 7


def test_agree_takes_whole_items_and_refuses_drawn_labels_where_it_cannot_weight_them(run: Path) -> None:
    with label_queue(run) as queue:
        for item in range(4):
            for place in range(2):
                queue.label("ana", item, place, "MET")
        queue.label("ana", 9, 0, "MET")
    with pytest.warns(UserWarning, match="1 of 5 labelled items have labels for some criteria only; left out"):
        assert autorubric.agree(run).n_items == 4
    label(run, Ask("label_next", size=5), 5)
    with pytest.raises(InputError, match="drawn with unequal probabilities, so unweighted metrics would be biased"):
        autorubric.agree(run)


def test_labels_of_one_run_measure_another_judge_on_the_same_items(run: Path, tmp_path: Path) -> None:
    label(run, Ask("random", size=30), 30)
    from autorubric.testing import LoopbackEndpoint

    with LoopbackEndpoint().in_thread() as endpoint:  # says MET to everything
        autorubric.grade(answers(30), judge=f"judge@{endpoint.url}", out=tmp_path / "other")
    with pytest.raises(InputError, match="labels in its label store are needed"):
        autorubric.label_agreement(tmp_path / "other")
    found = autorubric.label_agreement(tmp_path / "other", labels=run / "labels")
    met = [event.verdict == "MET" for event in read_history(run).events if event.kind == "label"]
    assert found.judge.accuracy.value == pytest.approx(np.mean(met))


@pytest.mark.filterwarnings("ignore:.*dataset.json has changed since")
def test_a_label_whose_pair_has_changed_is_named_and_not_counted(run: Path) -> None:
    with label_queue(run) as queue:
        for item in range(4):
            queue.label("ana", item, 1, "MET")
    text = (run / "dataset.json").read_text()
    assert text.count('moon 1"') == 1
    (run / "dataset.json").write_text(text.replace("Mentions the moon.", "Mentions the moon or the sun."))
    status = autorubric.label_status(run)
    assert (status.pairs, status.changed) == (0, 4)
    with label_queue(run) as queue:
        queue.label("ben", 5, 1, "MET")
    assert (autorubric.label_status(run).pairs, autorubric.label_status(run).changed) == (1, 4)


def test_corrected_means_tell_criteria_of_one_name_in_two_rubrics_apart(tmp_path: Path) -> None:
    shared = Rubric([Criterion(name="Short", weight=1.0, requirement="Contains at most 5 words.")])
    own = Rubric([Criterion(name="Short", weight=2.0, requirement="Contains at most 3 words.")])
    dataset = RubricDataset("Why are there tides?", shared)
    for number in range(9):
        dataset.add_item(f"Because of the moon {number}.", "", id=f"e{number}")
        if number < 3:
            dataset.items[number].rubric = own
    directory = tmp_path / "graded"
    run = autorubric.grade(dataset, judge="builtin/offline", out=directory)
    with label_queue(directory, Ask("random", size=9), second_share=0.0) as queue:
        while (task := queue.next("ana")) is not None:
            queue.label("ana", task.pair.index, task.pair.place, "MET")
    corrected = correct_by_labels(run, dataset, read_history(directory))
    assert {name: one.labelled for name, one in corrected.criteria.items()} == {
        "Short (Contains at most 5 words.)": 6,
        "Short (Contains at most 3 words.)": 3,
    }


def test_not_applicable_can_be_said_of_options_that_lack_it_and_counts_as_an_abstention(tmp_path: Path) -> None:
    options = [CriterionOption(label="bad", value=0.0), CriterionOption(label="good", value=1.0)]
    rubric = Rubric([Criterion(name="Tone", requirement="How kind is it?", options=options)])
    run = graded(tmp_path / "run", dataset=answers(5, rubric))
    tasks = []
    with label_queue(run, Ask("random", size=5)) as queue:
        while (task := queue.next("ana")) is not None:
            tasks.append(task)
            word = "cannot_assess" if len(tasks) <= 2 else "good"
            queue.label("ana", task.pair.index, task.pair.place, word)
    assert tasks[0].choices == ("bad", "good", "CANNOT_ASSESS")
    verdicts = {event.verdict for event in read_history(run).events if event.kind == "label"}
    assert verdicts == {"CANNOT_ASSESS", "good"}
    # An abstention is left out, as the published packages do; it is no category and no wrong label.
    assert autorubric.label_agreement(run).judge.n == 3
    assert autorubric.label_agreement(run, na="as_unmet").judge.n == 5
    # Ground truth has no such verdict, so these items stay without it.
    made = autorubric.export_labels(run, target=tmp_path / "labelled.json")
    assert sum(item.ground_truth is not None for item in RubricDataset.from_file(made).items) == 3


def test_annotators_of_ordered_options_have_the_kappa_of_the_judge_and_their_middle_label_counts(
    tmp_path: Path,
) -> None:
    options = [CriterionOption(label=str(n), value=n / 5) for n in range(1, 6)]
    rubric = Rubric([Criterion(name="Tone", requirement="How kind is it?", options=options)])
    run = graded(tmp_path / "run", dataset=answers(6, rubric))
    said = {"ana": [5, 1, 3, 2, 4, 5], "ben": [3, 2, 3, 5, 4, 1], "cy": [4, 5, 3, 1, 5, 2]}
    table = "".join(f"q{n},Tone,{label},{who}\n" for who, own in said.items() for n, label in enumerate(own))
    (tmp_path / "labels.csv").write_text(f"id,criterion,label,annotator\n{table}")
    of_majority = autorubric.agree(run, labels=[tmp_path / "labels.csv"], annotator="majority")
    autorubric.import_labels(run, files=[tmp_path / "labels.csv"])
    made = autorubric.export_labels(run, target=tmp_path / "labelled.json")
    # Four pairs have three labels each, of which no two are equal.
    truth = [item.ground_truth for item in RubricDataset.from_file(made).items]
    assert truth == [["4"], ["2"], ["3"], ["2"], ["4"], ["2"]]
    found = autorubric.label_agreement(run)
    for two in found.annotators.by_two:
        expected = cohen_kappa_score(said[two.a], said[two.b], labels=range(1, 6), weights="quadratic")
        assert two.kappa is None
        assert two.mean_kappa == pytest.approx(expected)
    assert found.judge.accuracy.value == of_majority.criterion_accuracy


def test_criteria_of_one_name_and_other_options_have_no_kappa_of_annotators(tmp_path: Path) -> None:
    dataset = RubricDataset("Why?", None, [])
    for n, labels in enumerate((["low", "high"], ["high", "low"]) * 2):
        options = [CriterionOption(label=label, value=value) for label, value in zip(labels, (0.0, 1.0), strict=True)]
        criterion = Criterion(name="Tone", requirement="How kind is it?", options=options)
        dataset.add_item(f"text {n}", "", id=f"q{n}", rubric=Rubric([criterion]))
    run = graded(tmp_path / "run", dataset=dataset)
    rows = [
        f"q{n},Tone,{label},{who}" for who in ("ana", "ben") for n, label in enumerate(["low", "low", "high", "high"])
    ]
    (tmp_path / "labels.csv").write_text("\n".join(["id,criterion,label,annotator", *rows, ""]))
    autorubric.import_labels(run, files=[tmp_path / "labels.csv"])
    among = autorubric.label_agreement(run).annotators
    [two] = among.by_two
    assert (two.n, two.agreement, two.mean_kappa, among.by_criterion) == (4, 1.0, None, {"Tone": None})


def test_a_mean_of_sums_is_not_called_like_the_mean_of_clamped_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def size(name: str, weight: float, **bound: int) -> Criterion:
        return Criterion(
            name=name, weight=weight, requirement=name, check={"name": "word_count", "parameters": bound}
        )

    # Texts of 1 to 12 words. With the pitfall, those of 9 and more words have (0 - 3) / 2 and 0 as their scores.
    criteria = [size("Short", 2, at_most=4), size("Wordy", -3, at_least=9)]
    for number, rubric in enumerate((Rubric(criteria), Rubric(criteria[:1]))):
        words = range(1, 13)
        dataset = RubricDataset("Why?", rubric, [DataItem("word " * n, "", id=f"t{n}") for n in words])
        run = graded(tmp_path / f"run{number}", dataset=dataset)
        sums = [(2 * (n <= 4) - 3 * (n >= 9) * (number == 0)) / 2 for n in words]
        scores = [min(max(one, 0.0), 1.0) for one in sums]
        assert autorubric.report(run, format="json").numbers["summary"]["scores"]["mean"] == pytest.approx(
            sum(scores) / 12
        )
        with label_queue(run, Ask("random", size=8, seed=1)) as queue:
            for _ in range(8):
                task = queue.next("ana")
                assert task is not None
                queue.label("ana", task.pair.index, task.pair.place, "MET")
        name = "mean score" if sums == scores else "mean score before clamping"
        capsys.readouterr()
        assert run_command(["agree", str(run), "--corrected", "--csv"]) == 0
        header, first, *_ = capsys.readouterr().out.splitlines()
        row = dict(zip(header.split(","), first.split(","), strict=True))
        assert row["metric"] == name
        assert float(row["as judged"]) == pytest.approx(sum(sums) / 12)
        assert run_command(["agree", str(run), "--corrected"]) == 0
        assert (f"the mean score of the run is {sum(scores) / 12:.3f}" in capsys.readouterr().out) == (sums != scores)
        assert run_command(["agree", str(run)]) == 0
        assert f"\n{name} " in capsys.readouterr().out

import json
import sqlite3
from dataclasses import asdict
from pathlib import Path

import pytest

from autorubric import Criterion, DataItem, InputError, Rubric, RubricDataset, grade
from autorubric.labels import STORE, Ask, Policy, Queue, label_queue, read_history
from autorubric.labels.drawing import draw_batch
from autorubric.testing import LoopbackEndpoint
from tests.labels.runs import answers, graded, with_options
from tests.offenders import each


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return graded(tmp_path / "run", 30)


def drain(queue: Queue, name: str, most: int = 1000) -> list[tuple[int, int]]:
    """Label all that the queue gives."""
    found: list[tuple[int, int]] = []
    while len(found) < most and (task := queue.next(name)) is not None:
        queue.label(name, task.pair.index, task.pair.place, "MET")
        found.append((task.pair.index, task.pair.place))
    return found


def test_every_pair_comes_once_and_then_nothing_is_left(run: Path) -> None:
    with label_queue(run, Ask(size=7), second_share=0.0) as queue:
        found = drain(queue, "ana")
        assert queue.next("ana") is None
        assert queue.progress("ana").labelled == 60
    assert sorted(found) == [(item, place) for item in range(30) for place in range(2)]
    history = read_history(run)
    assert [len(batch) for batch in history.batches.values()] == [7] * 8 + [4]


def test_the_draw_is_on_disk_before_its_first_pair_is_shown(run: Path) -> None:
    with label_queue(run, Ask(size=5, seed=3)) as queue:
        task = queue.next("ana")
        assert task is not None
        connection = sqlite3.connect(run / STORE)
        rows = connection.execute(
            "SELECT item, criterion, batch, policy, seed, probability, open FROM events WHERE kind = 'draw'"
        ).fetchall()
        connection.close()
    assert (task.pair.item, task.pair.criterion) in {row[:2] for row in rows}
    assert [row[2:5] for row in rows] == [(0, "label_next", "3")] * 5
    assert [row[6] for row in rows] == [60] * 5
    drawn = draw_batch(run, Ask(size=5, seed=3), [], 0)
    assert [(f"q{pair.item}", pair.probability) for pair in drawn.pairs] == [(row[0], row[5]) for row in rows]


def test_a_label_keeps_the_draw_of_its_pair(run: Path) -> None:
    with label_queue(run, Ask("random", size=6)) as queue:
        task = queue.next("ana")
        assert task is not None
        drawn = queue.label("ana", task.pair.index, task.pair.place, "MET").draw
        assert drawn is not None
        assert (drawn.batch, drawn.policy, drawn.probability) == (0, "random", 0.1)
        elsewhere = next(
            (item, place)
            for item in range(30)
            for place in range(2)
            if (f"q{item}", place) not in {(d.item, int(d.criterion == "Moon")) for d in queue.history.draws.values()}
        )
        assert queue.label("ana", *elsewhere, "MET").draw is None


def test_a_task_holds_nothing_that_judges_or_other_annotators_said(run: Path) -> None:
    reasons = [json.loads(line)["report"] for line in (run / "items.jsonl").read_text().splitlines()]
    words = {entry["final_reason"] for report in reasons for entry in report["criterion_reports"]}
    assert len(words) > 1
    with label_queue(run, Ask(size=60), second_share=1.0) as queue:
        first = queue.next("ana")
        assert first is not None
        queue.label("ana", first.pair.index, first.pair.place, "UNMET", note="ANA-SAID", quote="ANA-QUOTED")
        shown = []
        while (task := queue.next("ben")) is not None:
            assert not queue.may_show("ben", task.pair.index, task.pair.place)
            shown.append(asdict(task))
            queue.label("ben", task.pair.index, task.pair.place, "MET")
            assert queue.may_show("ben", task.pair.index, task.pair.place)
    assert len(shown) == 60
    assert set(shown[0]) == {"pair", "query", "submission", "reference", "requirement", "weight", "choices"}
    assert set(shown[0]["pair"]) == {"index", "place", "item", "criterion", "digest"}
    text = json.dumps(shown)
    assert not [word for word in (*words, "ANA", "probability", "0.5") if word in text]


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_a_share_of_pairs_goes_to_a_second_annotator(tmp_path: Path, share: float) -> None:
    run = graded(tmp_path / "run", 75)
    with label_queue(run, Ask("random", size=150), second_share=share) as queue:
        first = drain(queue, "ana")
        second = drain(queue, "ben")
        third = drain(queue, "cy")
    assert len(first) == 150
    assert set(second) <= set(first)
    assert third == []
    # 150 draws with 0.2: 30 expected, standard deviation 4.9
    assert {0.0: len(second) == 0, 0.2: 15 <= len(second) <= 45, 1.0: len(second) == 150}[share]


def test_the_second_annotators_pairs_are_the_same_in_another_session(run: Path) -> None:
    with label_queue(run, Ask(size=60)) as queue:
        drain(queue, "ana")
        some = drain(queue, "ben", most=3)
    with label_queue(run, Ask(size=60)) as queue:
        rest = drain(queue, "ben")
    with label_queue(run, Ask(size=60)) as queue:
        assert drain(queue, "ben") == []
    assert len(some) == 3
    assert not set(some) & set(rest)


def test_two_annotators_at_once_are_never_given_the_same_pair(run: Path) -> None:
    with label_queue(run, Ask(size=10), second_share=0.0) as queue:
        a, b = queue.next("ana"), queue.next("ben")
        assert a is not None and b is not None
        assert a.pair != b.pair
        assert queue.next("ana") == a  # who asks again keeps the pair
        queue.label("ana", a.pair.index, a.pair.place, "MET")
        c = queue.next("ana")
        assert c is not None
        assert c.pair not in (a.pair, b.pair)


def test_a_skipped_pair_is_recorded_and_goes_to_others(run: Path) -> None:
    with label_queue(run, Ask(size=60), second_share=0.0) as queue:
        task = queue.next("ana")
        assert task is not None
        queue.skip("ana", task.pair.index, task.pair.place, note="too long")
        assert (task.pair.index, task.pair.place) not in drain(queue, "ana")
        assert drain(queue, "ben") == [(task.pair.index, task.pair.place)]
        assert queue.progress("ana").skipped == 1
    kinds = [event.kind for event in read_history(run).events if event.kind != "draw"]
    assert (kinds[0], kinds.count("skip"), kinds.count("label")) == ("skip", 1, 60)


def test_undo_opens_the_last_pair_again_also_in_a_later_session(run: Path) -> None:
    with label_queue(run, Ask(size=5), second_share=0.0) as queue:
        assert queue.undo("ana") is None
        pairs = drain(queue, "ana", most=3)
    with label_queue(run, Ask(size=5), second_share=0.0) as queue:
        task = queue.undo("ana")
        assert task is not None
        assert (task.pair.index, task.pair.place) == pairs[-1]
        assert not queue.may_show("ana", *pairs[-1])
        again = queue.next("ana")
        assert again == task
        assert queue.undo("ben") is None
        before = queue.undo("ana")
        assert before is not None
        assert (before.pair.index, before.pair.place) == pairs[-2]
    events = [event for event in read_history(run).events if event.kind != "draw"]
    assert [event.kind for event in events] == ["label"] * 3 + ["undo"] * 2
    assert [event.supersedes for event in events[3:]] == [events[2].id, events[1].id]
    assert read_history(run).annotators() == {"ana": 1}


def test_pairs_that_were_undone_come_before_new_ones(run: Path) -> None:
    with label_queue(run, Ask(size=5), second_share=0.0) as queue:
        pairs = drain(queue, "ana", most=3)
        for _ in range(2):
            queue.undo("ana")
        first, second, third = drain(queue, "ana", most=3)
    assert [first, second] == pairs[1:]  # the last one that was undone comes first
    assert third not in pairs


def test_a_pair_counts_as_labelled_while_a_label_or_a_decision_stands(run: Path) -> None:
    with label_queue(run) as queue:
        for item in range(3):
            queue.label("ana", item, 0, "MET")
        queue.adjudicate("cy", 2, 0, "MET")
        for _ in range(2):  # the label of item 2, which the decision outlives, and that of item 1
            queue.undo("ana")
        assert [*queue.history.labelled()] == [queue.task(item, 0).pair.key for item in (0, 2)]


def test_adjudication_is_an_event_of_its_own_and_wins(run: Path) -> None:
    with label_queue(run) as queue:
        queue.label("ana", 0, 0, "MET")
        queue.label("ben", 0, 0, "UNMET", note="four words")
        queue.label("ana", 1, 0, "MET")
        queue.label("ben", 1, 0, "met")
        [dispute] = queue.disputes()
        assert (dispute.task.pair.index, [event.verdict for event in dispute.labels]) == (0, ["MET", "UNMET"])
        assert dispute.labels[1].note == "four words"
        key = dispute.task.pair.key
        assert queue.history.verdict(key) is None  # a tie
        queue.adjudicate("cy", 0, 0, "unmet", note="counted them")
        assert queue.history.verdict(key) == "UNMET"
        assert (queue.disputes(), queue.history.differing(decided=True)) == ([], [key])
        queue.label("ana", 0, 0, "MET")  # a later label does not overrule
        assert queue.history.verdict(key) == "UNMET"
        queue.undo("cy")
        assert len(queue.disputes()) == 1
        with pytest.raises(InputError, match="item q5, criterion 'Short' has no labels to adjudicate"):
            queue.adjudicate("cy", 5, 0, "MET")


@pytest.mark.parametrize(
    ("ask", "size"),
    [
        (Ask("uncertain", size=10), 10),
        (Ask("random", size=10), 10),
        (Ask("criterion", "Moon", size=50), 30),
        (Ask("disagreements", size=10), 0),
    ],
)
def test_policies_draw_from_what_they_name(run: Path, ask: Ask, size: int) -> None:
    batch = draw_batch(run, ask, [], 0)
    assert len(batch.pairs) == size
    if ask.policy == "criterion":
        assert {pair.criterion for pair in batch.pairs} == {1}
        assert {pair.probability for pair in batch.pairs} == {1.0}


def test_a_name_that_two_rubrics_use_draws_from_both_and_its_name_in_agree_from_one(tmp_path: Path) -> None:
    rubrics = [Rubric([Criterion(name="Right", requirement=f"Is {n}.")]) for n in range(2)]
    items = [DataItem(f"Text {n}.", "", id=f"q{n}", rubric=rubrics[n % 2]) for n in range(10)]
    run = graded(tmp_path / "run", 10, RubricDataset("Why?", None, items))
    names = ("Right", "Right (Is 1.)")
    drawn = {name: {pair.item for pair in draw_batch(run, Ask("criterion", name), [], 0).pairs} for name in names}
    assert drawn == {"Right": set(range(10)), "Right (Is 1.)": {1, 3, 5, 7, 9}}


def test_disagreements_are_pairs_on_which_judges_differ(tmp_path: Path) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:  # says MET to everything
        grade(answers(10), judge=["builtin/offline", f"judge@{endpoint.url}"], out=tmp_path / "run")
    reports = [json.loads(line) for line in (tmp_path / "run" / "items.jsonl").read_text().splitlines()]
    differ = {
        (report["item_idx"], place)
        for report in reports
        for place, entry in enumerate(report["report"]["criterion_reports"])
        if len({vote["verdict"] for vote in entry["votes"]}) > 1
    }
    drawn = draw_batch(tmp_path / "run", Ask("disagreements", size=100), [], 0)
    assert 0 < len(differ) < 20
    assert {(pair.item, pair.criterion) for pair in drawn.pairs} == differ


@each(
    ("made", "said"),
    [
        (lambda: Ask("best"), "policy='best' is not one of label_next, random"),  # type: ignore[arg-type]
        (lambda: Ask("criterion"), "needs criterion=NAME"),
        (lambda: Ask("random", "Moon"), "no other policy accepts one"),
        (lambda: Ask(size=0), "size=0; expected a whole number, 1 or more"),
        (lambda: Ask(seed=-1), "seed=-1; expected a whole number, 0 or more"),
    ],
)
def test_what_cannot_be_asked_is_refused(made: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        made()  # type: ignore[operator]


def test_an_unknown_criterion_is_refused_when_it_is_drawn_and_others_can_be_drawn_after(run: Path) -> None:
    with label_queue(run, Ask("criterion", "Sun")) as queue:
        with pytest.raises(InputError, match="no judged pair has a criterion named 'Sun'"):
            queue.next("ana")
        queue.ask = Ask("criterion", "Moon")
        task = queue.next("ana")
        assert task is not None
        assert task.pair.criterion == "Moon"


def test_options_are_choices(tmp_path: Path) -> None:
    run = graded(tmp_path / "run", dataset=answers(4, with_options()))
    with label_queue(run) as queue:
        task = queue.task(0, 2)
        assert task.choices == ("bad", "good", "none of it")
        assert queue.label("ana", 0, 2, "none of it").verdict == "none of it"
        with pytest.raises(InputError, match="'MET' is not one of bad, good, none of it"):
            queue.label("ana", 0, 2, "MET")


@pytest.mark.usefixtures("forked")
def test_a_large_run_is_drawn_in_a_child_process_alike(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policies: list[Policy] = ["label_next", "random"]
    here = [draw_batch(run, Ask(policy, size=9, seed=4), [], 2) for policy in policies]
    monkeypatch.setattr("autorubric.labels.drawing._LARGE", 0)
    assert [draw_batch(run, Ask(policy, size=9, seed=4), [], 2) for policy in policies] == here
    (run / "items.jsonl").write_text("")
    with pytest.raises(InputError, match=r"cannot draw pairs: .*no item has been graded"):
        draw_batch(run, Ask(), [], 0)


def test_criteria_with_the_same_words_are_pairs_of_their_own(tmp_path: Path) -> None:
    from autorubric import Criterion, Rubric

    twice = Rubric(
        [Criterion(name="A", requirement="Mentions the moon."), Criterion(name="B", requirement="Mentions the moon.")]
    )
    run = graded(tmp_path / "run", dataset=answers(3, twice))
    with label_queue(run, second_share=0.0) as queue:
        assert len(drain(queue, "ana", most=20)) == 6


def test_a_share_of_second_labels_is_a_share(run: Path) -> None:
    for share in (-0.1, 1.5):
        refused = pytest.raises(InputError, match=f"second_share={share}; expected a number from 0 to 1")
        with refused, label_queue(run, second_share=share):
            pass

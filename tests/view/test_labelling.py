"""Labelling over HTTP: blind until labelled, durable when answered, undone, disputed, adjudicated."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from autorubric.labels import Ask, label_queue, read_history
from autorubric.view.labelling import ACTIONS
from autorubric.view.page import PageRefusal
from tests.offenders import offenders
from tests.processes import wait_until
from tests.view.viewing import RUBRIC, Viewer, item, judged, line, viewing, vote, write_run
from tests.warm_commands import FRESH

CAUSE, BRIEF = RUBRIC
ITEMS = 12


def marked(n: int, name: str) -> dict[str, Any]:
    """A verdict whose every word of a judge can be searched for in answers."""
    reason = f"SECRET-{name}-{n}"
    votes = [vote("judge-SECRET", "MET" if n % 2 else "UNMET", reason), vote("other-SECRET", "MET", reason)]
    return judged(
        CAUSE if name == "cause" else BRIEF, "MET" if n % 2 else "UNMET", votes, reason=reason, confidence=0.5
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [line(n, 0.123456, [marked(n, "cause"), marked(n, "brief")], flags=["SECRET-flag"]) for n in range(ITEMS)]
    return write_run(tmp_path / "run", [item(n) for n in range(ITEMS)], lines)


@pytest.fixture
def view(folder: Path) -> Iterator[Viewer]:
    with viewing(
        folder, write_run(folder.with_name("same"), [item(0)], [line(0, 1.0, [marked(0, "cause")])])
    ) as viewer:
        yield viewer.indexed(0, 1)


def do(view: Viewer, action: str, annotator: str = "ana", **body: Any) -> Any:
    found = view.post(f"/r/0/label/{action}", {"annotator": annotator, **body})
    assert found.status == 200, found.text
    return found.json


def label(view: Viewer, task: dict[str, Any], verdict: str, annotator: str = "ana") -> Any:
    return do(view, "label", annotator, index=task["index"], place=task["place"], verdict=verdict, seconds=1.5)


def test_no_answer_holds_a_word_of_a_judge_while_labels_are_collected(view: Viewer) -> None:
    do(view, "open", policy="random", size=5)
    answers = [view.post("/r/0/label/next", {"annotator": "ana"}).text]
    pages = [f"items/{n}" for n in range(ITEMS)] + [f"items/{n}/calls" for n in range(ITEMS)]
    pages += [
        "",
        "items",
        "criteria",
        "criteria/0",
        "agreement",
        "compare",
        "compare?with=1",
        "live",
        "events",
        "label",
    ]
    pages += [
        "label?annotator=ana",
        "label/adjudicate?annotator=cy",
        "label/figures",
        "items?verdict=MET",
        "items?q=essay",
    ]
    paths = ["/", *(f"/r/{run}/{page}" for run in (0, 1) for page in pages)]
    answers += [
        view.page(f"{path}{'&' if '?' in path else '?'}format={form}").text
        for path in paths
        for form in ("html", "json", "csv")
    ]
    with offenders() as case:
        for answer in answers:
            with case(answer[:80]):
                assert "SECRET" not in answer
                assert "0.123" not in answer
    assert view.page("/r/0/items").status == 403
    # Another run on the same items is hidden too: its judge saw the same pairs.
    assert view.page("/r/1/items").status == 403
    do(view, "close")
    assert "SECRET" in view.page("/r/0/items/3").text
    assert view.page("/r/1/items").status == 200


def test_without_labels_in_the_dataset_the_agreement_leads_to_those_of_the_store(view: Viewer) -> None:
    assert 'href="/r/0/label/figures"' in view.page("/r/0/agreement").text


def test_a_task_holds_what_an_annotator_needs_and_no_more(view: Viewer) -> None:
    do(view, "open", policy="random", size=5)
    task = do(view, "next")["task"]
    assert set(task) == {
        "index", "place", "item", "criterion", "query", "submission", "reference", "requirement", "weight", "choices",
    }  # fmt: skip
    assert task["choices"] == ["MET", "UNMET", "CANNOT_ASSESS"]
    assert task["submission"] == f"Essay {task['index']}."


def test_labels_skips_and_undo_are_events_that_survive_a_kill(view: Viewer, folder: Path) -> None:
    do(view, "open", policy="random", size=8)
    first = do(view, "next")["task"]
    second = label(view, first, "MET")["task"]
    third = do(view, "skip", index=second["index"], place=second["place"])["task"]
    label(view, third, "UNMET")
    undone = do(view, "undo")
    assert undone["undone"] and (undone["task"]["index"], undone["task"]["place"]) == (third["index"], third["place"])
    assert undone["progress"]["labelled"] == 1 and undone["progress"]["skipped"] == 1
    view.process.send_signal(signal.SIGKILL)
    view.process.wait(timeout=600)
    history = read_history(folder)
    assert [event.kind for event in history.events if event.kind != "draw"] == ["label", "skip", "label", "undo"]
    assert history.annotators() == {"ana": 1}
    draws = [event for event in history.events if event.kind == "draw"]
    assert all(event.draw is not None and 0 < event.draw.probability <= 1 for event in draws)
    with viewing(folder) as other:
        wait_until(lambda: other.page("/r/0/label").status == 200, "the page Label is not shown")
        assert '<option value="random" selected>' in other.page("/r/0/label").text


def test_a_label_that_is_sent_again_is_stored_once(view: Viewer, folder: Path) -> None:
    do(view, "open", policy="random", size=8)
    first = do(view, "next")["task"]
    saved = label(view, first, "MET")
    again = label(view, first, "MET")
    assert (again["saved"], again["task"]) == (saved["saved"], saved["task"])
    assert label(view, first, "UNMET")["saved"] != saved["saved"]
    assert [event.verdict for event in read_history(folder).events if event.kind == "label"] == ["MET", "UNMET"]


def test_two_annotators_who_label_at_once_lose_no_label_and_share_the_pairs(view: Viewer, folder: Path) -> None:
    do(view, "open", policy="random", size=2 * ITEMS)

    def session(annotator: str, verdict: str) -> list[tuple[int, int]]:
        """All pairs that the queue gives one annotator, each labelled over a connection of its own."""
        said = []
        task = do(view, "next", annotator)["task"]
        while task is not None:
            assert "SECRET" not in json.dumps(task) and "verdict" not in task
            said.append((task["index"], task["place"]))
            task = label(view, task, verdict, annotator)["task"]
        return said

    with ThreadPoolExecutor(2) as both:
        ana, ben = both.submit(session, "ana", "MET"), both.submit(session, "ben", "UNMET")
        by_name = {"ana": ana.result(), "ben": ben.result()}
    stored = [event for event in read_history(folder).events if event.kind == "label"]
    # Each label that was answered is stored once, under the right name and verdict.
    for name, verdict in (("ana", "MET"), ("ben", "UNMET")):
        own = [event for event in stored if event.annotator == name]
        assert len(own) == len(by_name[name]) == len(set(by_name[name]))
        assert {event.verdict for event in own} == {verdict}
    assert {*by_name["ana"], *by_name["ben"]} == {(n, place) for n in range(ITEMS) for place in (0, 1)}
    assert by_name["ana"] and by_name["ben"]


def test_annotators_who_differ_are_adjudicated_without_the_judge(view: Viewer, folder: Path) -> None:
    do(view, "open", policy="random", size=24)
    task = do(view, "next")["task"]
    label(view, task, "MET", "ana")
    label(view, task, "UNMET", "bo")
    page = view.data("/r/0/label/adjudicate?annotator=cy")
    assert page["count"] == 1
    assert [(one["annotator"], one["verdict"]) for one in page["disputes"][0]["labels"]] == [
        ("ana", "MET"),
        ("bo", "UNMET"),
    ]
    assert "SECRET" not in view.page("/r/0/label/adjudicate?annotator=cy").text
    do(view, "adjudicate", "cy", index=task["index"], place=task["place"], verdict="UNMET")
    assert view.data("/r/0/label/adjudicate?annotator=cy")["count"] == 0
    pair = {"index": task["index"], "place": task["place"]}
    late = view.post("/r/0/label/adjudicate", {"annotator": "dee", **pair, "verdict": "MET"})
    assert (late.status, late.json["problem"]) == (409, "cy has decided this pair already: UNMET; reload the page")
    history = read_history(folder)
    (key,) = history.differing(decided=True)
    assert history.verdict(key) == "UNMET"


def test_of_annotators_who_decide_a_pair_at_the_same_time_one_is_stored(folder: Path) -> None:
    start, interval = Barrier(8), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads change places between a check and what follows it
    try:
        with label_queue(folder, Ask("random", None, 24)) as queue, ThreadPoolExecutor(8) as all_at_once:

            def decide(number: int) -> bool:
                start.wait()
                try:
                    return bool(ACTIONS["adjudicate"](queue, f"annotator {number}", pair)["saved"])
                except PageRefusal:
                    return False

            for _ in range(12):
                task = queue.next("ana")
                assert task is not None
                pair = {"index": task.pair.index, "place": task.pair.place, "verdict": "UNMET"}
                queue.label("ana", task.pair.index, task.pair.place, "MET")
                assert sum(all_at_once.map(decide, range(8))) == 1
    finally:
        sys.setswitchinterval(interval)


def test_the_figures_of_labels_say_what_more_labels_bring(folder: Path) -> None:
    with viewing(folder, variables=FRESH) as viewer:
        view = viewer.indexed(0)
        assert "label" in view.data("/r/0/label/figures")["problem"]
        do(view, "open", policy="random", size=24)
        task = do(view, "next")["task"]
        for _ in range(12):
            task = label(view, task, "MET")["task"]
        found = view.data("/r/0/label/figures")
        assert found["problem"] == ""
        assert found["judge"]["n"] == 12
        assert 0 < found["half_width_then"] < 0.5


def test_what_cannot_be_stored_is_refused_and_stores_nothing(view: Viewer, folder: Path) -> None:
    closed = view.post("/r/0/label/next", {"annotator": "ana"})
    assert closed.status == 409
    with offenders() as case:
        for name in ("", "x" * 4096, "../", 7):
            with case(repr(name)[:20]):
                assert view.post("/r/0/label/open", {"annotator": name, "policy": "random"}).status == 400
    do(view, "open", policy="random", size=5)
    task = do(view, "next")["task"]
    before = len(read_history(folder).events)
    pair = {"annotator": "ana", "index": task["index"], "place": task["place"], "verdict": "MET"}
    bad: list[Any] = [
        *({**pair, "annotator": name} for name in ("", " ", "x" * 4096, "../", "a/b", "\x00", 7, None)),
        *({**pair, "verdict": verdict} for verdict in ("", "maybe", "MET; DROP TABLE", 1, None)),
        *({**pair, "index": index} for index in (-1, ITEMS, 10**12, "0", 0.5, True, None)),
        {**pair, "place": 99}, {**pair, "note": "x" * 30_000}, {**pair, "seconds": -1}, {**pair, "seconds": "soon"},
        [], "text", b"{", b"", b"\xff", b"[" * 100_000,
    ]  # fmt: skip
    with offenders() as case:
        for body in bad:
            with case(repr(body)[:80]):
                assert view.post("/r/0/label/label", body).status == 400
    assert view.post("/r/0/label/label", b" " * (1 << 21)).status == 413
    assert view.post("/r/0/label/steal", pair).status == 404
    assert view.post("/r/9/label/label", pair).status == 404
    assert len(read_history(folder).events) == before


def test_a_run_on_the_same_submissions_with_other_labels_is_hidden_and_others_are_not(tmp_path: Path) -> None:
    lines = [line(0, 1.0, [marked(0, "cause"), marked(0, "brief")])]
    bare = {key: value for key, value in item(0).items() if key != "ground_truth"}
    runs = [
        write_run(tmp_path / "one", [bare], lines),
        write_run(tmp_path / "labelled", [bare | {"ground_truth": ["MET", "UNMET"]}], lines),
        write_run(tmp_path / "others", [bare | {"submission": "Of something else."}], lines),
    ]
    for run in runs:
        path = run / "manifest.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"dataset_hash": run.name}))
    with viewing(*runs) as viewer:
        view = viewer.indexed(*range(len(runs)))
        do(view, "open", policy="random", size=5)
        assert [view.page(f"/r/{n}/").status for n in range(len(runs))] == [403, 403, 200]


def test_a_second_annotator_gets_the_share_of_pairs_that_the_form_asks_for(view: Viewer) -> None:
    def labelled(annotator: str, most: int = 30) -> set[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        while len(found) < most and (task := do(view, "next", annotator)["task"]) is not None:
            label(view, task, "MET", annotator)
            found.add((task["index"], task["place"]))
        return found

    do(view, "open", policy="random", size=6, second_percent=100)
    first = labelled("ana", 6)
    assert labelled("ben", 6) == first
    assert view.post("/r/0/label/open", {"annotator": "ana", "second_percent": 101}).status == 400


def test_a_queue_without_pairs_is_refused_and_the_page_says_that_ground_truth_is_why(tmp_path: Path) -> None:
    lines = [line(n, 0.5, [marked(n, "cause"), marked(n, "brief")]) for n in range(4)]
    truths = [item(0, "MET", "MET"), item(1, "UNMET", "MET"), item(2), item(3)]
    runs = [write_run(tmp_path / "some", truths, lines), write_run(tmp_path / "all", truths[:2], lines[:2])]
    told = "graded items have <code>ground_truth</code> in the dataset, so their pairs are not drawn"
    with viewing(*runs) as viewer, offenders() as case:
        viewer.indexed(0, 1)
        for run, count, left in ((0, "2 of 4", True), (1, "2 of 2", False)):
            with case(str(run)):
                assert viewer.page(f"/r/{run}/label").text.count(f"{count} {told}") == 1
                for policy in ("criterion", "random"):  # no criterion has this name; all criteria were asked for
                    wrong = viewer.post(f"/r/{run}/label/open", {"policy": policy, "criterion": "X"})
                    assert (wrong.status, viewer.page(f"/r/{run}/").status) == (400, 200)
                differ = viewer.post(f"/r/{run}/label/open", {"policy": "disagreements"})
                assert left or "has judges that differ" in differ.json["problem"]
                assert not left or viewer.post(f"/r/{run}/label/close", {}).status == 200
                opened = viewer.post(f"/r/{run}/label/open", {})
                assert opened.status == (200 if left else 400)
                assert left or opened.json["problem"].startswith(
                    "there are no pairs to label: each pair has ground_truth"
                )
                assert viewer.page(f"/r/{run}/").status == (403 if left else 200)
                if left:
                    assert viewer.post(f"/r/{run}/label/next", {"annotator": "ana"}).json["task"]
                    assert viewer.page(f"/r/{run}/label?annotator=ana").text.count(f"{count} {told}") == 1
                    assert viewer.post(f"/r/{run}/label/close", {}).status == 200


def test_the_pages_stay_closed_over_a_restart_until_labelling_is_ended(folder: Path) -> None:
    same = write_run(folder.with_name("same"), [item(0)], [line(0, 1.0, [marked(0, "cause")])])

    def statuses(view: Viewer) -> list[int]:
        return [view.page(path).status for path in ("/r/0/items", "/r/0/items/3", "/r/0/agreement", "/r/1/items")]

    with viewing(folder, same) as view:
        do(view, "open", policy="random", size=5)
        label(view, do(view, "next")["task"], "MET")
        view.process.send_signal(signal.SIGKILL)
        view.process.wait(timeout=600)
    with viewing(folder, same) as view:
        assert statuses(view) == [403] * 4
        wait_until(lambda: view.page("/r/0/label").status == 200, "the page Label is not shown")
        assert "Labelling was not ended" in view.page("/r/0/label").text
        # A child that the killed process had just forked holds the lock until it runs its own program.
        opening = {"policy": "random", "size": 5}
        wait_until(lambda: view.post("/r/0/label/open", opening).status == 200, "the labels stay locked")
        assert "Labelling was not ended" not in view.page("/r/0/label").text
    with viewing(folder, same) as view:
        do(view, "close")
        assert statuses(view.indexed(0, 1)) == [200] * 4
    with viewing(folder, same) as view:  # its labels are there; nothing is open
        assert statuses(view.indexed(0, 1)) == [200] * 4

"""Every page over HTTP: what it shows against hand counts, other implementations, and the run's own records."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from html import escape, unescape
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from autorubric import Criterion, Rubric, drift, grade, report, status
from autorubric.rows.record import as_text
from autorubric.testing import LoopbackEndpoint
from autorubric.training.evolution.versions import VERSIONS_FILE, Change, RubricVersion, VersionLog
from autorubric.training.observations import count_rewards
from autorubric.training.rewarder import Sample, make_rewarder, rewards_now
from autorubric.view import figures
from autorubric.view.sources import open_sources
from tests.offenders import offenders
from tests.oracles import cohen_kappa_score, proportion_confint
from tests.processes import wait_until
from tests.view.viewing import RUBRIC, STORED, Viewer, item, judged, line, viewing, vote, write_run

CAUSE, BRIEF = RUBRIC
# 120 items: scores 0 to 1 in steps that repeat, so that keyset pages have ties to get through.
SCORES = [(7 * n % 11) / 10 for n in range(120)]
JUDGED = ["MET" if n % 3 else "UNMET" for n in range(120)]
LABELS = ["MET" if n % 5 else "UNMET" for n in range(120)]


def many(folder: Path) -> Path:
    items = [
        item(n, LABELS[n], "MET", submission=f"Essay {n}. {'Moon' if n % 40 == 0 else 'Tide'}") for n in range(120)
    ]
    lines = [
        line(
            n,
            SCORES[n],
            [
                judged(CAUSE, JUDGED[n], [vote("a", JUDGED[n]), vote("b", "MET")]),
                judged(
                    BRIEF,
                    "MET",
                    [vote("a", "MET", "quite \u202eshort"), vote("b", "MET")],
                    quotes=[{"text": "Essay", "start": 0, "end": 5}],
                ),
            ],
        )
        for n in range(120)
    ]
    return write_run(folder, items, lines)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("grade", "grade_panel", "select", "serve", "synthesize_full", "synthesize_basic"):
        shutil.copytree(STORED / name / "run", folder / name)
    return [many(folder / "many"), *sorted(path for path in folder.iterdir() if path.name != "many")]


@pytest.fixture(scope="module")
def view(runs: list[Path]) -> Iterator[Viewer]:
    with viewing(*runs) as viewer:
        yield viewer.indexed(0, *(number for number, run in enumerate(runs) if (run / "items.jsonl").exists()))


def number_of(runs: list[Path], name: str) -> int:
    return [run.name for run in runs].index(name)


def test_criteria_of_several_rubrics_with_one_name_lead_to_their_own_pages(tmp_path: Path) -> None:
    owns = [{"name": "Correct", "weight": 1.0, "requirement": f"Answers {n}."} for n in range(3)]
    lines = [line(n, 1.0, [judged(owns[n], "MET")]) for n in range(3)]
    write_run(tmp_path / "run", [item(n, rubric=[owns[n]]) for n in range(3)], lines, rubric=None)
    with viewing(tmp_path / "run") as view:
        view.indexed()
        for n in range(3):
            [shown] = view.data(f"/r/0/items/{n}")["criteria"]
            assert view.data(f"/r/0/criteria/{shown['criterion']}")["requirement"] == f"Answers {n}."


def test_each_page_is_there_in_each_form(view: Viewer, runs: list[Path]) -> None:
    number = {run.name: place for place, run in enumerate(runs)}
    paths = ["/"]
    paths += [f"/r/{place}/" for place in range(len(runs))]
    graded = (
        "",
        "items",
        "items/0",
        "items/0/calls?focus=1",
        "criteria",
        "criteria/0",
        "agreement",
        "compare",
        "live",
        "label",
    )
    paths += [f"/r/{number[name]}/{page}" for name in ("many", "grade", "grade_panel", "select") for page in graded]
    paths += [f"/r/{number['select']}/best-of-k", f"/r/{number['serve']}/drift"]
    paths += [
        f"/r/{number[name]}/rubrics{page}" for name in ("synthesize_full", "synthesize_basic") for page in ("", "/0")
    ]
    with offenders() as case:
        for path in paths:
            with case(path):
                html = view.page(path)
                assert html.status == 200, html.text[-400:]
                assert html.headers["content-type"] == "text/html; charset=utf-8"
                assert len(html.text.encode()) <= 100_000
                assert html.text.count("<h1>") == 1
                texts = re.findall('<div class="text"[^>]*>', html.text)  # they scroll, also by keys
                assert all('tabindex="0" role="group" aria-label="' in one for one in texts)
                assert "<script>" not in html.text and " style=" not in html.text and " onclick=" not in html.text
                mark = "&" if "?" in path else "?"
                assert view.page(f"{path}{mark}format=json").json["title"]
                table = view.page(f"{path}{mark}format=csv")
                assert (table.status, table.headers["content-type"]) == (200, "text/csv; charset=utf-8")
                cells = [cell for row in csv.reader(io.StringIO(table.text), strict=True) for cell in row]
                assert [cell for cell in cells if re.match(r"[(\[{]['\d.-]", cell)] == []  # no value of Python


def walked(view: Viewer, query: str) -> list[int]:
    """The items of a list, page by page."""
    found: list[int] = []
    after = ""
    while True:
        data = view.data(f"/r/0/items?{query}{after}")
        found += [row["item"] for row in data["items"]]
        if data["next"] is None:
            return found
        after = f"&after={data['next']}"


def test_a_run_that_graded_nothing_has_no_pages_of_items(view: Viewer, runs: list[Path]) -> None:
    number = number_of(runs, "synthesize_full")
    for page in ("items", "items/0", "criteria", "agreement"):
        found = view.page(f"/r/{number}/{page}")
        assert (found.status, "has no graded items" in found.text) == (404, True)


def test_the_list_of_runs_says_when_each_was_written(view: Viewer, runs: list[Path]) -> None:
    rows = re.findall("<tr>.*?</tr>", view.page("/").text, re.DOTALL)[1:]
    found = dict(zip([run.name for run in runs], rows, strict=True))
    assert ">2026-11-22 17:13</td>" in found["grade"] and ">–</td>" in found["many"]


def test_pages_by_keyset_show_each_item_once_in_order(view: Viewer) -> None:
    worst = sorted(range(120), key=lambda n: (SCORES[n], n))
    assert walked(view, "sort=place") == list(range(120))
    assert walked(view, "sort=worst") == worst
    assert walked(view, "sort=best") == sorted(range(120), key=lambda n: (-SCORES[n], n))
    # Judge b says MET everywhere: on Cause half of the votes differ where the verdict is UNMET.
    doubt = [0.25 if JUDGED[n] == "UNMET" else 0.0 for n in range(120)]
    assert walked(view, "sort=doubt") == sorted(range(120), key=lambda n: (-doubt[n], n))


def test_a_table_in_csv_has_the_rows_of_all_its_pages(view: Viewer) -> None:
    second = view.page("/r/0/items?sort=worst&min=0.3&after=0.5,70").text
    [link] = re.findall('<a href="([^"]*)">CSV</a>', second)
    found = csv.DictReader(io.StringIO(view.page(f"/r/0/items{unescape(link)}").text))
    worst = sorted((n for n in range(120) if SCORES[n] >= 0.3), key=lambda n: (SCORES[n], n))
    assert [int(row["item"]) for row in found] == worst and len(worst) > 50


def test_filters_find_the_items_that_they_name(view: Viewer) -> None:
    disputed = [n for n in range(120) if JUDGED[n] == "UNMET"]
    expected = {
        "disputed=1": disputed,
        "differs=1": [n for n in range(120) if JUDGED[n] != LABELS[n]],
        "failed=1": [],
        "min=0.95": [n for n in range(120) if SCORES[n] >= 0.95],
        "min=0.3&max=0.5": [n for n in range(120) if 0.3 <= SCORES[n] <= 0.5],
        "criterion=0&verdict=UNMET": disputed,
        "criterion=1&verdict=UNMET": [],
        "verdict=UNMET": disputed,
        "q=moon": [0, 40, 80],
        "q=essay+77": [77],
        "q=submission": [],  # a key of every record, and the text of none
        "q=ground_truth": [],
        "q=ensemble": [],  # the type of every report
        "q=Names+a+cause": [],  # the requirement in every report
        "q=because+UNMET": disputed,
        "q=moon&disputed=1": [0],
    }
    found = {query: walked(view, query) for query in expected}
    assert found == expected


def test_words_are_found_without_accents_in_either_case_and_width(tmp_path: Path) -> None:
    texts = ["En e\u0301te\u0301, à Paris.", "İSTANBUL'DA", "ＭＯＯＮ と月", "कल", "काल", "ذَهَبَ"]
    items = [{"submission": text, "description": "", "id": f"e{n}"} for n, text in enumerate(texts)]
    rubric = [
        {"name": "Any", "requirement": "Says a word.", "check": {"name": "word_count", "parameters": {"at_least": 1}}}
    ]
    data = tmp_path / "words.json"
    data.write_text(json.dumps({"prompt": "Why?", "rubric": rubric, "items": items}), "utf-8")
    grade(data, out=tmp_path / "run")
    words = {"ete": [0], "ÉTÉ": [0], "a paris": [0], "istanbul": [1], "moon": [2], "月": [2], "कल": [3], "ذهب": [5]}
    with viewing(tmp_path / "run") as view:
        view.indexed()
        assert {word: walked(view, urlencode({"q": word})) for word in words} == words


def test_the_page_of_an_item_leads_to_its_neighbours_in_the_same_list(view: Viewer) -> None:
    order = walked(view, "sort=worst&disputed=1")
    data = view.data(f"/r/0/items/{order[1]}?sort=worst&disputed=1")
    assert (data["previous"], data["next"]) == (order[0], order[2])
    assert view.data(f"/r/0/items/{order[0]}?sort=worst&disputed=1")["previous"] is None


def test_links_keep_the_list_that_a_reader_came_from(view: Viewer) -> None:
    state = f"sort=worst&criterion=1&after={view.data('/r/0/items?sort=worst&criterion=1')['next']}"
    item = re.findall(r'href="(/r/0/items/\d+[^"]*)" data-row', view.page(f"/r/0/items?{state}").text)[0]
    calls = re.findall(r'href="([^"]*/calls[^"]*)"', view.page(unescape(item)).text)[1]
    back = re.findall(r'href="([^"]*)#c2"', view.page(unescape(calls)).text)[0]
    listed = re.findall(r'href="([^"]*)" data-key="u"', view.page(unescape(back)).text)[0]
    assert parse_qs(urlsplit(unescape(listed)).query) == parse_qs(state)


def test_a_live_page_of_a_synthesis_counts_its_queries(view: Viewer, runs: list[Path]) -> None:
    with offenders() as case:
        for name in ("synthesize_basic", "synthesize_full"):
            with case(name):
                found = view.data(f"/r/{number_of(runs, name)}/live")
                counts = status(runs[number_of(runs, name)]).row_counts
                given = (STORED / name / "queries.jsonl").read_text().splitlines()
                assert (found["total"], found["done"], found["failed"]) == (len(given), counts.done, counts.failed)
                assert found["done"] + found["failed"] == len(given)


def test_a_synthesis_says_what_failed_and_why_where_it_is_watched_and_where_it_is_summed_up(tmp_path: Path) -> None:
    group = {"where": "merge", "kind": "refusal", "message": "the model refused", "count": 2, "items": ["a", "b"]}
    counts = {"rows": 7, "finished": 5, "failed": 2, "failure_groups": [group], "stopped": "budget of $1 is spent"}
    manifest = {"kind": "synthesis", "status": "incomplete", "counts": counts}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (reason,) = (line for line in repr(status(tmp_path)).splitlines() if line.startswith("  failures"))
    with viewing(tmp_path) as view:
        found = view.data("/r/0/")
        assert found["rows"] == {"total": 7, "done": 5, "failed": 2}
        assert (found["status"], found["error"]) == (status(tmp_path).state, "budget of $1 is spent")
        told = [[one["sentence"] for one in found["failures"]], view.data("/r/0/live")["failures"]]
        assert told == [[reason.removeprefix("  failures   ")]] * 2
        assert all("merge: 2 rows failed" in view.page(page).text for page in ("/r/0/", "/r/0/live"))
    (tmp_path / "final.jsonl").touch()
    text = report(tmp_path, format="md").text
    assert "| Queries done | 5 of 7, 2 failed |\n| Failures | 2 `refusal` |" in text


def test_the_summary_of_a_synthesis_counts_its_criteria_and_gates(
    view: Viewer, runs: list[Path], tmp_path: Path
) -> None:
    number = number_of(runs, "synthesize_full")
    rows = [json.loads(row) for row in (runs[number] / "final_full.jsonl").read_text().splitlines()]
    counts = Counter(
        (gate["gate"], gate["outcome"])
        for row in rows
        for part in ("criteria", "rejected", "rewritten", "pitfalls_left_out")
        for criterion in row.get(part) or ()
        for gate in criterion["gates"]
    )
    found = view.data(f"/r/{number}/")["rubrics"]
    assert (found["counted"], found["criteria"]) == (len(rows), sum(len(row["criteria"]) for row in rows))
    assert found["rejected"] == sum(len(row["rejected"]) for row in rows)
    gates = {gate.pop("gate"): gate for gate in found["gates"]}
    order = json.loads((runs[number] / "manifest.json").read_text())["settings"]["full"]["gates"]["order"]
    assert list(gates) == [name for name in order if name in gates]
    assert {(name, out): n for name, gate in gates.items() for out, n in gate.items() if n} == counts
    page = view.page(f"/r/{number}/").text
    titles = ["Criteria per rubric", "Weights", "Points held by evolved criteria", "Quality, means"]
    assert [title for title in re.findall("<title>(.*?)</title>", page) if title in titles] == titles
    for points, error in (([1], "TypeError"), (10**400, "OverflowError")):
        row = {"question": "Why?", "rubrics": [{"criterion": "Is brief.", "points": points}]}
        (tmp_path / "final.jsonl").write_text(json.dumps(row) + "\n")
        with viewing(tmp_path) as other:
            assert f"final.jsonl has values that cannot be counted: {error}" in other.page("/r/0/").text


TALK = [
    {"role": "system", "content": "Be brief. <b>x</b>"},
    {"role": "user", "content": "Why?\n\nSay."},
    {"role": "assistant", "content": '<thinking>Hm.\n\nuser: no</thinking>\ncalls look_up({"q": "<i>"})'},
    {"role": "user", "content": "So?"},
]


def test_only_what_is_stored_as_messages_is_shown_turn_by_turn(tmp_path: Path) -> None:
    graded = tmp_path / "graded"
    said = "user: I ask.\n\nassistant: is no turn here"
    quote = {"text": "ask", "start": 8, "end": 11}
    write_run(
        graded,
        [item(0, prompt=as_text(TALK), submission=said)],
        [line(0, 1.0, [judged(CAUSE, "MET", quotes=[quote]), judged(BRIEF, "MET")])],
    )
    made = tmp_path / "made"
    made.mkdir()
    row = {
        "id": "",
        "question": json.dumps(TALK, ensure_ascii=False),
        "rubrics": [{"criterion": "Is brief.", "points": 1}],
    }
    rows = [row, {**row, "id": "text", "question": as_text(TALK)}]
    (made / "final.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    (made / "manifest.json").write_text('{"kind": "synthesis", "status": "completed"}')
    part = [{"title": "Short", "description": "Is brief.", "weight": 1}]
    step = {"id": "", "question": TALK, "merged_rubrics": part, "merged_rubrics_model": "m"}
    (made / "step4_augmented.jsonl").write_text(json.dumps(step, ensure_ascii=False) + "\n")
    with viewing(graded, made) as view:
        text = view.indexed(0).page("/r/0/items/0?focus=1").text
        assert f">{escape(as_text(TALK))}</div>" in text
        assert ">user: I <mark>ask</mark>.\n\nassistant: is no turn here</div>" in text
        head = view.page("/r/1/rubrics/0").text.split("<h2>Criteria")[0]
        turns = [escape(turn["content"]) for turn in TALK]
        assert re.findall('<div class="text"[^>]*>(.*?)</div>', head, re.DOTALL) == turns
        assert "<h3>assistant</h3>" in view.page("/r/1/rubrics/0").text
        assert view.page("/r/1/rubrics/1").text.count("<h3>") == 1  # the criterion
        assert [one["title"] for one in view.data("/r/1/rubrics/0")["criteria"]] == ["Short"]


def test_options_are_in_their_order_and_texts_without_spaces_are_cut_not_dropped(tmp_path: Path) -> None:
    options = [{"label": label, "value": value} for value, label in enumerate(("Poor", "Good"))]
    scale = {"name": "Style", "requirement": "How good?", "weight": 1.0, "options": options}
    short = {
        "name": "Short",
        "requirement": "Is short.",
        "check": {"name": "word_count", "parameters": {"at_most": 9}},
    }
    entries = []
    for label in ("Good", "Poor"):
        choice = {"selected_label": label, "value": float(label == "Good")}
        said = [vote("a", "MET"), vote("b", None, error="parse: no verdict")]
        entries.append([judged(scale, None, final_multi_choice_verdict=choice), judged(short, "MET", said)])
    items = [item(n, "Poor", "MET", description="潮" * 200) for n in range(2)]
    run = write_run(
        tmp_path / "run", items, [line(n, 1.0, one) for n, one in enumerate(entries)], rubric=[scale, short]
    )
    with viewing(run) as viewer:
        data = viewer.indexed().data("/r/0/criteria/0")
        assert [row["verdict"] for row in data["verdicts"]] == ["Poor", "Good"]
        assert data["raters"][0]["confusion"] == {"words": ["Poor", "Good"], "counts": [[1, 1], [0, 0]]}
        assert f"<bdi>{'潮' * 119}…</bdi>" in viewer.page("/r/0/items").text
        assert '<span class="verdict failed">failed</span>' in viewer.page("/r/0/items/0").text
        assert viewer.data("/r/0/items/0/calls?focus=2")["prompt"]["messages"] == []  # no judge was asked


def test_agreement_is_that_of_other_implementations(view: Viewer) -> None:
    data = view.data("/r/0/agreement")
    cause = data["criteria"][0]
    equal = sum(a == b for a, b in zip(JUDGED, LABELS, strict=True))
    assert cause["agreement"] == pytest.approx(equal / 120)
    assert cause["interval"] == pytest.approx(proportion_confint(equal, 120, method="wilson"))
    row = next(csv.DictReader(io.StringIO(view.page("/r/0/agreement?format=csv").text)))
    assert [float(row[f"interval_{end}"]) for end in ("low", "high")] == pytest.approx(cause["interval"])
    assert cause["kappa"] == pytest.approx(cohen_kappa_score(LABELS, JUDGED))
    assert cause["between_judges"] == pytest.approx(JUDGED.count("MET") / 120)
    (pair,) = data["between"]
    # Of 240 votes each, they differ where a says UNMET on Cause.
    assert (pair["one"], pair["other"], pair["n"]) == ("a", "b", 240)
    assert pair["share"] == pytest.approx(1 - JUDGED.count("UNMET") / 240)


def test_a_criterion_is_relied_on_by_the_interval_of_its_kappa(tmp_path: Path) -> None:
    labels = ["MET", "UNMET"] * 30
    items = [item(n, label, label) for n, label in enumerate(labels)]
    # The first verdict is always the label, the second one never.
    other = {"MET": "UNMET", "UNMET": "MET"}
    found = [[judged(CAUSE, label), judged(BRIEF, other[label])] for label in labels]
    run = write_run(tmp_path / "run", items, [line(n, 0.5, one) for n, one in enumerate(found)])
    with viewing(run) as view:
        rows = view.indexed().page("/r/0/agreement").text.split("<tbody>")[1].split("</tr>")
        assert 'chip good">reliable<' in rows[0] and 'chip bad">do not rely on it<' in rows[1]
        assert view.data("/r/0/agreement")["majority"] == 0.5  # half of the labels of each criterion are MET
        shares, kappas = view.page("/r/0/agreement").text.split("<svg")[1:]
        assert [share.split(", baseline ")[1] for share in re.findall(r"<title>(\w+: .*)</title>", shares)] == 2 * [
            "0.500"
        ]
        # The axis reaches from -1 to 1, from 24 to 616 px, so the limits 0.41 and 0.61 are at 441.4 and 500.6 px.
        assert re.findall(r'x1="(\S+)".*stroke-dasharray', kappas) == ["441.4", "500.6"]
        page = view.page("/r/0/items/0").text
        assert ' aria-current="true">Items</a>' in page and page.count("aria-current") == 1


def test_two_runs_are_compared_item_by_item(view: Viewer, runs: list[Path]) -> None:
    one, two = number_of(runs, "grade_panel"), number_of(runs, "grade")
    data = view.data(f"/r/{one}/compare?with={two}")
    scores = [{row["item"]: row["score"] for row in view.data(f"/r/{run}/items")["items"]} for run in (one, two)]
    steps = {n: scores[1][n] - score for n, score in scores[0].items() if None not in (score, scores[1][n])}
    assert data["difference"]["value"] == pytest.approx(sum(steps.values()) / len(steps))
    largest = sorted(filter(steps.get, steps), key=lambda n: (-abs(steps[n]), n))
    assert [row["item"] for row in data["items"]] == largest


def test_without_a_choice_a_run_is_compared_with_one_on_the_same_dataset(tmp_path: Path) -> None:
    verdicts = [judged(one, "MET") for one in RUBRIC]
    made = [write_run(tmp_path / f"run{n}", [item(n // 2)], [line(0, 0.5, verdicts)]) for n in range(4)]
    with viewing(*made) as view:
        view.indexed(0, 1, 2, 3)
        assert [view.data(f"/r/{run}/compare")["other"] for run in range(4)] == [1, 0, 3, 2]


def test_a_selection_by_the_scores_of_another_run_names_that_run(tmp_path: Path) -> None:
    run, counts = tmp_path / "selected", {"rows": 25, "finished": 24, "failed": 1}
    run.mkdir()
    manifest = {"kind": "selection", "status": "completed", "graded_run": "/runs/graded", "counts": counts}
    (run / "manifest.json").write_text(json.dumps(manifest))
    with viewing(run) as view:
        assert view.data("/r/0/")["rows"] == {"total": 25, "done": 24, "failed": 1}
        text = view.page("/r/0/").text
        assert "those of the run <bdi>/runs/graded</bdi>" in text and "Cost by role" not in text
        [row] = view.data("/")["runs"]
        assert (row["items"], row["failed"]) == (24, 1)


def test_the_ledger_of_a_rewarder_in_the_process_of_a_trainer_is_shown_as_a_service_is(tmp_path: Path) -> None:
    run, rubric = tmp_path / "rewards", Rubric([Criterion(name="Moon", requirement="Mentions the moon.")])
    rewarder = make_rewarder("builtin/offline", run_dir=run)
    found = rewards_now(rewarder, [Sample(f"The moon {n}." if n % 4 else f"No {n}.", rubric, "Q") for n in range(8)])
    assert not (run / "ledger").exists()  # it is in the directory itself
    with viewing(run) as view:
        assert view.data("/r/0/")["costs"]["calls"] == 8
        [window] = view.data("/r/0/drift?windows=1")["windows"]
        assert "Drift" in view.page("/r/0/").text
        [source] = open_sources([run])
        costs = figures.read_costs(source)["rows"]
        assert figures.read_costs(source)["rows"] is costs
        rewards_now(rewarder, [Sample(f"The moon again {n}.", rubric, "Q") for n in range(3)])
        wait_until(lambda: view.data("/r/0/")["costs"]["calls"] == 11, "the page keeps old totals")
    assert (window["rewards"], window["reward"]) == (8, sum(one.value or 0.0 for one in found) / 8)


def test_drift_and_best_of_k_show_the_figures_of_their_commands(view: Viewer, runs: list[Path]) -> None:
    serve, select = number_of(runs, "serve"), number_of(runs, "select")
    windows = view.data(f"/r/{serve}/drift?windows=3")["windows"]
    assert [row["reward"] for row in windows] == [window.reward for window in drift(runs[serve], windows=3).windows]
    failed, found = Counter[str](), view.data(f"/r/{serve}/")
    for row in windows:
        failed.update(row["failures"])
    given = sum(row["rewards"] for row in windows) - failed.total()
    assert (given, failed.total()) == (6, 2)
    assert found["rewards"] == {"given": given, "failed": failed.total()}
    assert {one["kind"]: one["count"] for one in found["failures"]} == failed
    summary = json.loads((runs[select] / "selection.json").read_text())
    assert view.data(f"/r/{select}/best-of-k")["curve"] == summary["curve"]


def test_a_damaged_record_of_a_reward_is_counted(tmp_path: Path) -> None:
    copied = tmp_path / "ledger"
    shutil.copytree(STORED / "serve" / "run" / "ledger", copied)
    whole = count_rewards(copied)
    with closing(sqlite3.connect(copied / "ledger.sqlite")) as ledger, ledger:
        ledger.execute("UPDATE observations SET data = x'00' WHERE id = (SELECT max(id) FROM observations)")
    found = count_rewards(copied)
    assert (whole.total(), whole[None]) == (8, 6)
    assert (found.total(), found["the record of the reward is damaged"]) == (8, 1)


def test_a_window_without_a_reward_interrupts_the_line_of_its_chart(tmp_path: Path) -> None:
    run, rubric = tmp_path / "rewards", Rubric([Criterion(name="Moon", requirement="Mentions the moon.")])
    # Of five samples, the judge's endpoint answers all but the third.
    met = '{"criterion_status": "MET", "explanation": "It does."}'
    with LoopbackEndpoint(replier=lambda body: "no" if "S2" in str(body) else met).in_thread() as endpoint:
        rewarder = make_rewarder(f"judge@{endpoint.base_url}", run_dir=run)
        for n in range(5):
            rewards_now(rewarder, [Sample(f"S{n}", rubric, "Q")])
    with viewing(run) as view:
        windows = view.data("/r/0/drift?windows=5")["windows"]
        chart = view.page("/r/0/drift?windows=5").text.split("<svg")[1]
    assert [row["reward"] for row in windows] == [1.0, 1.0, None, 1.0, 1.0]
    assert (chart.count("<circle"), chart.count('<line class="series0"')) == (4, 2)


def test_the_lineage_of_a_criterion_names_its_proposals_gates_and_thresholds(view: Viewer, runs: list[Path]) -> None:
    data = view.data(f"/r/{number_of(runs, 'synthesize_full')}/rubrics/0")
    by_id = {one["id"]: one for one in data["criteria"]}
    merged = by_id["m1"]
    assert [(p["id"], p["model"], p["text"]) for p in merged["proposals"]] == [
        ("b1", "vllm/m-rubric-b", "mentions  F2."),
        ("a1", "vllm/m-rubric-a", "Mentions F2"),
    ]
    assert merged["proposals"][1]["why"] == "the same words"
    gates = {gate["gate"]: gate["told"] for gate in merged["gates"]}
    assert gates["agreement"].startswith("split 0.23, passes < 0.5")
    assert (by_id["e1.2"]["outcome"], by_id["e1.2"]["rejected_by"]) == ("rejected", "licensed")
    assert by_id["e1.2"]["pair"] == ["b", "a"]
    assert (by_id["m3"]["outcome"], by_id["m3.r"]["rewritten_from"]) == ("rewritten", "m3")
    # Both judges found the original third criterion met by both responses, or neither did.
    verdicts = {row["id"]: row["cells"] for row in data["verdicts"]["rows"]}
    assert verdicts["m3"] == [{"met": 1, "of": 2}, {"met": 1, "of": 2}]


def test_quotes_of_a_criterion_in_focus_are_marked(view: Viewer) -> None:
    assert "<mark>" not in view.page("/r/0/items/3").text
    assert "<mark>Essay</mark> 3." in view.page("/r/0/items/3?focus=2").text


def test_hidden_characters_are_made_visible(view: Viewer) -> None:
    text = view.page("/r/0/items/3").text
    assert "\u202e" not in text
    assert '<span class="hidden" title="RIGHT-TO-LEFT OVERRIDE">U+202E</span>' in text


@pytest.mark.filterwarnings("ignore:.* with reasoning, which")
def test_the_rebuilt_prompt_is_the_one_that_was_sent(tmp_path: Path) -> None:
    data = tmp_path / "data.json"
    options = [{"label": "None", "value": 0}, {"label": "One", "value": 0.5}, {"label": "Two", "value": 1}]
    rubric = [
        RUBRIC[0],
        {"name": "Wrong", "requirement": "Is wrong.", "weight": -2},
        {"name": "Causes", "requirement": "How many?", "options": options},
        {
            "name": "Points",
            "requirement": "How good?",
            "options": [{"label": f"{n}", "value": n / 2} for n in range(3)],
        },
    ]
    items = [{"submission": "<think>The sun?</think>\n\nThe <moon>.", "description": "", "id": "e0"}]
    data.write_text(json.dumps({"prompt": "Explain the tides.", "rubric": rubric, "items": items}))
    said = '{"explanation": "It names two.", "criterion_status": "MET", "selected_option": 2}'
    with LoopbackEndpoint(replier=lambda body: said).in_thread() as endpoint:
        grade(data, judge=f"judge@{endpoint.base_url}", out=tmp_path / "run")
        sent = [[message["content"] for message in call.body["messages"]] for call in endpoint.received]
    with viewing(tmp_path / "run") as viewer:
        viewer.indexed()
        for number in (1, 2, 3, 4):
            found = viewer.data(f"/r/0/items/0/calls?focus={number}")
            assert [message["content"] for message in found["prompt"]["messages"]] in sent
            assert not any("template" in note for note in found["prompt"]["notes"])
            assert any(call["own"] for call in found["calls"])
        manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
        manifest["grader_config"]["templates"]["binary"] = "0123456789ab"
        (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
        (note,) = viewer.data("/r/0/items/0/calls?focus=1")["prompt"]["notes"]
        assert "the run used template 0123456789ab" in note


def test_of_many_calls_on_an_item_those_that_gave_a_verdict_come_first(tmp_path: Path) -> None:
    rubric = [{"name": f"N{n}", "requirement": f"Contains at least {n} words."} for n in range(1, 221)]
    grade([{"submission": "The moon pulls."}], rubric=rubric, judge="builtin/offline", out=tmp_path / "run")
    with viewing(tmp_path / "run") as viewer:
        calls = viewer.indexed().data("/r/0/items/0/calls?focus=220")["calls"]
    assert len(calls) == 220 and calls[0]["own"]


def test_a_live_page_has_the_figures_of_a_file_that_grows(tmp_path: Path) -> None:
    lines = [line(n, 1.0, [judged(CAUSE, "MET")]) for n in range(3)]
    run = write_run(tmp_path / "run", [item(n) for n in range(3)], lines[:1])
    with viewing(run) as viewer:
        assert viewer.indexed().data("/r/0/live")["done"] == 1
        with (run / "items.jsonl").open("a") as file:
            file.write("".join(one + "\n" for one in lines[1:]))
        wait_until(lambda: viewer.data("/r/0/live")["done"] == 3, "the live page does not count")


def test_no_asset_and_no_link_leads_elsewhere(view: Viewer) -> None:
    for name, kind in (("view.css", "text/css"), ("view.js", "text/javascript")):
        found = view.page(f"/static/{name}")
        assert found.status == 200 and found.headers["content-type"].startswith(kind)
        assert not re.search(r"https?://|@import|url\(", found.text)
    assert len(view.page("/static/view.css").text) + len(view.page("/static/view.js").text) <= 35_000
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", view.page("/r/0/").text)


def test_versions_of_evolved_rubrics_are_shown_with_what_was_decided(tmp_path: Path) -> None:
    first, kind = (
        Criterion(name="Moon", requirement="Names the moon."),
        Criterion(name="Kind", requirement="Is kind."),
    )
    folder = tmp_path / "evolved"
    folder.mkdir()
    manifest = {"kind": "evolution", "status": "completed", "counts": {"rows": 2, "finished": 2, "failed": 0}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    rejected = {"description": "Is <b>long</b>.", "gate": "separates", "reason": "all meet it"}
    with closing(VersionLog(folder / VERSIONS_FILE)) as log:
        lineage = log.begin("Why?", Rubric([first]))
        log.add(lineage, None, Change("a", rejected=(rejected,)))
        log.add(
            lineage, RubricVersion("Why?", 1, Rubric([kind]), (first,), 8), Change("b", ("Kind",), retired=("Moon",))
        )
        log.begin("How?", Rubric([kind]))
    with viewing(folder) as view:
        found = view.data("/r/0/versions")
        assert (found["count"], found["changed"]) == (2, 1)
        old, new = found["rubrics"][0]["versions"]
        assert (old["added"], new["added"], new["retired"], new["from_step"]) == ([], ["Kind"], ["Moon"], 8)
        text = view.page("/r/0/versions").text
        assert "Is &lt;b&gt;long&lt;/b&gt;." in text and "separates: all meet it" in text
        assert re.findall(r'<bdi>(\w+)</bdi> <small dir="auto">(.*?)</small>', text) == [
            ("Kind", "Is kind."),
            ("Moon", "Names the moon."),
        ]
        assert 'href="/r/0/versions"' in view.page("/r/0/").text
        counts = {"rubrics": 2, "changed": 1, "split": 0, "added": 1, "returned": 0, "retired": 1, "rejected": 1}
        assert view.data("/r/0/")["evolution"] == counts
        assert view.data("/")["runs"][0]["items"] == 2
        assert re.findall("<dt>(.*?)</dt><dd>(.*?)(?:<small>|</dd>)", view.page("/r/0/").text)[:7] == [
            ("Queries done", "2"),
            ("Failed queries", "0"),
            ("Rubrics changed", "1"),
            ("Criteria added", "1"),
            ("Criteria returned", "0"),
            ("Criteria retired", "1"),
            ("Criteria rejected", "1"),
        ]
        versions = folder / VERSIONS_FILE
        versions.write_bytes(versions.read_bytes().replace(b"Moon", b"Sun"))
        for page in ("/r/0/", "/r/0/versions"):
            assert "line 1: not an event of a rubric" in view.page(page).text

"""Any number of a run is the same in `grade`, `status`, `report`, the view, `agree` and `compare`."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import autorubric
from autorubric import Criterion, Rubric, RubricDataset
from autorubric.cli.app import run as command
from autorubric.labels import Ask, label_queue
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Failure
from autorubric.metrics.compare import JudgeComparison
from autorubric.testing import Fault, LoopbackEndpoint
from autorubric.view.figures import read_costs
from autorubric.view.sources import open_sources
from tests.labels.runs import answers, graded
from tests.llm.records.test_crash_logs import a_row
from tests.offenders import offenders
from tests.view.viewing import item, viewing, write_run

Facts = dict[str, dict[str, Any]]
"""The values of each quantity by where they are shown."""


def number(text: str) -> float:
    return float(text.replace(",", ""))


def of_grade(text: str, facts: Facts) -> None:
    done, total = re.search(r"([\d,]+) of ([\d,]+) items graded", text).groups()  # type: ignore[union-attr]
    facts["done"]["grade"], facts["total"]["grade"] = number(done), number(total)
    found = re.search(r"mean score ([\d.]+) over ([\d,]+) items, 95% confidence interval ([\d.]+) to ([\d.]+)", text)
    assert found is not None, text
    facts["mean"]["grade"], facts["scored"]["grade"], low, high = map(number, found.groups())
    facts["interval"]["grade"] = [low, high]
    made = re.search(r"coverage: [\d,]+ of [\d,]+ judgments \(([\d.]+)%\)", text)
    facts["coverage"]["grade"] = number(made[1]) / 100 if made else None
    for name, words in (("failed", "failed"), ("not requested", "(?:was|were) not made")):
        facts[name]["grade"] = sum(map(number, re.findall(rf"([\d,]+) judgments? {words}", text)))
    facts["calls"]["grade"] = sum(map(number, re.findall(r"judge .*?: ([\d,]+) calls?", text)))


def of_status(run: Path, facts: Facts) -> None:
    status = autorubric.status(run)
    rows, spent = status.row_counts, status.spent
    assert spent is not None
    facts["done"]["status"], facts["total"]["status"] = rows.done, rows.rows
    facts["failed items"]["status"], facts["state"]["status"] = rows.failed, status.state
    facts["calls"]["status"], facts["tokens"]["status"] = spent.calls, spent.tokens


def of_summary(place: str, summary: Mapping[str, Any], facts: Facts) -> None:
    scores, costs, labels = summary["scores"], summary["costs"], summary["against_labels"]
    for name in ("done", "mean", "interval", "scored"):
        facts[name][place] = scores[name]
    facts["failed items"][place], facts["total"][place] = scores["failed"], summary["total"]
    facts["coverage"][place], facts["state"][place] = summary["coverage"], summary["status"]
    facts["calls"][place] = costs["calls"]
    facts["tokens"][place] = sum(row["prompt_tokens"] + row["completion_tokens"] for row in costs["rows"])
    counts = {one["kind"]: one["count"] for one in summary["failures"]}
    facts["not requested"][place] = counts.pop("not requested", 0)
    facts["failed"][place] = sum(counts.values())
    facts["accuracy"][f"{place}, summary"] = labels and [labels["value"], *labels["interval"]]


def of_agreement(place: str, page: Mapping[str, Any], facts: Facts) -> None:
    labelled, whole = page["labelled"], page["whole"]
    facts["accuracy"][place] = [labelled["value"], *labelled["interval"]]
    facts["labelled items"][place], facts["pairs"][place], facts["kappa"][place] = (
        labelled["n"], whole["n"], whole["kappa"],
    )  # fmt: skip
    for one in page["criteria"]:
        facts[f"criterion {one['name']}"][place] = [
            one["labelled"], one["agreement"], *one["interval"], one["kappa"], *one["kappa_interval"],
        ]  # fmt: skip
    for one in page["judges"]:
        facts[f"judge {one['other']}"][place] = [one["n"], one["share"], one["kappa"]]
        facts[f"judge {one['other']}, pairs"][place] = one["n"]
        facts[f"judge {one['other']}, pairs"][f"{place}, matrix"] = sum(map(sum, one["confusion"]["counts"]))


def of_agree(run: Path, facts: Facts) -> None:
    found = autorubric.agree(run)
    ends = found.accuracy_ci
    assert ends is not None
    facts["accuracy"]["agree"] = [found.criterion_accuracy, ends.lower, ends.upper]
    facts["labelled items"]["agree"], facts["pairs"]["agree"] = found.n_items, found.n_samples
    facts["kappa"]["agree"], facts["baseline"]["agree"] = found.micro_kappa, found.majority_baseline
    for one in found.per_criterion:
        assert one.accuracy_ci is not None and one.kappa_ci is not None
        facts[f"criterion {one.name}"]["agree"] = [
            one.n_samples, one.accuracy, one.accuracy_ci.lower, one.accuracy_ci.upper,
            one.kappa, one.kappa_ci.lower, one.kappa_ci.upper,
        ]  # fmt: skip
    judges = autorubric.agree(run, per_judge=True).per_judge or {}
    for name, judge in judges.items() if len(judges) > 1 else ():
        facts[f"judge {name}"]["agree"] = [judge.n_pairs, judge.criterion_accuracy, judge.micro_kappa]
    against = autorubric.compare(run, against=run)
    facts["accuracy alone"] = {"agree": found.criterion_accuracy, "compare": against.accuracy.a}


def of_markdown(text: str, facts: Facts) -> None:
    rows = dict(re.findall(r"^\| ([A-Z][\w ]+) \| (.*) \|$", text, re.MULTILINE))
    facts["mean"]["markdown"], low, high, facts["scored"]["markdown"] = map(
        number, re.findall(r"[\d,]*\.?\d+", re.sub("95%|clustered by query, 10 queries", "", rows["Score"]))
    )
    facts["interval"]["markdown"] = [low, high]
    facts["done"]["markdown"] = number(rows["Items done"].split(" of ")[0])
    facts["coverage"]["markdown"] = number(rows["Judgments made"].rstrip("%")) / 100
    facts["state"]["markdown"] = rows.get("Status", "`completed`").strip("`")
    shares = re.findall(r"\d+\.\d", rows["Agreement with labels"])
    facts["accuracy"]["markdown"] = [float(one) / 100 for one in shares]


def of_view(run: Path, facts: Facts) -> None:
    with viewing(run) as view:
        view.indexed()
        of_summary("view", view.data("/r/0/"), facts)
        page = view.data("/r/0/agreement")
        of_agreement("view", page, facts)
        facts["baseline"]["view"] = page["majority"]
        live = view.data("/r/0/live")
        facts["failed"]["criteria"] = sum(one["failed"] for one in view.data("/r/0/criteria")["criteria"])
    facts["done"]["live"], facts["failed items"]["live"] = live["done"], live["failed"]
    facts["mean"]["live"], facts["state"]["live"], facts["calls"]["live"] = (
        live["mean"],
        live["status"],
        live["calls"],
    )
    if page["between"]:
        pairs = autorubric.agree_pairwise(run)
        for one, other in zip(page["criteria"], pairs.criteria, strict=True):
            facts[f"judges on {one['name']}"] = {"view": one["between_judges"], "agree": other.agreement}


def collected(run: Path, told: str) -> Facts:
    facts: Facts = defaultdict(dict)
    of_grade(told, facts)
    of_status(run, facts)
    made = autorubric.report(run, format="json").numbers
    of_summary("report", made["summary"], facts)
    of_agreement("report", made["agreement"], facts)
    of_markdown(autorubric.report(run, format="md").text, facts)
    of_agree(run, facts)
    of_view(run, facts)
    return facts


def differing(facts: Facts) -> dict[str, dict[str, Any]]:
    """The quantities with different values; text shows three places, or a tenth of a percent."""
    found = {}
    for name, places in facts.items():
        first, *others = places.values()
        if any(other != (first if isinstance(first, str) else pytest.approx(first, abs=6e-4)) for other in others):
            found[name] = places
    return found


def labelled(queries: int = 1) -> RubricDataset:
    """Essays with labels that agree with a judge by chance, on three criteria."""
    draw = random.Random(3)
    criteria = [Criterion(name=f"C{n}", weight=n + 1, requirement=f"Says {n}.") for n in range(3)]
    dataset = RubricDataset("Why?", Rubric(criteria))
    for n in range(40):
        dataset.add_item(f"Essay {n}.", "", [draw.choice(["MET", "UNMET"]) for _ in criteria], id=f"e{n}")
        dataset.items[-1].prompt = f"Why {n % queries}?" if queries > 1 else None
    return dataset


def test_a_number_is_the_same_wherever_it_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = Fault("500", 500, body=b"{}")
    data, shared = str(tmp_path / "data.json"), str(tmp_path / "shared.json")
    labelled().to_file(data)
    labelled(queries=10).to_file(shared)
    runs: dict[str, tuple[list[str], tuple[str, ...]]] = {
        "whole": (["one"], ()),
        "failed": (["one", "two"], ("--retry", "0")),
        "budget": (["one"], ("--budget-tokens", "30000", "-j", "2")),
        "shared": (["one"], ()),
    }
    with offenders() as case:
        for name, (judges, flags) in runs.items():
            bad = "Essay 1" if name == "failed" else "no such essay"

            def faults(body: Mapping[str, Any], bad: str = bad) -> Fault | None:
                return broken if body["model"] == "two" and bad in json.dumps(body) else None

            with case(name), LoopbackEndpoint(faults=faults).in_thread() as server:
                asked = [flag for judge in judges for flag in ("--judge", f"{judge}@{server.base_url}")]
                capsys.readouterr()
                file = shared if name == "shared" else data
                status = command(["grade", file, *asked, *flags, "-o", str(tmp_path / name)])
                assert status == (0 if name in ("whole", "shared") else 1)
                told = capsys.readouterr().out
                assert ("clustered by query (10 queries)" in told) == (name == "shared")
                facts = collected(tmp_path / name, told)
                assert len(facts) >= 18, facts
                assert differing(facts) == {}


def of_labels(run: Path, other: Path, labels: Path | None) -> dict[str, list[Any]]:
    """Values, intervals and p-values of labels: those of single pairs, of whole items, and the two runs compared."""
    given = {} if labels is None else {"labels": labels}
    by_pair = labels is None or labels.suffix == ".jsonl"
    found: dict[str, list[Any]] = {}
    if by_pair:
        single = autorubric.label_agreement(run, **given)
        for one in (single.judge, *single.criteria):
            assert one.accuracy.interval is not None and one.kappa.interval is not None
            found[one.name] = [one.n, one.accuracy.value, *one.accuracy.interval[:2], *one.kappa.interval[:2]]
        mean = single.judge.mean_kappa
        found["mean kappa"] = [mean.value, *(mean.interval or ())[:2]]
    else:
        whole = autorubric.agree(run, **given)
        assert whole.bootstrap is not None and whole.accuracy_ci is not None
        found["labels"] = [
            whole.n_samples, whole.criterion_accuracy, whole.accuracy_ci.lower, whole.accuracy_ci.upper,
            *(whole.bootstrap.micro_kappa_ci or ()),
        ]  # fmt: skip
        for each in whole.per_criterion:
            assert each.accuracy_ci is not None and each.kappa_ci is not None
            found[each.name] = [
                each.n_samples, each.accuracy, each.accuracy_ci.lower, each.accuracy_ci.upper,
                each.kappa_ci.lower, each.kappa_ci.upper,
            ]  # fmt: skip
        found["mean kappa"] = [whole.mean_kappa, *(whole.bootstrap.kappa_ci or ())]
    against: JudgeComparison = autorubric.compare(run, against=other, **given)
    for gap in (against.accuracy, against.mean_kappa, against.micro_kappa, *against.per_criterion):
        name, ends = f"compared: {gap.name}", gap.ci and (gap.ci.lower, gap.ci.upper)
        found[name] = [gap.n, gap.a, gap.b, gap.difference, *(ends or ()), gap.p_value, gap.p_holm]
    return found


@pytest.mark.filterwarnings(
    "ignore:.*the probabilities of drawn pairs are not read", "ignore:.*have no labels in the file"
)
def test_the_same_labels_give_the_same_numbers_whatever_way_they_come(tmp_path: Path) -> None:
    run, other = graded(tmp_path / "run", 30), tmp_path / "other"
    with LoopbackEndpoint().in_thread() as endpoint:  # says MET to everything
        autorubric.grade(answers(30), judge=f"judge@{endpoint.url}", out=other)
    # All pairs are drawn, so with a probability of 1; two thirds are labelled, so that a label counts for 1.5 pairs.
    with label_queue(run, Ask("random", size=60), second_share=0.0) as queue:
        for _ in range(40):
            task = queue.next("ana")
            assert task is not None
            right = ("moon" in task.submission) == (task.pair.criterion == "Moon") and task.pair.index % 4 > 0
            queue.label("ana", task.pair.index, task.pair.place, "MET" if right else "UNMET")
    expected = of_labels(run, other, None)
    assert len(expected) == 9
    with offenders() as case:
        for form in ("csv", "json", "jsonl"):
            with case(form):
                path = tmp_path / f"labels.{form}"
                autorubric.export_labels(run=run, target=path)
                found = of_labels(run, other, path)
                assert found.keys() == expected.keys()
                assert {k: v for k, v in found.items() if v != pytest.approx(expected[k], abs=1e-9)} == {}


def test_calls_that_a_killed_process_did_not_record_are_counted_as_in_status(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [item(0)], [])
    cut_off = Failure("network", "the process ended while the call was in flight")
    with Ledger.open(run / "ledger") as ledger:
        ledger.in_flight.put(replace(a_row(1), outcome=cut_off, token_bound=50))
    [source] = open_sources([run])
    shown, told = read_costs(source), autorubric.status(run).spent
    assert told is not None
    assert (shown["calls"], shown["cost"]) == (told.calls, None) == (1, None)


def test_two_runs_are_compared_on_the_items_with_the_same_id_or_the_same_query(tmp_path: Path) -> None:
    """Whatever their order, and whichever items only one run has."""
    rubric = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])

    def write(name: str, answers: str, **fields: Callable[[int], str]) -> str:
        """A run with an answer for each letter: short (s) or long (l); a dot leaves it out."""
        texts = {"s": "Yes.", "l": "It may be so, but nobody knows."}
        kept = [(n, texts[letter]) for n, letter in enumerate(answers) if letter != "."]
        rows = [{"submission": text, **{key: make(n) for key, make in fields.items()}} for n, text in kept]
        rows = rows[::-1] if name == "second" else rows
        out = tmp_path / "-".join([name, *fields])
        autorubric.grade(rows, rubric=rubric, judge="builtin/offline", out=out)
        return str(out)

    # Items 1 to 4 are in both, with 1, 0, 1 and 0 in the first run, and 0, 1, 1 and 1 in the second.
    first, second = "sslsl.", ".lsssl"
    table: dict[str, tuple[dict[str, Callable[[int], str]], int, int, float]] = {
        "ids": ({"id": lambda n: f"i{n}"}, 4, 0, (3 - 2) / 4),
        "ids and queries": ({"id": lambda n: f"i{n}", "query": lambda n: f"Q{n % 2}?"}, 4, 0, (3 - 2) / 4),
        "queries": ({"query": lambda n: f"Q{n}?"}, 4, 0, (3 - 2) / 4),
        # In their order: s and l, s and s, l and s, s and s, l and l.
        "nothing": ({}, 5, 5, (3 - 3) / 5),
    }
    with offenders() as case:
        for name, (fields, common, loose, difference) in table.items():
            with case(name):
                runs = write("second", second, **fields), write("first", first, **fields)
                found = json.loads(autorubric.report(runs[0], against=runs[1], format="json").text)["comparison"]
                assert (found["common"], found["loose"]) == (common, loose)
                assert found["difference"]["value"] == pytest.approx(difference)

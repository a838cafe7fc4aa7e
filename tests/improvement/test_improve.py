"""`autorubric improve` from end to end, over HTTP, with a scripted judge and writer."""

from __future__ import annotations

import json
import subprocess
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from autorubric import Criterion, Rubric, RubricDataset, improve, improve_async
from autorubric.cli.app import run
from autorubric.errors import InputError
from autorubric.improvement.samples import hash_item
from autorubric.runs.stopping import Stop
from autorubric.testing.faults import Fault
from tests.improvement.essays import (
    BETTER,
    OLD,
    RUBRIC,
    answers,
    endpoint,
    files,
    judge,
    models,
    record,
    section,
    wordings,
)
from tests.warm_commands import WarmProcess

BRINGS = wordings(BETTER, "Explains the tides in depth.", "Tells a fine story of the tides.")
Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(("count", "split"), [(60, "nested"), (240, "three")])
def test_a_better_wording_is_accepted_with_its_evidence(
    tmp_path: Path, capsys: Capture, count: int, split: str
) -> None:
    with endpoint(written=BRINGS).in_thread() as near:
        words = [*files(tmp_path, answers(count)), *models(near.base_url)]
        words += ["--split", "three"] if split == "three" else []
        assert run(words) == 0
    said, found = capsys.readouterr().out, record(tmp_path)
    assert "1 of 1 tested change accepted" in said
    made = Rubric.from_file(tmp_path / "out" / "rubric.json")
    assert [one.requirement for one in made] == [BETTER, "Is kind."]
    assert [one.weight for one in made] == [4, 10]
    held: dict[str, Any] = made[0].metadata["improved"]
    assert held["was"] == {"name": "Tides", "weight": 4, "requirement": OLD}
    assert held["author"] == "writer"
    [test] = found["tests"]
    # The scripted judge errs on two in five under the original, and never under the better wording.
    assert test["after"] == 1
    assert test["before"] == pytest.approx(0.6, abs=0.06)
    assert held["interval"] == test["interval"]
    assert test["interval"][0] > 0
    assert found["split"] == split
    assert found["noise"]["Tides"] == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<script" not in page and "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert "<ins>" in page and "<del>" in page
    assert page.count("<main>") == 1 and "<th></th>" not in page and "max-width: 40rem" in page  # read on a phone


def test_a_finished_run_asks_nothing_again_and_opens_nothing_again(tmp_path: Path, capsys: Capture) -> None:
    with endpoint(written=BRINGS).in_thread() as near:
        words = [*files(tmp_path, answers(60), only="Tides"), *models(near.base_url)]
        assert run(words) == 0
        first, asked = (tmp_path / "out" / "rubric.json").read_text(), near.counts.requests
        prices, spent = tmp_path / "prices.json", tmp_path / "out" / "spent.json"
        prices.write_text(json.dumps({name: {"input": 1.0, "output": 10.0} for name in ("judge", "writer")}))
        assert json.loads(spent.read_bytes())["cost"] == 0
        assert run([*words, "--prices", str(prices)]) == 0
        assert json.loads(spent.read_bytes())["cost"] > 0
        assert near.counts.requests == asked
        assert "decided in an earlier session" in capsys.readouterr().out
        assert (tmp_path / "out" / "rubric.json").read_text() == first
        elsewhere = [*words[:-5], str(tmp_path / "other"), *words[-4:]]
        assert run(elsewhere) == 2
        assert "were used by an earlier run and cannot decide" in capsys.readouterr().err
        assert run([*words, "--start-over"]) == 2
        assert near.counts.requests == asked
    assert not (tmp_path / "other").exists()


def test_new_labels_decide_in_a_second_run_and_old_ones_teach(tmp_path: Path) -> None:
    with endpoint(written=BRINGS).in_thread() as near:
        assert run([*files(tmp_path, answers(60), only="Tides"), *models(near.base_url)]) == 0
        opened = set(json.loads((tmp_path / "out" / "split.json").read_text())["test"])
        words = [*files(tmp_path, answers(120), only="Tides"), *models(near.base_url)]
        assert run([*words[:-5], str(tmp_path / "second"), *words[-4:]]) == 0
    test = set(json.loads((tmp_path / "second" / "split.json").read_text())["test"])
    assert len(test) > 50
    assert not opened & test


def test_items_without_labels_teach_and_test_nothing_and_stay_unused(tmp_path: Path, capsys: Capture) -> None:
    data = answers(240)
    for item in data.items[60:]:
        item.ground_truth = None
    with endpoint(written=BRINGS).in_thread() as near:
        words = [*files(tmp_path, data, only="Tides"), *models(near.base_url)]
        assert run([*words, "--dry-run"]) == 0
        assert run(words) == 0
    said, found = capsys.readouterr().out, record(tmp_path)
    assert said.startswith("60 items; no request was sent")
    assert "60 in 60 groups (180 without labels left out): 15 teach; 45 choose and test" in said
    assert (found["split"], found["groups"], found["unlabelled"]) == ("nested", 60, 180)
    used = [json.loads(line)["item"] for line in (tmp_path / "labels.json.used.jsonl").read_text().splitlines()]
    assert len(used) == len(set(used)) == 60


def test_a_run_that_was_stopped_resumes_without_paying_twice(tmp_path: Path) -> None:
    # One call in ten is slow, so some are in flight when another one is refused because of the stop.
    plain, asked, stop = tmp_path / "whole", count(1), Stop()

    def stopping(requirement: str, submission: str) -> str:
        if next(asked) == 40:
            stop()
        return judge(requirement, submission)

    with endpoint(written=BRINGS).in_thread() as near:
        assert run([*files(plain, answers(60)), *models(near.base_url)]) == 0
        calls = near.counts.requests
    with endpoint(stopping, BRINGS, latency="fixed:0.002+0.1@0.1").in_thread() as near:
        settings: dict[str, Any] = {
            "labels": answers(60), "judge": f"judge@{near.base_url}", "writer": f"writer@{near.base_url}",
            "out": tmp_path / "out", "used": tmp_path / "used.jsonl", "concurrency": 16,
        }  # fmt: skip
        assert improve(RUBRIC, **settings, stop=stop).interrupted
        assert improve(RUBRIC, **settings).accepted
        assert near.counts.requests == calls
    expected = Rubric.from_file(plain / "out" / "rubric.json")
    assert [c.requirement for c in Rubric.from_file(tmp_path / "out" / "rubric.json")] == [
        c.requirement for c in expected
    ]


def test_a_budget_ends_the_run_before_it_is_exceeded(tmp_path: Path, capsys: Capture) -> None:
    with endpoint(written=BRINGS).in_thread() as near:
        words = [*files(tmp_path, answers(60), only="Tides"), *models(near.base_url), "-j", "2"]
        assert run([*words, "--budget-tokens", "60000"]) == 1
        assert "budget of 60,000 tokens" in capsys.readouterr().out
        made = near.counts.requests
        assert not (tmp_path / "out" / "improvement.json").exists()
        assert run(words) == 0
        assert near.counts.requests > made


def test_a_judge_that_always_fails_or_abstains_never_wins(tmp_path: Path, capsys: Capture) -> None:
    with endpoint(written=BRINGS, faults=lambda body: Fault("broken", status=500)).in_thread() as near:
        words = [*files(tmp_path / "a", answers(60), only="Tides"), *models(near.base_url), "--retry", "0"]
        assert run(words) == 1
        assert "judgments on" in capsys.readouterr().out
        assert not (tmp_path / "a" / "out" / "rubric.json").exists()

    def silent(requirement: str, submission: str) -> str:
        return "CANNOT_ASSESS" if BETTER in requirement else judge(requirement, submission)

    with endpoint(silent, BRINGS).in_thread() as near:
        assert run([*files(tmp_path / "b", answers(60), only="Tides"), *models(near.base_url)]) == 0
    assert not [one for one in record(tmp_path / "b")["tests"] if one["accepted"]]
    assert Rubric.from_file(tmp_path / "b" / "out" / "rubric.json")[0].requirement == OLD


def test_wordings_that_help_nothing_are_not_accepted_and_the_report_says_by_how_much(tmp_path: Path) -> None:
    # The new wording mends one item in fifteen: a gain, but not on enough items to be significant.
    def little(requirement: str, submission: str) -> str:
        number = int(submission.rpartition("Answer ")[2].partition(",")[0])
        mended = "depth" in requirement and number % 15 == 13
        return judge(BETTER if mended else requirement, submission)

    with endpoint(little, wordings("Explains the tides in depth.")).in_thread() as near:
        assert run([*files(tmp_path, answers(60), only="Tides"), *models(near.base_url)]) == 0
    [test] = record(tmp_path)["tests"]
    assert not test["accepted"]
    assert test["difference"] > 0
    assert test["missed_by"] is None or test["missed_by"] >= 0
    assert test["groups_needed"] > 45


def test_a_candidate_that_quotes_a_submission_costs_no_call(tmp_path: Path, capsys: Capture) -> None:
    quoting = wordings("Says that the moon pulls. Answer 5, dear.", "Follows the ground truth.")
    with endpoint(written=quoting).in_thread() as near:
        assert run([*files(tmp_path, answers(60), only="Tides"), *models(near.base_url)]) == 0
        asked = [one for one in near.received if "ground truth" in json.dumps(one.body)]
    assert not asked
    fates = {one["why"].partition(":")[0] for one in record(tmp_path)["tried"]}
    assert fates == {"it quotes a submission", "it names labels or dictates a verdict"}
    assert "refused Tides/1.1: it quotes a submission" in capsys.readouterr().out


def test_a_split_counts_as_one_criterion_and_a_check_decides_without_the_judge(tmp_path: Path) -> None:
    split = wordings("Names the moon.", kind="split", second="Says that it pulls.")

    def halves(requirement: str, submission: str) -> str:
        if requirement in ("Names the moon.", "Says that it pulls."):
            return "MET" if "moon" in submission else "UNMET"
        return judge(requirement, submission)

    with endpoint(halves, split).in_thread() as near:
        assert run([*files(tmp_path / "a", answers(60)), *models(near.base_url)]) == 0
    made = Rubric.from_file(tmp_path / "a" / "out" / "rubric.json")
    assert [(one.name, one.weight) for one in made] == [("Tides (1)", 2), ("Tides (2)", 2), ("Kind", 10)]
    check = wordings("Has the word moon.", kind="check", check="contains", parameters='{"phrases": ["moon"]}')
    with endpoint(written=check).in_thread() as near:
        assert run([*files(tmp_path / "b", answers(60)), *models(near.base_url)]) == 0
        assert not [one for one in near.received if "Has the word moon" in json.dumps(one.body)]
    made = Rubric.from_file(tmp_path / "b" / "out" / "rubric.json")
    assert made[0].check == {"name": "contains", "parameters": {"phrases": ["moon"]}}


def test_changes_are_taken_back_by_name(tmp_path: Path, capsys: Capture) -> None:
    split = wordings("Names the moon.", kind="split", second="Says that it pulls.")

    def halves(requirement: str, submission: str) -> str:
        return (
            ("MET" if "moon" in submission else "UNMET")
            if "oon" in requirement or "pulls" in requirement
            else judge(requirement, submission)
        )

    with endpoint(halves, split).in_thread() as near:
        words = [*files(tmp_path, answers(60)), *models(near.base_url)]
        assert run(words) == 0
        out, asked = tmp_path / "out", near.counts.requests
        assert run(["improve", str(out / "rubric.json"), "--undo", "Kind", "-o", str(out)]) == 2
        assert "'Kind' was not changed; changed criteria: 'Tides (1)', 'Tides (2)'" in capsys.readouterr().err
        assert run(["improve", str(out / "rubric.json"), "--undo", "Tides", "-o", str(out)]) == 0
        assert json.loads((out / "log.jsonl").read_text().splitlines()[-1])["event"] == "undone"
        assert "reverted since: Tides" in (out / "report.html").read_text()
        capsys.readouterr()
        assert run(words) == 0
        assert near.counts.requests == asked
    said = capsys.readouterr().out
    assert "reverted since: Tides" in said
    assert "Tides: accepted, then reverted (--undo);" in said
    assert Rubric.from_file(out / "rubric.json").to_dict() == RUBRIC.to_dict()


def test_proposals_of_a_review_are_tried_without_a_writer(tmp_path: Path) -> None:
    proposals = [
        {"criterion": "tides", "requirement": BETTER, "reason": "Vague.", "quote": "well", "severity": "warning"},
        {"criterion": "Kind", "requirement": "", "reason": "Fine.", "quote": "", "severity": "note"},
    ]
    (tmp_path / "found.json").write_text(json.dumps(proposals))
    with endpoint().in_thread() as near:
        words = [*files(tmp_path, answers(60)), "--judge", f"judge@{near.base_url}"]
        assert run([*words, "--proposals", str(tmp_path / "found.json")]) == 0
    [test] = record(tmp_path)["tests"]
    assert test["accepted"]
    assert test["author"].endswith("found.json")


def test_the_second_judge_can_only_refuse(tmp_path: Path) -> None:
    def families(body: dict[str, Any]) -> str:
        prompt = "\n".join(message["content"] for message in body["messages"])
        from tests.improvement.essays import section

        if body["model"] == "writer":
            return BRINGS
        asked = section(prompt, "criterion"), section(prompt, "submission")
        right = judge(BETTER, asked[1]) if "tides" in asked[0] or "moon" in asked[0] else judge(*asked)
        # The other family is right under the original, and says MET of everything under the new wording.
        verdict = ("MET" if BETTER in asked[0] else right) if body["model"] == "other" else judge(*asked)
        return json.dumps({"explanation": "So.", "criterion_status": verdict})

    from autorubric.testing import LoopbackEndpoint

    with LoopbackEndpoint(replier=families).in_thread() as near:
        words = [*files(tmp_path, answers(240), only="Tides"), *models(near.base_url)]
        words += ["--test-judge", f"other@{near.base_url}"]
        assert run(words) == 0
    [test] = record(tmp_path)["tests"]
    assert not test["accepted"]
    assert test["second"] == pytest.approx(-0.6, abs=0.06)
    assert test["reason"].startswith("the second judge agrees less")


@pytest.mark.parametrize(("count", "split"), [(240, "three"), (120, "nested")])
def test_weights_are_fitted_and_tested_like_a_wording(tmp_path: Path, count: int, split: str) -> None:
    # People score by the tides alone, 0 or 1; the rubric gives 10 of 14 points to kindness.
    data = answers(count)
    for number, item in enumerate(data):
        score = float(number % 5 < 2)
        item.metadata["people"] = score if split == "three" else str(score)  # a CSV file has text
    with endpoint(
        lambda requirement, text: judge(BETTER if "tides" in requirement else requirement, text)
    ).in_thread() as near:
        words = [*files(tmp_path, data), "--judge", f"judge@{near.base_url}", "--weights", "--score", "people"]
        assert run([*words, "--split", split]) == 0
    assert record(tmp_path)["split"] == split
    weights = record(tmp_path)["weights"]
    assert weights["accepted"]
    made = Rubric.from_file(tmp_path / "out" / "rubric.json")
    assert made[0].weight > 13 and made[1].weight < 1
    assert sum(one.weight for one in made) == pytest.approx(14, abs=0.01)


def test_weights_that_fit_already_are_said_to(tmp_path: Path, capsys: Capture) -> None:
    data = answers(240)
    for item in data:
        assert item.ground_truth is not None
        item.metadata["people"] = data.compute_weighted_score(item.ground_truth)
    with endpoint(
        lambda requirement, text: judge(BETTER if "tides" in requirement else requirement, text)
    ).in_thread() as near:
        words = [*files(tmp_path, data), "--judge", f"judge@{near.base_url}", "--weights", "--score", "people"]
        assert run(words) == 0
    assert "weights: no other weights fit the scores better" in capsys.readouterr().out
    assert record(tmp_path)["weights"] is None


def test_without_labels_a_panel_decides_and_the_result_says_so(tmp_path: Path, capsys: Capture) -> None:
    data = RubricDataset("How do tides arise?", RUBRIC)
    for item in answers(60):
        data.add_item(item.submission, "", id=item.id)

    def replier(body: dict[str, Any]) -> str:
        from tests.improvement.essays import section

        prompt = "\n".join(message["content"] for message in body["messages"])
        if body["model"] == "writer":
            return BRINGS
        asked = section(prompt, "criterion"), section(prompt, "submission")
        verdict = (
            judge(*asked) if body["model"] == "a" else judge(BETTER if "tides" in asked[0] else asked[0], asked[1])
        )
        return json.dumps({"explanation": "So.", "criterion_status": verdict})

    from autorubric.testing import LoopbackEndpoint

    with LoopbackEndpoint(replier=replier).in_thread() as near:
        words = files(tmp_path, data)
        assert run([*words, *models(near.base_url)]) == 2
        assert "one judge asked once cannot disagree with itself" in capsys.readouterr().err
        assert (
            run(
                [
                    *words,
                    "--judge",
                    f"a@{near.base_url}",
                    "--judge",
                    f"b@{near.base_url}",
                    "--writer",
                    f"writer@{near.base_url}",
                ]
            )
            == 0
        )
    assert "by panel agreement without labels" in capsys.readouterr().out
    assert record(tmp_path)["tests"][0]["accepted"]
    assert "Without labels." in (tmp_path / "out" / "report.html").read_text()


def test_a_dry_run_counts_the_calls_that_are_left_and_asks_nothing(tmp_path: Path, capsys: Capture) -> None:
    split = {"criterion": "Tides", "requirement": BETTER, "second": "Says why.", "reason": "Two."}
    (tmp_path / "two.json").write_text(json.dumps([split]))
    proposals = ["--proposals", str(tmp_path / "two.json")]
    cases = {
        "nested": [],
        "three sets": ["--split", "three", "--rounds", "1"],
        "a split without a writer": [*proposals, "--split", "three"],
        "a second judge": ["--test-judge", "strict@URL"],
    }
    for name, more in cases.items():
        with endpoint(written=BRINGS).in_thread() as near:
            words = [*files(tmp_path / name, answers(60), only="Tides"), "--judge", f"judge@{near.base_url}"]
            words += [word.replace("URL", near.base_url) for word in more]
            if "without" not in name:
                words += ["--writer", f"writer@{near.base_url}", "--candidates", "3"]

            def plan(words: list[str] = words) -> int:
                assert run([*words, "--dry-run"]) == 0
                lines = [line for line in capsys.readouterr().out.splitlines() if " to make, " in line]
                return sum(int(line.split(":")[1].split()[0].replace(",", "")) for line in lines)

            planned = plan()
            assert near.counts.requests == 0 and not (tmp_path / name / "out").exists()
            assert run([*words, "--budget-tokens", "40000"]) == 1
            capsys.readouterr()
            assert (name, plan() + near.counts.requests) == (name, planned)
            assert run(words) == 0
            capsys.readouterr()
            assert (name, near.counts.requests, plan()) == (name, planned, 0)


def test_what_cannot_be_improved_is_refused_before_anything_is_spent(tmp_path: Path, capsys: Capture) -> None:
    other = RubricDataset("How?", Rubric([Criterion(name="Else", requirement="Is odd."), RUBRIC[1]]))
    for item in answers(60):
        other.add_item(item.submission, "", list(item.ground_truth or []))
    with endpoint(written=BRINGS).in_thread() as near:
        chosen = models(near.base_url)
        words = files(tmp_path, answers(60))
        other.to_file(tmp_path / "other.json")
        answers(60, labels=["MET", "UNMET"]).to_file(tmp_path / "constant.json")
        answers(7).to_file(tmp_path / "few.json")
        rows = [{"prompt": "How?", "submission": f"s{n}", RUBRIC[0].name: "MET"} for n in range(60)]
        (tmp_path / "columns.jsonl").write_text("\n".join(map(json.dumps, rows)))
        (tmp_path / "bad.json").write_text('[{"criterion": "Tidess", "requirement": "x"}, 3]')
        (tmp_path / "map.json").write_text('{"proposals": {"Tides": "x"}}')
        (tmp_path / "nothing.json").write_text('[{"criterion": "Tides"}]')
        (tmp_path / "nameless.json").write_text('[{"requirement": "x"}]')
        (tmp_path / "config.yaml").write_text("candidates: many\n")
        cases: dict[str, tuple[list[str], str]] = {
            "labels of another rubric": (
                ["--labels", str(tmp_path / "other.json"), *chosen],
                "belong to another rubric",
            ),
            "constant labels": (["--labels", str(tmp_path / "constant.json"), *chosen], "the labels are constant"),
            "a column of labels": (
                ["--labels", str(tmp_path / "columns.jsonl"), *chosen, "--repeat", "3"],
                f"no item has labels, but the metadata has {RUBRIC[0].name!r}, named like criteria",
            ),
            "few labels": (["--labels", str(tmp_path / "few.json"), *chosen], "Label at least"),
            "one group": ([*chosen, "--group-by", "prompt"], "all 60 items are in one group"),
            "no writer": (chosen[:2], "nothing to try; pass --writer MODEL"),
            "no judge": (chosen[2:], "no judge; pass --judge MODEL"),
            "per item": ([*chosen, "--calls", "per_item"], "needs per_criterion"),
            "proposals": ([*chosen, "--proposals", str(tmp_path / "bad.json")], "did you mean 'Tides'?"),
            "no list": ([*chosen, "--proposals", str(tmp_path / "map.json")], "expected a list of proposals"),
            "no proposal": (
                [*chosen, "--proposals", str(tmp_path / "nothing.json")],
                "no proposal has a 'requirement'; there is nothing to try",
            ),
            "no name": ([*chosen, "--proposals", str(tmp_path / "nameless.json")], "it has no 'criterion'"),
            "no score": ([*chosen, "--weights", "--score", "mark"], "--score 'mark': no item has it in its metadata"),
            "a criterion": ([*chosen, "--criterion", "Tide"], "no criterion is named 'Tide'"),
            "config": ([*chosen, "-c", str(tmp_path / "config.yaml")], "config.yaml: candidates is 'many'"),
            "same judge": ([*chosen, "--test-judge", chosen[1]], "choose a different model"),
        }
        for name, (more, expected) in cases.items():
            assert run([*words, *more]) == 2, name
            assert expected in capsys.readouterr().err, name
        assert near.counts.requests == 0
        assert not (tmp_path / "out").exists()
        assert run([*words, *chosen]) == 0
        asked = near.counts.requests
        assert run([*words, *chosen, "--rounds", "3"]) == 2
        assert "rounds: 2 before, now 3" in capsys.readouterr().err
        assert near.counts.requests == asked


async def test_the_function_is_the_command(tmp_path: Path) -> None:
    with endpoint(written=BRINGS).in_thread() as near:
        judge, writer = (f"{name}@{near.base_url}" for name in ("judge", "writer"))
        result = await improve_async(RUBRIC, labels=answers(60), judge=judge, writer=writer, out=tmp_path / "out")
    assert [one["criterion"] for one in result.accepted] == ["Tides"]
    assert str(result) == "1 of 1 tested change accepted; everything else is unchanged"
    with pytest.raises(InputError, match="no labelled items"):
        improve(RUBRIC, judge="builtin/offline", writer="builtin/offline")


def test_a_killed_run_resumes_and_pays_again_only_for_what_was_in_flight(tmp_path: Path) -> None:
    words = files(tmp_path, answers(60))
    with endpoint(written=BRINGS, latency="fixed:0.02").in_thread() as near:
        command = [*words, *models(near.base_url), "-j", "4"]
        for kill in range(1, 3):
            with WarmProcess(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
                while near.counts.requests < 80 * kill and running.poll() is None:
                    time.sleep(0.01)
                running.kill()
        assert run(command) == 0
        calls = near.counts.calls_by_body
        # The original is graded twice on 45 items under two criteria, on purpose. Beyond that, at most the
        # four calls in flight at each of two kills were sent again.
        assert 90 <= sum(calls.values()) - len(calls) <= 90 + 2 * 4
    assert [one["accepted"] for one in record(tmp_path)["tests"]] == [True]


@pytest.mark.parametrize("problem", ["down", "unreadable"])
def test_a_writer_that_fails_ends_the_run_and_the_same_command_asks_again(
    tmp_path: Path, capsys: Capture, problem: str
) -> None:
    broken = [True]

    def fault(body: dict[str, Any]) -> Fault | None:
        down = broken[0] and problem == "down" and body["model"] == "writer"
        return Fault("broken", status=500) if down else None

    def written(prompt: str) -> str:
        return "I would rather not." if broken[0] else BRINGS

    with endpoint(written=written, faults=fault).in_thread() as near:
        words = [*files(tmp_path, answers(60), only="Tides"), *models(near.base_url), "--retry", "0"]
        assert run(words) == 1
        assert "the writer proposed no alternatives for 'Tides'" in capsys.readouterr().out
        assert not (tmp_path / "out" / "improvement.json").exists()
        broken[0] = False
        asked = near.counts.requests
        assert run(words) == 0
        assert near.counts.requests > asked
    assert record(tmp_path)["tests"][0]["accepted"]


@pytest.mark.parametrize("status", [200, 400, 500])
def test_a_criterion_without_alternatives_is_skipped_unless_the_endpoint_failed(
    tmp_path: Path, capsys: Capture, status: int
) -> None:
    def about_kindness(body: dict[str, Any]) -> bool:
        return body["model"] == "writer" and "Is kind." in section(body["messages"][-1]["content"], "criterion")

    def fault(body: dict[str, Any]) -> Fault | None:
        return Fault("broken", status=status) if status > 200 and about_kindness(body) else None

    def written(prompt: str) -> str:
        return wordings() if "Is kind." in section(prompt, "criterion") else BRINGS

    def said(requirement: str, submission: str) -> str:  # also wrong about the kindness of every answer with a 7
        right = judge(requirement, submission)
        return {"MET": "UNMET", "UNMET": "MET"}[right] if "kind" in requirement and "7" in submission else right

    with endpoint(said, written, faults=fault).in_thread() as near:
        words = [*files(tmp_path, answers(60)), *models(near.base_url), "--retry", "0"]
        assert run(words) == (1 if status == 500 else 0)
    assert "the writer proposed no alternatives for 'Kind'" in capsys.readouterr().out
    if status == 500:
        assert not (tmp_path / "out" / "improvement.json").exists()
    else:
        assert [test["criterion"] for test in record(tmp_path)["tests"] if test["accepted"]] == ["Tides"]
        assert list(record(tmp_path)["skipped"]) == ["Kind"]


def test_copies_that_differ_in_white_space_decide_nothing_a_second_time(tmp_path: Path, capsys: Capture) -> None:
    labels = answers(60)
    with endpoint(written=BRINGS).in_thread() as near:
        words = [*files(tmp_path, labels, only="Tides"), *models(near.base_url)]
        assert run(words) == 0
        asked = near.counts.requests
        for item in labels:
            item.submission = item.submission.replace(" ", "  ") + "\r\n"
        words = [*files(tmp_path, labels, only="Tides"), *models(near.base_url)]
        assert run([*words[:-5], str(tmp_path / "second"), *words[-4:]]) == 2
        assert "were used by an earlier run and cannot decide" in capsys.readouterr().err
        assert near.counts.requests == asked
        # Records of earlier versions have digests of whole texts, with the reasoning.
        for item in labels:
            item.submission = f"<think>So.</think> {item.submission}"
        texts = [(labels.get_item_prompt(n), item.submission) for n, item in enumerate(labels)]
        digests = [hash_item(*(" ".join(part.split()) for part in pair)) for pair in texts]
        (tmp_path / "labels.json.used.jsonl").write_text("".join(json.dumps({"item": one}) + "\n" for one in digests))
        words = [*files(tmp_path, labels, only="Tides"), *models(near.base_url)]
        assert run([*words[:-5], str(tmp_path / "third"), *words[-4:]]) == 2
        assert near.counts.requests == asked


def test_a_criterion_that_was_not_worked_on_is_named_with_the_reason(tmp_path: Path, capsys: Capture) -> None:
    constant = answers(60)
    for item in constant:
        assert item.ground_truth is not None
        item.ground_truth = [item.ground_truth[0], "MET"]
    with endpoint(written=BRINGS).in_thread() as near:
        assert run([*files(tmp_path, constant), *models(near.base_url)]) == 0
    assert "Kind: skipped: its labels are constant" in capsys.readouterr().out

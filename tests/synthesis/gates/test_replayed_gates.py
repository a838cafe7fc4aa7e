"""The gates on recorded replies: shares by hand, and what a file may not hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autorubric import InputError, gates
from autorubric.cli.app import run
from autorubric.synthesis.replayed_gates import GatesReplay
from tests.offenders import offenders

DRAWS = ("maker-a", "maker-b", "maker-a", "maker-b", "maker-a")


def row(refused: dict[str, int], labels: dict[str, list[str]]) -> dict[str, Any]:
    """A query whose criteria are refused by the first so many of five draws, with the labels of two people."""

    def entry(name: str, draw: int) -> dict[str, Any]:
        need = "none" if draw < refused[name] else "implicit"
        rest = {"quote": "", "surface": "none", "surface_asked": True, "answerable": True, "same_as": ""}
        return {"criterion_id": name, "reason": "So.", "need": need, **rest}

    relevance = [
        {"model": model, "reply": json.dumps({"licences": [entry(name, draw) for name in refused]})}
        for draw, model in enumerate(DRAWS)
    ]
    criteria = [{"id": name, "description": f"Says what {name} is about.", "weight": 5} for name in refused]
    people = {person: {name: said[place] for name, said in labels.items()} for place, person in enumerate("ab")}
    return {"query": "Why?", "criteria": criteria, "relevance": relevance, "labels": people}


GOOD, BAD = ["good", "good"], ["not asked", "not asked"]
FIRST = row({"c1": 0, "c2": 1, "c3": 5, "c4": 4}, {"c1": GOOD, "c2": GOOD, "c3": BAD, "c4": ["good", "not asked"]})
SECOND = row({"c1": 0, "c2": 5, "c3": 3, "c4": 2}, {"c1": GOOD, "c2": GOOD, "c3": BAD, "c4": ["good", ""]})


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path


def replayed(path: Path, **more: Any) -> GatesReplay:
    found = gates(replay=path, **more).replayed
    assert found is not None
    return found


def test_shares_count_the_criteria_on_which_two_people_agree(tmp_path: Path) -> None:
    found = replayed(write(tmp_path / "r.jsonl", FIRST, SECOND), least_error=0)
    # Good: c1 and c2 of both, of which the second c2 is refused by all draws. Bad: both c3, by five and by three.
    shares = {name: (share.hits, share.of) for name, share in found.compute_shares().items()}
    assert shares["good kept"] == (3, 4)
    assert shares["bad rejected"] == (2, 2)
    assert found.count_by_gate()["licensed"] == (2, 1, 1)
    # Both labelled seven criteria and agree on six: 4 good, 2 bad. Chance: 5/7 * 4/7 + 2/7 * 3/7 = 26/49.
    assert (len(found.both), len(found.labelled)) == (7, 6)
    assert found.compute_kappa() == pytest.approx((6 / 7 - 26 / 49) / (1 - 26 / 49))
    # Of 30 draws on these six, 1 + 5 + 2 are wrong. Pairs that err together: 10 of the second c2, 1 of its c3.
    share, correlation = found.estimate_draw_error()
    assert (share.hits, share.of) == (8, 30)
    assert correlation == pytest.approx((11 / 60 - (8 / 30) ** 2) / (8 / 30 * 22 / 30))


def test_two_recordings_of_a_query_are_one_cluster_and_people_are_told_by_name(tmp_path: Path) -> None:
    once = replayed(write(tmp_path / "once.jsonl", FIRST), least_error=0)
    swapped = {**FIRST, "labels": dict(reversed(FIRST["labels"].items()))}
    twice = replayed(write(tmp_path / "twice.jsonl", FIRST, swapped), least_error=0)
    shares = [found.compute_shares()["good kept"] for found in (once, twice)]
    assert [share.of for share in shares] == [2, 4]
    assert shares[0][2:] == shares[1][2:]
    assert once.compute_kappa() == pytest.approx(twice.compute_kappa())


def test_a_majority_worth_too_few_votes_is_undecided(tmp_path: Path) -> None:
    # Draws that never disagree are worth one vote.
    path = write(tmp_path / "r.jsonl", row({"c1": 5, "c2": 0}, {"c1": BAD, "c2": GOOD}))
    assert replayed(path).compute_shares()["bad undecided"].hits == 1
    assert replayed(path, least_sure=0.6).compute_shares()["bad rejected"].hits == 1
    assert replayed(path, least_error=0.01).compute_shares()["bad rejected"].hits == 1


def test_a_reply_that_cannot_be_read_is_counted_and_is_no_vote(tmp_path: Path) -> None:
    broken = {**FIRST, "relevance": [{"model": "m", "reply": "I would rather not."}]}
    found = replayed(write(tmp_path / "r.jsonl", broken))
    assert found.lost == 1
    assert {one.outcome for one in found.judged} == {"undecided"}


def test_what_a_file_may_not_hold_is_named_with_its_line(tmp_path: Path) -> None:
    changes: dict[str, Callable[[dict[str, Any]], object]] = {
        "label": lambda one: one["labels"]["a"].update(c1="fine"),
        "'c9', which is not a criterion": lambda one: one["labels"]["a"].update(c9="good"),
        "occurs twice": lambda one: one["criteria"].append(one["criteria"][0]),
        "one row for each of the 2 judges": lambda one: one.update(judges=["x", "y"], votes={"c1": [[True]]}),
        "expected equal lengths": lambda one: one.update(judges=["x"], votes={"c1": [[True]], "c2": [[True, None]]}),
        "weight": lambda one: one["criteria"][0].update(weight=11),
        "licences": lambda one: one.update(licences=[]),
        "3 annotators gave labels (a, b, c); keep the labels of two": lambda one: one["labels"].update(
            c={"c1": "good"}
        ),
    }
    with offenders() as case:
        for told, change in changes.items():
            with case(told):
                wrong = json.loads(json.dumps(FIRST))
                change(wrong)
                path = write(tmp_path / "r.jsonl", FIRST, wrong)
                with pytest.raises(InputError, match=r"r\.jsonl:2: ") as raised:
                    gates(replay=path)
                assert told in str(raised.value)
        with case("empty"), pytest.raises(InputError, match="no row"):
            gates(replay=write(tmp_path / "empty.jsonl"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "pass either --replay FILE or RUN with --record FILE"),
        (("--record", "r.jsonl"), "needs the run directory"),
        (("--replay", "r.jsonl", "--least-sure", "1"), "--least-sure below 1"),
        (("--replay", "r.jsonl", "--sample", "2"), "--sample has no effect without --record FILE"),
        (("nowhere", "--record", "r.jsonl", "--json"), "--json has no effect without --replay FILE"),
        (("nowhere", "--record", "r.jsonl"), "is not a run of `synthesize --profile full`"),
    ],
)
def test_modes_that_make_no_sense_are_refused(
    arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["gates", *arguments]) == 2
    assert told in capsys.readouterr().err

"""What a public function refuses before it reads a file or asks a model, each with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import autorubric
from autorubric import Criterion, Rubric, RubricDataset
from autorubric.errors import AutorubricError
from tests.offenders import offenders

OFFLINE = "builtin/offline"
RUBRIC = Rubric([Criterion(name="Short", requirement="Contains at most 3 words.")])
DATASET = RubricDataset("Why?", RUBRIC)
DATASET.add_item("Because.", "")


async def shown(state: Any) -> None:
    """A progress function that nothing awaits."""


# The function, what it gets, and the words of its refusal.
REFUSED: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str]] = [
    (autorubric.gates, (), {"record": "out.jsonl"}, "record needs the run directory, as the first argument"),
    (autorubric.gates, ("run",), {"replay": "in.jsonl"}, "replay reads only the file; leave out the run directory"),
    (autorubric.gates, (), {"replay": "in.jsonl", "least_error": 0.5}, "least_error must be below 0.5"),
    (autorubric.gates, (), {"replay": "in.jsonl", "least_sure": 1.0}, "and least_sure below 1"),
    (
        autorubric.gates,
        (),
        {"replay": "in.jsonl", "sample": 3},
        "sample has no effect without record=FILE; leave",
    ),
    (autorubric.evolve, ("run",), {"judge": OFFLINE, "out": "out"}, "pass writer=MODEL"),
    (
        autorubric.evolve,
        ("run",),
        {"judge": OFFLINE, "writer": OFFLINE, "few_shot": 2, "training_data": "labelled.json", "out": "out"},
        "have labels of other criteria; evolve cannot use it",
    ),
    (autorubric.evolve, (), {"judge": OFFLINE, "writer": OFFLINE, "out": "out"}, "no run; pass RUN"),
    (
        autorubric.grade,
        (DATASET,),
        {"judge": OFFLINE, "progress": shown, "out": "out"},
        "it is a coroutine function, which would never be awaited; pass a plain function",
    ),
    (
        autorubric.improve,
        (RUBRIC,),
        {
            "labels": DATASET,
            "judge": OFFLINE,
            "weights": True,
            "few_shot": 2,
            "training_data": "labelled.json",
            "out": "out",
        },
        "shows labels to the judge; leave it out of improve",
    ),
    (
        autorubric.improve,
        (),
        {"labels": DATASET, "judge": OFFLINE, "weights": True, "out": "out"},
        "no rubric; pass RUBRIC (Python: the first argument)",
    ),
    (autorubric.review, (RUBRIC,), {"out": "out"}, "no reviewer; pass reviewer=MODEL"),
    (autorubric.review, (), {"reviewer": OFFLINE, "out": "out"}, "no rubric; pass RUBRIC"),
    (autorubric.compare, ("run",), {}, "nothing to compare with; pass --against RUN (Python: against=)"),
    (autorubric.grade, (RUBRIC,), {"submissions": DATASET}, "a RubricDataset is passed as data"),
    (
        autorubric.grade,
        (DATASET,),
        {"judge": OFFLINE, "prompt": "When?"},
        "DATASET has its own prompt; leave",
    ),
    (autorubric.grade, (DATASET,), {"judge": OFFLINE, "ray_address": "a:1"}, "no effect without engine=ray; leave"),
    (
        autorubric.improve,
        (RUBRIC,),
        {"labels": DATASET, "judge": OFFLINE, "weights": True, "rounds": 3, "out": "out"},
        "rounds has no effect without writer=MODEL; leave it out, or pass writer=MODEL",
    ),
    (autorubric.select, ("run",), {"margin": 0.5, "out": "out"}, "margin has no effect without keep=pairs"),
    (autorubric.select, ("run",), {"k": 3, "out": "out"}, "k has no effect without sample=MODEL"),
    (autorubric.select, ("run",), {"keep": "few", "out": "out"}, "keep 'few' is not one of best"),
    (
        autorubric.reward,
        (["A"],),
        {"rubric": RUBRIC, "judge": OFFLINE, "overlong_factor": 0.3, "dropout_seed": 2, "out": "out"},
        "overlong_factor has no effect without overlong; leave it out, or pass overlong",
    ),
    (
        autorubric.synthesize,
        (["Why?"],),
        {"models": OFFLINE, "until": "gates", "pool": 3, "responses_column": "a", "out": "out"},
        "pool, responses_column, until=gates need the full profile",
    ),
    (autorubric.grade, (RUBRIC,), {"rubric": RUBRIC, "submissions": ["A"]}, "the rubric is given twice"),
    (autorubric.grade, (DATASET,), {"annotator": "ana"}, "annotator and column of labels need labels=FILE"),
    (autorubric.grade, (["A"],), {"submissions": ["B"], "rubric": RUBRIC}, "submissions are given twice, as data"),
    (autorubric.grade, (["A"],), {}, "pass rubric= for submissions without their own rubric"),
    (autorubric.grade, (DATASET,), {"column": {"submission": "text"}}, "the dataset is a dataset; leave it out"),
    (autorubric.grade, (DATASET,), {"data": DATASET}, "data is given twice, as the first argument and by name"),
    (
        autorubric.synthesize,
        (["Why?"],),
        {"models": OFFLINE, "out": "out", "shard": "1/2", "processes": 2},
        "shard and processes are mutually exclusive; pass one of them",
    ),
    (autorubric.serve, (), {"out": "out", "evolve": OFFLINE}, "pass judge=MODEL as well"),
    (
        autorubric.serve,
        (),
        {"out": "out", "judge": OFFLINE, "most_added": 2},
        "no effect without evolve=MODEL; leave it out, or pass evolve=MODEL",
    ),
]


def test_what_cannot_be_done_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with offenders() as case:
        for function, data, settings, words in REFUSED:
            with case(f"{function.__name__}: {words}"), pytest.raises(AutorubricError, match=re.escape(words)):
                function(*data, **settings)
    assert not list(tmp_path.iterdir())

"""Public data with the verdicts of people and of models on one criterion, as datasets and judges of this package."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autorubric import Criterion, CriterionGrader, Rubric, RubricDataset, evaluate_sync
from autorubric.core.judgment import JudgmentFailure
from autorubric.graders.judge import Judge, JudgeInput
from autorubric.graders.without_model import ScriptedJudge, Word

SHARED = Path(__file__).parents[2] / "shared" / "data"
EXCERPTS = Path(__file__).parent / "data"

Verdict = int | None
"""1 for MET, 0 for UNMET, None where there is none."""


@dataclass(frozen=True)
class Recorded:
    """Items, with verdicts of people and models.

    Attributes:
        title: a description of the data.
        requirement: the criterion.
        texts: of the items.
        people: for each item the verdicts of people.
        judges: for each judge, its repeated verdicts on each item.
        questions: what each item belongs to.
    """

    title: str
    requirement: str
    texts: list[str]
    people: list[list[int]]
    judges: dict[str, list[list[Verdict]]]
    questions: list[str]

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """1 where more than half of the people say MET; where as many do as do not, what the first says."""
        return np.array([int(2 * sum(said) + said[0] > len(said)) for said in self.people])

    @property
    def rubric(self) -> Rubric:
        """The one criterion."""
        return Rubric([Criterion(name="Criterion", requirement=self.requirement)])

    def dataset(self) -> RubricDataset:
        """The items with the majority of the people as label."""
        made = RubricDataset(prompt=None, rubric=self.rubric, name=self.title)
        for place, (text, label) in enumerate(zip(self.texts, self.labels, strict=True)):
            truth = ["MET" if label else "UNMET"]
            metadata = {"item": str(place)}
            made.add_item(text, "", truth, prompt=self.questions[place], id=str(place), metadata=metadata)
        return made

    def judge(self, name: str, draw: int | None = None) -> ScriptedJudge:
        """A judge that gives a model's verdicts: one of its repeats, or each of them in turn."""
        return scripted(name, self.judges[name], draw)

    def person(self, number: int) -> ScriptedJudge:
        """A person as a judge."""
        return scripted(f"person {number + 1}", [[said[number]] for said in self.people], 0)

    def graded(self, judge: Judge, folder: Path, name: str) -> Path:
        """The run directory of a judge on all items."""
        grader = CriterionGrader(judge=judge)
        settings: dict[str, Any] = {"experiments_dir": folder, "experiment_name": name, "show_progress": False}
        evaluate_sync(self.dataset(), grader, **settings)
        return folder / name


def scripted(name: str, verdicts: Sequence[Sequence[Verdict]], draw: int | None) -> ScriptedJudge:
    """A judge that reads its verdicts from a list, by the item's id."""
    turns = [0] * len(verdicts)

    def word(inputs: JudgeInput, _: int) -> Word:
        place = int(inputs.item or 0)
        turn = turns[place] if draw is None else draw
        turns[place] += 1
        said = verdicts[place][turn]
        return JudgmentFailure("parse", "no verdict") if said is None else "MET" if said else "UNMET"

    return ScriptedJudge(name, word)


def khan(folder: Path, wording: str = "criteria") -> Recorded:
    """Short answers of students to ten questions: three people, five models, three verdicts each."""
    rows = _rows(folder, "khan_saq_responses")
    return Recorded(
        "short answers",
        "Meets the criteria for scoring of its question.",
        [row["submission"] for row in rows],
        [row["human"] for row in rows],
        {name: [row["llm"][name][wording] for row in rows] for name in rows[0]["llm"]},
        [f"Question {row['item']}" for row in rows],
    )


def llmbar(folder: Path) -> Recorded:
    """Pairs of outputs: an expert's preference, four models with a plain prompt, in both orders."""
    rows = _rows(folder, "llmbar")
    names = [name for name in rows[0]["judges"] if name.endswith("/Vanilla")]

    def first(said: str | None) -> Verdict:
        return None if said is None else int(said == "1")

    return Recorded(
        "LLMBar",
        "Output 1 follows the instruction better than output 2.",
        [row["id"] for row in rows],
        [[int(row["label"] == 1)] for row in rows],
        {name.split("/")[0]: [[first(said) for said in row["judges"][name]] for row in rows] for name in names},
        [row["id"] for row in rows],
    )


def mt_bench(_: Path) -> Recorded:
    """Pairs of answers: two or more people, and GPT-4, whose preference counts if it is the same in both orders.

    Another person is the first on each pair in turn, and decides where people are divided.
    """
    rows = _rows(EXCERPTS, "mt_bench_verdicts")
    turned = [row["people"][n % 2 :] + row["people"][: n % 2] for n, row in enumerate(rows)]
    pairs = [f"{row['question']}, turn {row['turn']}: {row['model_a']} and {row['model_b']}" for row in rows]
    return Recorded(
        "MT-Bench",
        "The second answer is better than the first.",
        pairs,
        [[int(said == "model_b") for said in people] for people in turned],
        {"GPT-4": [[int(row["gpt4"] == "model_b")] for row in rows]},
        [str(row["question"]) for row in rows],
    )


SETS: dict[str, Callable[[Path], Recorded]] = {"khan": khan, "llmbar": llmbar, "mt_bench": mt_bench}


def _rows(folder: Path, name: str) -> list[dict[str, Any]]:
    plain, packed = folder / f"{name}.jsonl", folder / f"{name}.jsonl.gz"
    text = plain.read_text("utf-8") if plain.exists() else gzip.decompress(packed.read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def default_folder() -> Path:
    """The full data next to the checkout, else the excerpts in it."""
    return SHARED if (SHARED / "khan_saq_responses.jsonl").exists() else EXCERPTS

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autorubric import Criterion, CriterionGrader, DataItem, Rubric, RubricDataset
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.llm.request import Failure, Request
from autorubric.testing import PromptSections, ScriptedModel

MET = '{"explanation": "It is there.", "criterion_status": "MET"}'
UNMET = '{"explanation": "It is missing.", "criterion_status": "UNMET"}'

Say = Callable[[Request], Any]


def essays(count: int = 4) -> RubricDataset:
    """Two criteria of weights 3 and 1; MET and UNMET are 0.75."""
    rubric = Rubric(
        [Criterion(name="Causes", weight=3, requirement="Names a cause"), Criterion(weight=1, requirement="Is kind")]
    )
    items = [DataItem(f"Essay {n}.", f"essay {n}", id=f"e{n}") for n in range(count)]
    return RubricDataset("Explain.", rubric, items, name="essays")


def says(request: Request) -> str | Failure:
    """MET on the first criterion, UNMET on the other."""
    return MET if PromptSections(request)["criterion"] == "Names a cause" else UNMET


class Bench:
    """A scripted judge and the grader around it."""

    def __init__(self, say: Say = says, name: str = "scripted") -> None:
        self.model = ScriptedModel(say, name, price=(1.0, 1.0))
        self.grader = CriterionGrader(judge=CriterionJudge(self.model, "judge"))

    @property
    def asked(self) -> list[tuple[str, str]]:
        """Item and requirement of every call, sorted."""
        return sorted((r.item, PromptSections(r)["criterion"]) for r in self.model.requests)


@pytest.fixture
def bench() -> Bench:
    return Bench()

"""Nothing here needs a hub: models and tokenizers are made in the tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from autorubric import CriterionGrader
from autorubric.graders.criterion_judge import CriterionJudge
from autorubric.testing import PromptSections, ScriptedModel
from autorubric.training import AuditPlan, Rewarder, Sample, rewards_now, rubric_from

os.environ.setdefault("HF_HUB_OFFLINE", "1")

MET = '{"explanation": "Yes.", "criterion_status": "MET"}'
UNMET = '{"explanation": "No.", "criterion_status": "UNMET"}'


@pytest.fixture
def stopping(tmp_path: Path) -> Callable[[], Rewarder]:
    """Gives a rewarder whose audit has found a gap and says stop: 80 audits saw none, then the judge is fooled."""

    def made() -> Rewarder:
        fooled = ScriptedModel(lambda request: MET if "a" in PromptSections(request)["submission"] else UNMET)
        strict = ScriptedModel(lambda request: UNMET, name="strict")
        judge = CriterionGrader(judge=CriterionJudge(fooled, "judge"), run_dir=tmp_path / "rewards")
        plan = AuditPlan(CriterionGrader(judge=CriterionJudge(strict, "strict")), share=1.0, on_gap="stop")
        source = Rewarder(judge, audit=plan)
        rubric = rubric_from([{"criterion": "Holds an a.", "points": 1}], "the test")
        for texts in (["b" * n for n in range(1, 81)], ["a" * n for n in range(1, 121)]):
            rewards_now(source, [Sample(text, rubric, "Why?") for text in texts])
            while source.auditor is None or source.auditor.open:
                rewards_now(source, [])
        assert source.should_stop
        return source

    return made

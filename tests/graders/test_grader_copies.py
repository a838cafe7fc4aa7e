import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autorubric import (
    Criterion,
    CriterionGrader,
    FewShotConfig,
    JudgeSpec,
    LengthPenalty,
    LLMClient,
    LLMConfig,
    Rubric,
    RubricDataset,
    agree,
    grade,
    lint,
    reward,
    synthesize,
)
from autorubric.llm.records.ledger import Ledger
from autorubric.training.audit import AuditPlan
from autorubric.training.rewarder import Rewarder, Sample, make_rewarder, rewards_now
from tests.offenders import each

COPIES: list[Callable[[Any], Any]] = [lambda it: pickle.loads(pickle.dumps(it)), copy.deepcopy]
OFFLINE = LLMConfig("builtin/offline")
SHORT = Rubric([Criterion(name="Short", requirement="Contains at most 5 words.")])
LABELLED = RubricDataset("Why?", SHORT, name="labelled")
LABELLED.add_item("Because of the moon.", "short", ["MET"])
LABELLED.add_item("Nobody knows, and many have looked.", "long", ["UNMET"])
GRADERS: list[dict[str, Any]] = [
    {"judge_model_config": OFFLINE},
    {"judge_model_config": OFFLINE, "system_prompt": "You are strict.", "length_penalty": LengthPenalty()},
    {"judges": [JudgeSpec(OFFLINE, "a"), JudgeSpec(OFFLINE, "b", repeats=3)], "aggregation": "any"},
    {"judge_model_config": OFFLINE, "training_data": LABELLED, "few_shot_config": FewShotConfig(n_examples=1)},
    {"judge_model_config": OFFLINE, "llm_calls": "per_item", "compound": "as_is", "seed": 3},
]


@each("settings", GRADERS)
def test_a_copy_of_a_grader_has_its_settings_and_gives_its_reports(settings: dict[str, Any]) -> None:
    grader = CriterionGrader(**settings)
    before = SHORT.grade_sync("Because of the moon.", grader, query="Why?")
    for copied in COPIES:
        other = copied(grader)
        assert other.describe() == grader.describe()
        assert SHORT.grade_sync("Because of the moon.", other, query="Why?") == before


def test_copies_of_a_grader_with_a_directory_share_its_replies(tmp_path: Path) -> None:
    grader = CriterionGrader(judge_model_config=OFFLINE, run_dir=tmp_path)
    SHORT.grade_sync("Because of the moon.", grader)
    other = pickle.loads(pickle.dumps(grader))
    SHORT.grade_sync("Because of the moon.", other)
    assert [one.calls for one in other.totals()] == [one.calls for one in grader.totals()] == [1]
    other.close()
    grader.close()


async def test_a_copy_of_a_client_finds_the_replies_of_its_folder(tmp_path: Path) -> None:
    with LLMClient(LLMConfig("builtin/offline", cache_enabled=True, cache_dir=tmp_path)) as client:
        said = await client.generate("Answer briefly.", "Why do tides rise?")
        for copied in COPIES:
            with copied(client) as other:
                assert await other.generate("Answer briefly.", "Why do tides rise?") == said
                assert other.cache_stats()["count"] == 1


def test_a_grader_whose_copies_could_spend_more_than_its_budget_is_not_copied(tmp_path: Path) -> None:
    bounded = LLMConfig("builtin/offline", max_tokens=100)
    with Ledger.open(tmp_path) as ledger:
        refused = [
            (CriterionGrader(judge_model_config=bounded, budget_tokens=10_000), "a grader with a budget cannot be"),
            (CriterionGrader(judge_model_config=OFFLINE, ledger=ledger), "pass run_dir instead of ledger"),
            (make_rewarder(CriterionGrader(judge_model_config=bounded, budget_tokens=9)), "with a budget cannot be"),
        ]
        for copied in COPIES:
            for one, message in refused:
                with pytest.raises(TypeError, match=message):
                    copied(one)


def test_a_rewarder_is_copied_unless_one_process_has_to_keep_what_it_finds(tmp_path: Path) -> None:
    sample = Sample("Because of the moon.", SHORT)
    rewarder = make_rewarder("builtin/offline")
    [before] = rewards_now(rewarder, [sample])
    audited = make_rewarder("builtin/offline", run_dir=tmp_path, audit=AuditPlan(CriterionGrader.of_checks()))
    for copied in COPIES:
        assert rewards_now(copied(rewarder), [sample]) == [before]
        with pytest.raises(TypeError, match="audits, repetitions or rubric versions cannot be copied"):
            copied(audited)


class Scaled(Rewarder):
    def __init__(self, grader: CriterionGrader, *, scale: float) -> None:
        super().__init__(grader)
        self.scale = scale


def test_a_rewarder_of_a_program_is_copied_with_what_it_added() -> None:
    rewarder = Scaled(CriterionGrader(judge_model_config=OFFLINE), scale=10.0)
    before = rewards_now(rewarder, [Sample("Because of the moon.", SHORT)])
    for copied in COPIES:
        assert copied(rewarder).scale == 10.0
        assert rewards_now(copied(rewarder), [Sample("Because of the moon.", SHORT)]) == before


def test_results_are_copied_whole(tmp_path: Path) -> None:
    graded = grade(LABELLED, judge="builtin/offline", out=tmp_path / "graded")
    values: list[Any] = [
        graded,
        synthesize(["Why?"], models="builtin/offline", out=tmp_path / "made"),
        reward(["It does."], rubric=SHORT, judge="builtin/offline", out=tmp_path / "rewards"),
        agree(graded),
        lint(SHORT),
        SHORT,
        LABELLED,
        OFFLINE,
    ]
    for copied in COPIES:
        assert [copied(one) for one in values] == values

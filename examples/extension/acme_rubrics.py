"""One extension of each kind; docs/howto/extend.md explains them."""

from collections.abc import Mapping, Sequence
from typing import Any

from autorubric import Criterion
from autorubric.checks import CheckOutcome, check
from autorubric.core.judgment import CriterionVerdict, Judgment
from autorubric.formats import Format, Record
from autorubric.graders.judge import Ask, JudgeInput
from autorubric.llm import Provider
from autorubric.llm.request import Model
from autorubric.metrics import Statistic
from autorubric.metrics.agreement_statistics import Part
from autorubric.training.trainer_files import Adapter, Kept


def scotts_pi(part: Part) -> float | None:
    """Chance-corrected agreement; chance comes from the shares of both raters together (Scott 1955)."""
    n = part.counts.sum()
    chance = float((((part.counts.sum(axis=0) + part.counts.sum(axis=1)) / (2 * n)) ** 2).sum())
    return None if chance == 1.0 else float((part.counts.trace() / n - chance) / (1.0 - chance))


SCOTT = Statistic("scotts_pi", scotts_pi, title="Scott's pi")


@check("names_unit")
def names_unit(text: str, *, unit: str) -> CheckOutcome:
    """The submission contains the unit."""
    return CheckOutcome(unit in text, f"{unit!r} is {'present' if unit in text else 'missing'}")


class Keyword:
    """A criterion is met where the submission contains its requirement."""

    def __init__(self, model: Model, judge_id: str, weight: float, *, options: Any) -> None:
        self.judge_ids, self.weight = (judge_id,), weight

    async def judge(self, inputs: JudgeInput, wanted: Sequence[int], ask: Ask) -> list[Judgment]:
        """One judgment for each wanted criterion."""
        met = [inputs.criteria[place].requirement in inputs.submission for place in wanted]
        verdicts = [CriterionVerdict.MET if one else CriterionVerdict.UNMET for one in met]
        return [Judgment(self.judge_ids[0], verdict=one, weight=self.weight) for one in verdicts]


ACME = Provider("https://llm.acme.example/v1", key_env=("ACME_API_KEY",), base_url_env="ACME_BASE_URL")


def matches(row: Mapping[str, Any]) -> bool:
    """Whether a row is in this format."""
    return "exam_question" in row


def read(row: Mapping[str, Any]) -> Record:
    """The record of a row."""
    points = [Criterion(requirement=text, weight=weight) for text, weight in row["points"].items()]
    return Record(tuple(points), row["exam_question"])


def write(record: Record) -> dict[str, Any]:
    """The row of a record."""
    points = {criterion.requirement: criterion.weight for criterion in record.criteria}
    return {"exam_question": record.prompt, "points": points}


EXAM = Format("exam", "Exam questions with points", (".jsonl", ".json"), matches, read, write)


def instruction(kept: Kept) -> dict[str, Any]:
    """A row of Alpaca's layout."""
    return {"instruction": kept.query.text, "output": kept.chosen.candidate.answer}


ALPACA = Adapter({"alpaca/train.jsonl": instruction})

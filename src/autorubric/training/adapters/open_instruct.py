"""Rewards for open-instruct: a verifier, the ground truth of its rows, and overrides of ground truths."""

import json
import re
from collections.abc import Mapping
from typing import Any

from autorubric.core.criterion import Criterion
from autorubric.core.entries import from_json_text
from autorubric.core.rubric import Rubric
from autorubric.errors import InputError
from autorubric.graders.judge import Query
from autorubric.training.adapters import require_value
from autorubric.training.evolution.versions import EVOLVED
from autorubric.training.queries import read_rubric
from autorubric.training.rewarder import RewardSource, Sample, rewards_now

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
PERSISTENT, EVOLVING = "persistent", "evolving"
"""Kinds of criteria in `rubrics_types`. Criteria that evolution added are of the second kind."""


def rubric_verifier(source: RewardSource, name: str = "rubric") -> Any:
    """Define a verifier for open-instruct that grades by the rubric in the ground truth.

    open-instruct builds every verifier that is defined when it starts, so call this function in a module that is
    imported earlier, such as your copy of the training script. The name `rubric` replaces open-instruct's own
    verifier; its rows have the dataset `general_rubric`, so train with `--remap_verifier general_rubric=rubric`. The
    verifier is sent to the actors that generate: give it `HttpRewards`, so that all share one `autorubric serve`.

    As in open-instruct, the text in the last `<answer>` is graded, or the whole response if there is none. A missing
    reward raises an error, while open-instruct's own verifier gives 0. A `RewardGap` is raised if an audit says that
    training should stop.

    Args:
        source: gives the rewards.
        name: the verifier's name.
    """
    from open_instruct.ground_truth_utils import VerificationResult, VerifierFunction

    class AutorubricVerifier(VerifierFunction):  # type: ignore[misc]
        """Gives rewards by rubrics."""

        def __init__(self, verifier_config: Any = None) -> None:
            super().__init__(name, verifier_config=verifier_config, weight=1.0)

        async def async_call(
            self, tokenized_prediction: Any, prediction: str, label: Any, query: str | None = None, *_: Any, **__: Any
        ) -> Any:
            """Return the verification result of one response."""
            [reward] = await source.rewards([read_label(prediction, label, query, len(tokenized_prediction))])
            return VerificationResult(require_value(reward))

        def __call__(
            self, tokenized_prediction: Any, prediction: str, label: Any, query: str | None = None, *_: Any, **__: Any
        ) -> Any:
            """Return the same, for callers without an event loop."""
            [reward] = rewards_now(source, [read_label(prediction, label, query, len(tokenized_prediction))])
            return VerificationResult(require_value(reward))

    return AutorubricVerifier


def read_label(prediction: str, label: Any, query: str | None = None, length: int | None = None) -> Sample:
    """Build the sample from a response and its ground truth, which is JSON text or an object.

    Raises:
        InputError: the ground truth has no rubric, or the rubric is wrong.

    Example:
        >>> label = '{"query": "Why?", "rubrics": [{"description": "Is brief.", "weight": 1}]}'
        >>> sample = read_label("Let me think. <answer>Because.</answer>", label)
        >>> sample.submission, sample.query
        ('Because.', 'Why?')
    """
    truth = from_json_text(label, "ground_truth")
    if not isinstance(truth, Mapping):
        raise InputError(f"ground_truth is {truth!r:.60}; expected an object with query and rubrics")
    answers = _ANSWER.findall(prediction)
    submission = answers[-1].strip() if answers else prediction
    asked = truth.get("query") or truth.get("Question") or query
    return Sample(submission, read_rubric({"rubrics": truth.get("rubrics")}, "ground_truth"), asked, length=length)


def ground_truth(query: Query, rubric: Rubric) -> str:
    """Return the ground truth of a row, with the kind of each criterion.

    Criteria that evolution added or that are tagged `evolving` are `evolving`; the others, and those tagged
    `persistent`, are `persistent`.

    Example:
        >>> rubric = Rubric.from_dict([{"requirement": "Is brief.", "weight": 2, "tags": ["evolving"]}])
        >>> ground_truth("Why?", rubric)
        '{"query": "Why?", "rubrics": [{"description": "Is brief.", "weight": 2}], "rubrics_types": ["evolving"]}'
    """
    from autorubric.formats import Record, find_format

    prompt = query if isinstance(query, str) else [dict(turn) for turn in query]
    row = find_format("open-instruct").write(Record(tuple(rubric), prompt)).row
    kinds = [_classify(criterion) for criterion in rubric]
    return json.dumps({**json.loads(row["ground_truth"]), "rubrics_types": kinds}, ensure_ascii=False)


def ground_truth_overrides(rubrics: Mapping[int, tuple[Query, Rubric]]) -> dict[int, list[str]]:
    """Return each row's new ground truth by index, as open-instruct's data loader reads `ground_truth_overrides`.

    Args:
        rubrics: the query and current rubric of each row, by its index in the training data.

    Example:
        >>> rubric = Rubric.from_dict([{"requirement": "Is brief.", "weight": 2}])
        >>> sorted(ground_truth_overrides({7: ("Why?", rubric)}))
        [7]
    """
    return {index: [ground_truth(query, rubric)] for index, (query, rubric) in rubrics.items()}


def _classify(criterion: Criterion) -> str:
    evolved = EVOLVING in criterion.tags or EVOLVED in criterion.metadata
    return EVOLVING if evolved and PERSISTENT not in criterion.tags else PERSISTENT

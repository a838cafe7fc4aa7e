"""Rewards for OpenRLHF: a `reward_func` for its file, and the calls and replies of its remote reward model.

Labels are strings: put the rubric there as JSON, `{"query": …, "rubrics": […]}` or the list alone.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from autorubric.errors import InputError
from autorubric.files.strict_json import parse_json
from autorubric.rows import Record, RowReader
from autorubric.training.queries import read_rubric
from autorubric.training.rewarder import RewardSource, Sample, rewards_now
from autorubric.training.rewards import Reward, RewardFailed

_SPECIAL = re.compile(r"(?:<[|｜][^|｜>\s]{1,40}[|｜]>|</s>|<eos>|<end_of_turn>|<pad>)\Z")
_LONGEST = 50


def reward_function(source: RewardSource) -> Callable[..., dict[str, Any]]:
    """Return a `reward_func(queries, prompts, labels)` for the file that `--reward.remote_url` names.

    A missing reward raises an error. OpenRLHF logs it, and its training step fails without the sample's reward;
    `on_failure='neutral'` of the source's rule avoids that.

    Args:
        source: gives the rewards.
    """

    def reward_func(
        queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str], **_: Any
    ) -> dict[str, Any]:
        import torch

        reply = remote_reply(rewards_now(source, remote_samples(queries, prompts, labels)))
        missing = [place for place, value in enumerate(reply["rewards"]) if value is None]
        if missing:
            raise RewardFailed(f"no reward for {len(missing)} of {len(labels)} samples; the log says why")
        logs = {name: torch.tensor(values) for name, values in reply["extra_logs"].items()}
        return {
            "rewards": torch.tensor(reply["rewards"]),
            "scores": torch.tensor(reply["scores"]),
            "extra_logs": logs,
        }

    return reward_func


def remote_samples(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str]) -> list[Sample]:
    """Read the samples of a request; a query is the prompt and the response in one string, with special tokens.

    Raises:
        InputError: the lists differ in length, a query does not contain its prompt, or a label has no rubric.

    Example:
        >>> label = '{"query": "Why?", "rubrics": [{"criterion": "Is brief.", "points": 1}]}'
        >>> [sample] = remote_samples(["<user>Why?<bot>Because.<|im_end|>"], ["<user>Why?<bot>"], [label])
        >>> sample.submission, sample.query
        ('Because.', 'Why?')
    """
    if not len(queries) == len(prompts) == len(labels):
        counts = f"{len(queries)} queries, {len(prompts)} prompts and {len(labels)} labels"
        raise InputError(f"{counts}; expected the same number of each")
    found = []
    reader = RowReader("the label", ("query", "rubric"), "a label that holds one of them")
    for place, (query, prompt, label) in enumerate(zip(queries, prompts, labels, strict=True)):
        if not prompt:
            raise InputError(f"prompts[{place}] is empty; expected the prompt that the query begins with")
        before, inside, response = query.partition(prompt)
        if not inside or len(before) > 40:
            raise InputError(f"labels[{place}]: the query does not begin with its prompt")
        where = f"labels[{place}]"
        value = _parse_label(label, where)
        asked = reader.read(Record(where, place, value)).read_value("query") if isinstance(value, dict) else None
        found.append(Sample(_strip_special_tokens(response), read_rubric(value, where), asked or prompt))
    return found


def remote_reply(rewards: Sequence[Reward]) -> dict[str, Any]:
    """Return the reply of a remote reward model, as JSON values; a missing reward is None.

    `scores` are the rewards clipped to [0, 1]; OpenRLHF filters groups by them.

    Example:
        >>> remote_reply([Reward(-0.5, {}, coverage=1.0)])["scores"]
        [0.0]
    """
    values = [reward.value for reward in rewards]
    return {
        "rewards": values,
        "scores": [None if value is None else max(0.0, min(1.0, value)) for value in values],
        "extra_logs": {
            "rubric_coverage": [0.0 if reward.coverage is None else reward.coverage for reward in rewards],
            "rubric_judge_failed": [float(reward.failure is not None) for reward in rewards],
            "rubric_audit_gap": [float(reward.status == "gap") for reward in rewards],
        },
    }


def _parse_label(text: str, where: str) -> Any:
    try:
        return parse_json(text, where)
    except InputError as error:
        raise InputError(error.problems, "a label is JSON with the row's rubric and, optionally, its query") from None


def _strip_special_tokens(text: str) -> str:
    """Return the response without the special tokens at its end."""
    text = text.strip()
    while found := _SPECIAL.search(text[-_LONGEST:]):
        text = text[: len(text) - len(found[0])].rstrip()
    return text

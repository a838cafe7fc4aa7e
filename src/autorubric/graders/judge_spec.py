"""One judge of a grader as a user describes it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autorubric.errors import ConfigError
from autorubric.llm.config import LLMConfig

MOST_REPEATS = 100


@dataclass(init=False)
class JudgeSpec:
    """A model that judges, what it is called, and how much it counts.

    Attributes:
        llm_config: the model, also as a text (`MODEL` or `MODEL@BASE_URL`); `judge_model_config` is another name
            for it.
        judge_id: what its votes are filed under.
        weight: how much it counts where votes are weighted; above 0.
        repeats: how often it is asked each question; see `Repeated`.

    Raises:
        ValueError: the weight or the number of repeats cannot be used, or there is no model or no id.

    Example:
        >>> JudgeSpec(LLMConfig("openai/gpt-5.1"), "strict", weight=2).judge_model_config.model
        'openai/gpt-5.1'
        >>> JudgeSpec(LLMConfig("openai/gpt-5.1"), "strict", weight=0)
        Traceback (most recent call last):
        autorubric.errors.ConfigError: judge 'strict' has weight=0; expected a finite number above 0
    """

    llm_config: LLMConfig
    judge_id: str
    weight: float = 1.0
    repeats: int = 1

    def __init__(
        self,
        llm_config: LLMConfig | str | None = None,
        judge_id: str = "",
        weight: float = 1.0,
        *,
        judge_model_config: LLMConfig | str | None = None,
        repeats: int = 1,
    ) -> None:
        config = judge_model_config if llm_config is None else llm_config
        config = LLMConfig(config) if isinstance(config, str) else config
        problems = []
        if (llm_config is None) == (judge_model_config is None):
            problems.append(f"judge {judge_id!r} needs one of judge_model_config and llm_config")
        elif not isinstance(config, LLMConfig):
            problems.append(
                f"judge {judge_id!r} has a model of type {type(config).__name__}; expected LLMConfig or a text"
            )
        if not isinstance(judge_id, str) or not judge_id.strip():
            problems.append(f"judge_id={judge_id!r}; expected a name")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
            problems.append(f"judge {judge_id!r} has weight={weight!r}; expected a finite number above 0")
        if isinstance(repeats, bool) or not isinstance(repeats, int) or not 1 <= repeats <= MOST_REPEATS:
            problems.append(
                f"judge {judge_id!r} has repeats={repeats!r}; expected a whole number from 1 to {MOST_REPEATS}"
            )
        if problems or config is None:
            raise ConfigError(problems)
        self.llm_config = config
        self.judge_id = judge_id
        self.weight = weight
        self.repeats = repeats

    @property
    def judge_model_config(self) -> LLMConfig:
        """The model."""
        return self.llm_config

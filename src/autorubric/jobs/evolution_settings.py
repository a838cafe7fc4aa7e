"""The settings of evolution that `evolve` and `serve` share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autorubric.errors import ConfigError
from autorubric.jobs.judges import ModelSettings, key_variable, reply_limit
from autorubric.llm.config import LLMConfig
from autorubric.llm.http.secrets import VariableName
from autorubric.settings import Names, setting

if TYPE_CHECKING:
    from autorubric.training.evolution.proposals import EvolutionRule


class EvolutionSettings(ModelSettings):
    """How to evolve rubrics."""

    most_added: int = setting(3, "Maximum criteria added per version.", group="Evolution", ge=1, le=50)
    retire_after: int = setting(8, "Retire a criterion after N equal verdicts.", group="Evolution", ge=2, le=10_000)
    most_rollouts: int = setting(8, "Maximum rollouts per query, shown and graded.", group="Evolution", ge=3, le=100)
    retire_original: bool = setting(
        False, "Also retire criteria of the original rubric (default: never).", group="Evolution"
    )
    persistent: Names = setting((), "Criterion that is never retired; repeatable.", group="Evolution")
    writer_key_env: VariableName | None = key_variable(
        "Environment variable with the API key of the model that proposes.", "Evolution"
    )
    writer_temperature: float = setting(0.7, "Temperature of the writer.", group="Evolution")
    writer_max_tokens: int = reply_limit(4096, "Maximum tokens per reply of the writer.", "Evolution")

    def build_evolution_rule(self) -> EvolutionRule:
        """Return the rule for what an evolution may change.

        Raises:
            ConfigError: settings contradict each other.
        """
        from autorubric.training.evolution.proposals import EvolutionRule

        split = getattr(self, "compound", "as_is") == "split"
        if self.persistent and not (self.retire_original or split):
            raise ConfigError(
                "--persistent has no effect without --retire-original or --compound split: "
                "original criteria never change"
            )
        return EvolutionRule(
            self.most_added,
            self.retire_after,
            self.most_rollouts,
            self.retire_original,
            tuple(self.persistent),
            split=split,
        )

    def build_writer_config(self, name: str) -> dict[str, LLMConfig]:
        """Return the configuration of the model that proposes criteria."""
        how = {"temperature": self.writer_temperature, "max_tokens": self.writer_max_tokens}
        [spec] = self.build_specs([name], self.writer_key_env, "writer-", **how)
        return {"writer": spec.llm_config}


OF_EVOLUTION: Any = tuple(name for name in EvolutionSettings.model_fields if name not in ModelSettings.model_fields)
"""Settings that have no effect without a model that proposes criteria."""

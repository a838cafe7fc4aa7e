"""How rubrics evolve: what may enter, what may retire, and what a proposal has to pass."""

from __future__ import annotations

from dataclasses import dataclass, field

from autorubric.errors import ConfigError
from autorubric.synthesis.thresholds import GateSettings

EVOLUTION_GATES = GateSettings(
    order=("answerable", "licensed", "surface", "separates", "redundant"), licence_draws=3, least_error=0.0
)
"""Unlike in synthesis, a plain majority of relevance judgments rejects: nobody reads the criterion before it pays."""


@dataclass(frozen=True, slots=True)
class EvolutionRule:
    """How rubrics evolve.

    Attributes:
        most_added: the most criteria that one evolution adds or returns.
        retire_after: the latest verdicts that have to be equal for a criterion to retire.
        most_rollouts: the most rollouts of a query that the model is shown and candidates are graded on.
        retire_original: whether criteria of the first version may retire too.
        persistent: names of criteria that never retire; those tagged `persistent` or `gate` never do.
        gates: what a proposal has to pass.
        split: whether criteria of the first version that have several demands are split before anything else.

    Raises:
        ConfigError: a number is out of range.
    """

    most_added: int = 3
    retire_after: int = 8
    most_rollouts: int = 8
    retire_original: bool = False
    persistent: tuple[str, ...] = ()
    gates: GateSettings = field(default=EVOLUTION_GATES)
    split: bool = False

    def __post_init__(self) -> None:
        least = {"most_added": 1, "retire_after": 2, "most_rollouts": self.gates.separates.least_responses}
        problems = [
            f"{name}={getattr(self, name)!r}; expected at least {low}"
            for name, low in least.items()
            if getattr(self, name) < low
        ]
        if problems:
            raise ConfigError(problems)

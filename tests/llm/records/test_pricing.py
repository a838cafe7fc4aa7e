from pathlib import Path

import pytest

from autorubric.llm.records.call_rows import CallRow
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Failure, Reply, Usage
from autorubric.testing import ScriptedModel


class Priced(ScriptedModel):
    """$1 for a million prompt tokens, $10 for a million others; no price for longer prompts."""

    def cost(self, usage: Usage) -> float | None:
        return None if usage.prompt_tokens > 5000 else (usage.prompt_tokens + 10 * usage.completion_tokens) / 1e6


async def test_calls_get_the_price_of_their_model_that_was_unknown_before(tmp_path: Path) -> None:
    def row(number: int, outcome: Reply | Failure, model: str = "local/priced", bound: int | None = None) -> CallRow:
        return CallRow(bytes([number] * 16), "q", "judge", model, 0, 0, outcome, token_bound=bound)

    rows = [
        row(1, Reply("", usage=Usage(3000, 200))),  # 0.003 + 0.002
        row(2, Reply("", usage=Usage(3000, 200), cost=0.25)),  # is known
        row(3, Reply("", usage=Usage(9000, 200))),  # has no price
        row(4, Reply("")),  # without tokens
        row(5, Reply("", usage=Usage(3000, 200)), "local/other"),
        row(6, Failure("timeout", "no answer"), bound=4000),  # 4000 tokens of a reply at most: 0.04
        row(7, Failure("timeout", "no answer")),  # nothing was billed
    ]
    with Ledger.open(tmp_path) as ledger:
        for one in rows:
            await ledger.record(one)
        assert (ledger.sum_spent().cost, ledger.sum_spent().unpriced) == (0.25, 5)
        for _ in range(2):  # the second time, nothing is left to be priced
            ledger.set_costs([Priced({}, name="local/priced")])
            assert ledger.sum_spent().cost == pytest.approx(0.25 + 0.005 + 0.04)
            assert ledger.sum_spent().unpriced == 3

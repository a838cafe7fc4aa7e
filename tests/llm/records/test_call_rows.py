"""A reply comes back from its row as it was."""

from __future__ import annotations

from dataclasses import replace

from autorubric.llm.billing import Bill
from autorubric.llm.records.call_rows import CallRow, SealedRow, unpack_reply, unseal
from autorubric.llm.request import Reply, Request, Usage
from autorubric.testing import ScriptedModel
from tests.offenders import each

SHORT = Reply("MET", usage=Usage(10, 20, 3, 4), cost=0.25)


@each(
    "reply",
    [
        SHORT,
        replace(SHORT, limit=512),
        replace(SHORT, usage=Usage(10, 20, 3, 4, 5)),
        replace(SHORT, usage=Usage(10, 20, 3, 4, 5), limit=512),
        replace(SHORT, usage=None, cost=None),
        # Around the lengths from which a row is compressed, in either way.
        *(replace(SHORT, text="x" * length, limit=512) for length in (190, 200, 4000, 4100, 9000)),
    ],
)
def test_a_reply_of_any_length_keeps_its_limit_and_its_counts(reply: Reply) -> None:
    sealed = SealedRow.pack(CallRow(b"k" * 16, "q1", "judge", "local/tiny", 0, 0, reply))
    assert sealed.is_reply
    assert unpack_reply(unseal(sealed.key, sealed.data, sealed.digest), fresh=reply.fresh) == reply


def test_a_row_counts_repetitions_after_truncated_replies_as_reasks() -> None:
    asked = Request((), "judge", item="q1", draw=7, reask=2, cut_off=3)
    row = CallRow.build(b"k" * 16, ScriptedModel({"judge": "MET"}), asked, SHORT, Bill(Usage(10, 20), 0.25, 900, 1.5))
    assert (row.item, row.role, row.draw, row.reask) == ("q1", "judge", 7, 5)
    assert (row.cost_bound, row.token_bound) == (1.5, 900)

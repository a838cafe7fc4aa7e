from __future__ import annotations

import json
from typing import Any

from autorubric.llm.batches.dialect import BatchDialect
from autorubric.llm.batches.link import BatchLink, read_object
from autorubric.llm.batches.other_dialects import AnthropicDialect, GeminiDialect, MistralDialect
from autorubric.llm.http.retry import Backoff


class Pages(BatchLink):
    """A provider whose list has these pages."""

    def __init__(self, *pages: Any) -> None:
        super().__init__("http://localhost/v1", {}, 1.0, 0, Backoff(0.0, 0.0), ())
        self.asked: list[str] = []
        self._pages = iter(pages)

    async def find(self, path: str, most: int = 0, field: str = "") -> dict[str, Any]:
        self.asked.append(path)
        return read_object(json.dumps(next(self._pages)).encode(), field)


def batches(*ids: str, more: bool) -> dict[str, Any]:
    return {"data": [*({"id": one} for one in ids), None], "has_more": more}


OPENAI = [batches("a", "b", more=True), batches("c", more=False)]
FULL = [{"id": f"job-{number}"} for number in range(100)]
LISTS: list[tuple[BatchDialect, list[Any], list[str], list[str]]] = [
    (BatchDialect(), OPENAI, ["/batches?limit=100", "/batches?limit=100&after=b"], ["a", "b", "c"]),
    (
        AnthropicDialect(),
        OPENAI,
        ["/messages/batches?limit=100", "/messages/batches?limit=100&after_id=b"],
        ["a", "b", "c"],
    ),
    (
        GeminiDialect(),
        [{"operations": [{"name": "batches/1"}], "nextPageToken": "t1"}, {"operations": [{"name": "batches/2"}]}],
        ["/v1beta/batches?pageSize=100", "/v1beta/batches?pageSize=100&pageToken=t1"],
        ["batches/1", "batches/2"],
    ),
    (
        MistralDialect(),
        [{"data": FULL}, {"data": FULL}, {"data": [{"id": "last"}]}],
        [
            "/batch/jobs?page_size=100&order_by=-created",
            "/batch/jobs?page_size=100&order_by=-created&page=1",
            "/batch/jobs?page_size=100&order_by=-created&page=2",
        ],
        [*(one["id"] for one in FULL + FULL), "last"],
    ),
    # Together has one page, which is an array.
    (BatchDialect(), [[{"id": "a"}, {"id": "b"}]], ["/batches?limit=100"], ["a", "b"]),
    # A page that says there are more but holds none ends the list.
    (BatchDialect(), [{"data": [], "has_more": True}], ["/batches?limit=100"], []),
]


async def test_every_page_of_a_list_is_read_once() -> None:
    for dialect, pages, asked, ids in LISTS:
        link = Pages(*pages)
        assert [batch.id async for batch in dialect.list(link)] == ids
        assert link.asked == asked

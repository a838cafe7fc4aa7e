"""The tests that one process has collected, for the test workers that are forked from it."""

from __future__ import annotations

from typing import Any, cast

import pytest

sessions: list[pytest.Session] = []
"""The session that has collected all tests, in `tests.warm_workers` and its forks; empty elsewhere."""
reports: list[pytest.CollectReport] = []
"""Reports on modules that it skipped or could not collect."""


def take_over(session: pytest.Session) -> None:
    """Give the collected tests to a worker's session, instead of collecting them again."""
    if not sessions or not hasattr(session.config, "workerinput"):
        return
    (before,) = cast("list[Any]", sessions)
    before.config = before._fixturemanager.config = session.config
    for item in before.items:
        for node in item.iter_parents():
            node.config = session.config

    def perform_collect() -> None:
        hook = session.config.hook
        for report in reports:
            hook.pytest_collectreport(report=report)
        session.items = before.items
        session.testscollected = len(session.items)
        hook.pytest_collection_modifyitems(session=session, config=session.config, items=session.items)
        hook.pytest_collection_finish(session=session)

    cast("Any", session).perform_collect = perform_collect

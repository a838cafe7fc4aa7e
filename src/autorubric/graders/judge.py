"""The shape of every judge, simple or made of others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

from autorubric.core.judgment import Opinion
from autorubric.graders.case import Case
from autorubric.llm.executor import FollowUp
from autorubric.llm.model import Model
from autorubric.llm.request import Answer, Failure, Reply, Request, Unreadable

Ask: TypeAlias = Callable[
    [Model, Request, Callable[[Reply], Answer[Any] | Unreadable], FollowUp], Awaitable[Answer[Any] | Failure]
]
"""`Executor.ask_for`, or anything of its shape: the one way in which judges reach models."""


class Judge(Protocol):
    """Judges criteria of a case. A panel and a cascade are judges made of judges."""

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """The ids of the simple judges inside, in order; no id twice."""
        ...

    async def judge(self, case: Case, wanted: Sequence[int], ask: Ask) -> list[Opinion]:
        """The opinion on each wanted criterion (an index into `case.criteria`), in the order of `wanted`.

        A call that failed or could not be read is an opinion with a mistake; nothing is raised for it.
        """
        ...

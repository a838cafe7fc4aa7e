"""How a run ends that an error breaks off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from autorubric.llm.executor import Executor


@asynccontextmanager
async def no_call_left_behind(executor: Executor | None) -> AsyncIterator[None]:
    """A block behind which no call goes on: where it raises, calls in flight are given up and waited for.

    What comes out is the error itself, not the group that tasks raised it in.

    Example:
        >>> import asyncio
        >>> async def main() -> None:
        ...     async with no_call_left_behind(None), asyncio.TaskGroup() as tasks:
        ...         tasks.create_task(asyncio.sleep(0))
        ...         raise OSError("the disk is full")
        >>> asyncio.run(main())
        Traceback (most recent call last):
        OSError: the disk is full
    """
    try:
        yield
    except BaseException as error:
        if executor is not None:
            executor.abandon("the run was broken off")
            await executor.drain()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None

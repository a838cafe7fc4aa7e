"""The settings of every function that can send its requests in batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Self

from pydantic import PlainValidator, model_validator

from autorubric.errors import ConfigError
from autorubric.llm.batches.setting import POLL, Batching, batches_on
from autorubric.settings import Settings, setting

_LOG = logging.getLogger("autorubric.batches")
_ALL = ("", "auto", "true")
_NONE = ("none", "false")


def _read_size(value: Any) -> int | None:
    """The most requests in a batch, 0 for the provider's limit; None without batches."""
    if isinstance(value, bool) or value is None:
        return 0 if value else None
    text = str(value).strip().lower()
    if text in _ALL or text in _NONE:
        return 0 if text in _ALL else None
    if isinstance(value, float) or not text.isdecimal() or int(text) > 1_000_000:
        raise ValueError("expected the most requests in one batch, up to 1,000,000")
    return int(text)


class BatchSettings(Settings):
    """Whether requests are sent in batches."""

    batch: Annotated[Any, PlainValidator(_read_size)] = setting(
        None,
        "Send requests in batches, at about half the price, within a day; SIZE is the most in one batch, 0 (the "
        "default) the provider's limit.",
        metavar="[SIZE]",
        group="Endpoint",
    )
    batch_detach: bool = setting(
        False, "Exit with status 3 once batches are sent; the same command collects them.", group="Endpoint"
    )
    batch_cancel: bool = setting(
        False, "Cancel the open batches of the run, save what they have answered, and send nothing.", group="Endpoint"
    )
    batch_poll: float = setting(
        POLL, "Seconds before a batch is first checked.", group="Endpoint", hidden=True, gt=0, le=3600
    )

    @model_validator(mode="after")
    def _check_batches(self) -> Self:
        for name in ("batch_detach", "batch_cancel"):
            if getattr(self, name) and self.batch is None:
                flag = f"--{name.replace('_', '-')}"
                raise ConfigError(f"{flag} (in Python: {name}) has no effect without --batch; pass --batch too")
        return self

    def batching(self, notice: Callable[[str], object] | None = None) -> Batching | None:
        """How batches are sent; None where requests are sent one by one."""
        if self.batch is None:
            return None
        # A stronger judge needs the verdicts of the others, and judges need sampled answers.
        stages = 1 + sum(bool(getattr(self, name, ())) for name in ("escalate_to", "sample"))
        tell, detach = notice or _LOG.info, self.batch_detach and not self.batch_cancel
        return Batching(self.batch, detach, self.batch_poll, tell, stages, cancel=self.batch_cancel)


@contextmanager
def use_batches(settings: BatchSettings) -> Iterator[None]:
    """Let the models of a function with these settings send batches; a dry run ends with how long that may take."""
    how = settings.batching(getattr(getattr(settings, "progress", None), "tell", None))
    with batches_on(how):
        yield
    if how is not None and getattr(settings, "dry_run", False):
        how.notice(how.outlook)

"""The progress of a run: one state, reported to a callback, and the display that shows it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TextIO, TypeAlias

from autorubric.errors import pluralize
from autorubric.files.printable import escape_controls, unwrap_stream
from autorubric.llm.billing import Activity, Outages

if TYPE_CHECKING:
    from rich.table import Table

REPORT_SECONDS = 0.25
"""Seconds between two calls of a progress callback."""


@dataclass(frozen=True, slots=True)
class StageState:
    """The progress of one stage: rows done, in progress and failed; failed rows do not count as done.

    `in_flight` counts calls in flight or, if `unit` is set, whatever the unit names.
    """

    name: str
    done: int
    in_flight: int
    failed: int
    unit: str = "in flight"


@dataclass(frozen=True, slots=True)
class RunState:
    """The progress of a run.

    Attributes:
        rows: the total number of rows.
        finished: the number of rows that ended.
        stages: each stage.
        calls: model calls of this session that have ended, also those that failed.
        reused: answers that were recorded before.
        tokens: tokens of this session.
        cost: dollars of this session; None if a price is unknown.
        in_flight: calls that were sent and not answered yet.
        retries: attempts of this session that were followed by another one.
        rate_limited: the retries after a rate limit (HTTP 429).
        stand_ins: a sentence for each built-in model that stands in for a real one.
        outage: which models have not replied, for how long and why; empty if there is no outage.

    Example:
        >>> state = RunState(rows=8, finished=2, stages=[], calls=6, reused=0, tokens=900, cost=0.01)
        >>> f"{state.finished} of {state.rows}, ${state.cost}"
        '2 of 8, $0.01'
    """

    rows: int
    finished: int
    stages: Sequence[StageState]
    calls: int
    reused: int
    tokens: int
    cost: float | None
    in_flight: int = 0
    retries: int = 0
    rate_limited: int = 0
    stand_ins: Sequence[str] = ()
    outage: str = ""

    @classmethod
    def of(
        cls,
        rows: int,
        finished: int,
        stages: Sequence[StageState],
        activity: Iterable[Activity],
        stand_ins: Sequence[str] = (),
    ) -> RunState:
        """Return the state of a run whose calls are counted in `activity`."""
        roles = list(activity)
        return cls(
            rows=rows,
            finished=finished,
            stages=stages,
            calls=sum(role.paid + role.failures for role in roles),
            reused=sum(max(0, role.hits) for role in roles),
            tokens=sum(role.prompt_tokens + role.completion_tokens for role in roles),
            cost=None if any(role.unpriced for role in roles) else sum(role.cost for role in roles),
            in_flight=sum(role.in_flight for role in roles),
            retries=sum(role.retries for role in roles),
            rate_limited=sum(role.rate_limited for role in roles),
            stand_ins=stand_ins,
        )


class Timing(NamedTuple):
    """Seconds since the start, before the first call and in outages, and since a row ended; number of reused rows."""

    elapsed: float
    reading: float = 0.0
    rows_read: int = 0
    idle: float = 0.0


Progress: TypeAlias = Callable[[RunState], object]
"""Called at the start of a run, several times a second, and at its end."""


@asynccontextmanager
async def reported(progress: Progress | None, state: Callable[[], RunState]) -> AsyncIterator[None]:
    """Pass the state of a run to `progress` until the block ends.

    If `progress` raises, the run goes on without it, and the exception is raised at the end.
    """
    if progress is None:
        yield
        return
    raised: list[BaseException] = []

    async def repeat(tell: Progress) -> None:
        while not raised:
            await asyncio.sleep(REPORT_SECONDS)
            try:
                tell(state())
            except BaseException as error:  # even SystemExit, which would end the loop
                raised.append(error)

    progress(state())
    repeating = asyncio.create_task(repeat(progress))
    try:
        yield
    finally:
        repeating.cancel()
        if not raised:
            progress(state())
    if raised:
        raise raised[0]


@dataclass(eq=False, repr=False)
class ProgressDisplay(AbstractContextManager["ProgressDisplay"]):
    """A progress callback that shows a run on a terminal, in a notebook or in a log.

    A terminal shows a table that updates, a notebook an output that updates, and any other stream (a log) a line
    every five seconds and one at the end. Use it in a `with` statement, so that the last state is shown.

    Args:
        out: a terminal or a log; by default the cell of a notebook, or standard error.
        delay: seconds before the first line in a log; a run that ends earlier prints none.
        announce: called with a sentence for each built-in model that stands in for a real one.

    Example:
        >>> import io
        >>> log = io.StringIO()
        >>> with ProgressDisplay(log) as progress:
        ...     progress(RunState(4, 3, [StageState("graded", 2, 0, 1)], 8, 0, 950, 0.02))
        >>> print(log.getvalue().partition("; this")[0])
        [0s] 3/4 done; graded 2, 1 failed
    """

    out: TextIO | None = None
    _: KW_ONLY
    delay: float = 0.0
    announce: Callable[[str], object] | None = None
    _view: _View | None = field(default=None, init=False)
    _state: RunState | None = field(default=None, init=False)
    _started: float = field(default=0.0, init=False)
    _timing: Timing = field(default=Timing(0.0), init=False)
    _shown: float = field(default=0.0, init=False)
    _ended: tuple[int, float] = field(default=(0, 0.0), init=False)  # rows, and when the last one did

    def __call__(self, state: RunState) -> None:
        """Show a state, unless the last one was shown just now."""
        now = time.monotonic()
        if self._view is None:
            if self.announce is not None:
                for sentence in state.stand_ins:
                    self.announce(sentence)
            if not state.stages:  # a dry run
                return
            self._view, self._started = _open_view(self.out), now
            self._shown = now - self._view.interval + (0.0 if self._view.is_live else self.delay)
        elapsed = now - self._started
        is_reading = state.reused and not (state.calls or state.in_flight)
        _, reading, rows_read, _ = self._timing
        before = (elapsed, state.finished) if is_reading else (reading, rows_read)
        if state.outage:  # rows end as fast as before once it is over
            before = (reading + elapsed - self._timing.elapsed, rows_read)
        if state.finished != self._ended[0]:
            self._ended = state.finished, elapsed
        self._state, self._timing = state, Timing(elapsed, *before, elapsed - self._ended[1])
        if now - self._shown >= self._view.interval:
            with suppress(OSError):  # a log on a full disk or a terminal that is gone ends the display, not the run
                self._view.show(state, self._timing)
            self._state, self._shown = None, now

    def tell(self, sentence: str) -> None:
        """Show a sentence immediately."""
        if self.announce is not None:
            self.announce(sentence)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._view is None:
            return
        timing = self._timing._replace(elapsed=time.monotonic() - self._started)
        if self._state is not None and (self._view.is_live or timing.elapsed >= self.delay):
            with suppress(OSError):
                self._view.show(self._state, timing)
        if isinstance(self._view, _TerminalView):
            self._view.close()


def _open_view(out: TextIO | None) -> _View:
    if out is None and "IPython" in sys.modules and (display := _find_notebook_display()) is not None:
        return _NotebookView(display)
    out = out or sys.stderr
    return _TerminalView(out) if out.isatty() else _LogView(out)


@dataclass
class _LogView:
    out: TextIO
    last: str = ""
    interval: ClassVar[float] = 5.0
    is_live: ClassVar[bool] = False

    def show(self, state: RunState, timing: Timing) -> None:
        line = format_progress(state, timing)
        if line != self.last:
            print(f"[{format_duration(timing.elapsed)}] {line}", file=self.out, flush=True)
            self.last = line


@dataclass
class _NotebookView:
    display: Callable[..., Any]
    handle: Any = None
    interval: ClassVar[float] = 0.25
    is_live: ClassVar[bool] = True

    def show(self, state: RunState, timing: Timing) -> None:
        content = {"text/plain": f"{format_progress(state, timing)}; {format_duration(timing.elapsed)} so far"}
        if self.handle is None:
            self.handle = self.display(content, raw=True, display_id=True)
        else:
            self.handle.update(content, raw=True)


def _find_notebook_display() -> Callable[..., Any] | None:
    """Return IPython's `display` function if this process is the kernel of a notebook, else None."""
    shell = import_module("IPython").get_ipython()
    display: Callable[..., Any] = import_module("IPython.display").display
    return display if getattr(shell, "kernel", None) is not None else None


class _TerminalView:
    interval = 0.25
    is_live = True

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(file=unwrap_stream(out), markup=False), auto_refresh=False)
        self._live.start()

    def show(self, state: RunState, timing: Timing) -> None:
        self._live.update(_render_table(state, timing), refresh=True)

    def close(self) -> None:
        self._live.stop()


_View: TypeAlias = _LogView | _NotebookView | _TerminalView
"""Shows states, at most one per `interval` seconds; a live view replaces what it showed."""


def _render_table(state: RunState, timing: Timing) -> Table:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for stage in state.stages:
        failed = f"{stage.failed} failed" if stage.failed else ""
        bar = ProgressBar(total=max(state.rows, 1), completed=stage.done, width=24)
        done = f"{stage.done}/{state.rows}"
        table.add_row(escape_controls(stage.name), bar, done, f"{stage.in_flight} {stage.unit}", failed)
    outer = Table.grid()
    outer.add_row(table)
    outer.add_row("; ".join([*_format_session(state, timing), f"{format_duration(timing.elapsed)} so far"]))
    return outer


def format_progress(state: RunState, timing: Timing) -> str:
    """Rows, stages, calls, tokens, cost and time left in one line.

    Calls are omitted if there are none, as with a grader that makes none.

    Example:
        >>> stage = StageState("graded", 24, 6, 1)
        >>> format_progress(RunState(100, 25, [stage], 200, 0, 12_000, 0.5), Timing(10.0))
        '25/100 done; graded 24, 1 failed; this session: 200 calls (20/s), 0 in flight; 12.0k tokens; ...'
        >>> format_progress(RunState(100, 25, [stage], 200, 50, 12_000, 0.5, 6, 3, 2), Timing(10.0)).split("; ")[2:4]
        ['this session: 200 calls (20/s), 6 in flight, 50 reused', '3 retries, 2 of them rate limits (429)']
        >>> resumed = RunState(100, 25, [stage], 10, 20, 12_000, 0.5)  # after 90 s, it had read 20 rows
        >>> format_progress(resumed, Timing(95.0, 90.0, 20)).split("; ")[2::3]
        ['this session: 10 calls (2/s), 0 in flight, 20 reused', '1m15s left']
        >>> from dataclasses import replace
        >>> down = replace(resumed, outage="no reply from m for 40s (HTTP 502), retrying")
        >>> format_progress(down, Timing(95.0, 90.0, 20)).split("; ")[-2:]
        ['$0.50', 'no reply from m for 40s (HTTP 502), retrying']
    """
    stages = (f"{one.name} {one.done}" + (f", {one.failed} failed" if one.failed else "") for one in state.stages)
    rows = f"{state.finished}/{state.rows} done"
    return "; ".join([rows, ", ".join(stages), *_format_session(state, timing)])


def _format_session(state: RunState, timing: Timing) -> list[str]:
    """Calls, retries, tokens and cost of this session, and the time left."""
    parts, asking = [], timing.elapsed - timing.reading
    if state.calls or state.reused or state.in_flight:
        rate = state.calls / asking if asking > 0 else 0.0
        reused = f", {state.reused:,} reused" if state.reused else ""
        calls = f"{pluralize(state.calls, 'call')} ({rate:.0f}/s)"
        parts.append(f"this session: {calls}, {state.in_flight} in flight{reused}")
        if state.retries:
            limits = f", {state.rate_limited:,} of them rate limits (429)" if state.rate_limited else ""
            parts.append(f"{state.retries:,} {'retry' if state.retries == 1 else 'retries'}{limits}")
        parts += [f"{format_count(state.tokens)} tokens", format_cost(state.cost)]
    elif 0 < state.rows <= state.finished:
        parts.append("this session: 0 calls")
    if state.outage and state.finished < state.rows:
        parts.append(state.outage)
    elif timing.rows_read < state.finished < state.rows:
        left = asking / (state.finished - timing.rows_read) * (state.rows - state.finished)
        parts += [f"{format_duration(left)} left"] * (left > timing.idle)  # else rows end more slowly than before
    return parts


def format_outages(outages: Outages) -> str:
    """Describe the models that do not reply, and why.

    Example:
        >>> format_outages({"m": lambda: (80.0, "HTTP 503: 'loading'"), "other": lambda: None})
        "no reply from m for 1m20s (HTTP 503: 'loading'), retrying"
    """
    found = ((name, outage) for name, describe in outages.items() if (outage := describe()) is not None)
    return "; ".join(
        f"no reply from {name} for {format_duration(one[0])} ({one[1]}), retrying" for name, one in found
    )


def format_count(number: int) -> str:
    """Return a count in at most four characters and a unit.

    Example:
        >>> format_count(999), format_count(12_000), format_count(3_400_000)
        ('999', '12.0k', '3.4M')
    """
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)


def format_cost(cost: float | None, unknown: str = "cost unknown") -> str:
    """Return a cost in dollars, or the words for an unknown one.

    Example:
        >>> format_cost(1500), format_cost(0.0012), format_cost(None)
        ('$1,500.00', '$0.0012', 'cost unknown')
    """
    if cost is None:
        return unknown
    return f"${cost:,.2f}" if cost >= 0.1 or cost == 0 else f"${cost:.2g}"


def format_duration(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours.

    Example:
        >>> format_duration(42), format_duration(125), format_duration(7260)
        ('42s', '2m05s', '2h01m')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"

"""What a run shows while it is under way: one live line a stage on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from autorubric.cli.printable import escaped, raw
from autorubric.runs.progress import RunState, StageState

if TYPE_CHECKING:
    from rich.table import Table


class Display(Protocol):
    """Something that shows a state again and again."""

    interval: float

    def show(self, state: RunState, elapsed: float) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


class RunDisplay:
    """A progress callback that shows a run on standard error; first it prints which models are stand-ins."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._display: Display | None = None
        self._state: RunState | None = None
        self._started = self._shown = 0.0

    def __call__(self, state: RunState) -> None:
        """Show a state, unless the last one was shown just now."""
        now = time.monotonic()
        if self._display is None:
            for sentence in state.stand_ins:
                print(sentence, flush=True)
            if not state.stages:  # a dry run
                return
            self._display, self._started = display_for(self._out), now
        elif now - self._shown < self._display.interval:
            self._state = state
            return
        self._state, self._shown = state, now
        self._display.show(state, now - self._started)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._display is not None and self._state is not None:
            self._display.show(self._state, time.monotonic() - self._started)
            self._display.close()


def display_for(out: TextIO) -> Display:
    """The display that suits a stream: live on a terminal, lines elsewhere."""
    return _Live(out) if out.isatty() else _Lines(out)


def figures(state: RunState, elapsed: float) -> str:
    """Calls, retries, tokens and cost of this session, and the time left, in one line.

    Example:
        >>> figures(RunState(100, 25, [], 200, 50, 12_000, 0.5, 6, 3, 2), 10.0).split("; ")[:2]
        ['this session: 200 calls (20/s), 6 in flight, 50 reused', '3 retries, 2 of them rate limits (429)']
        >>> figures(RunState(100, 25, [], 200, 0, 12_000, 0.5), 10.0)
        'this session: 200 calls (20/s), 0 in flight; 12.0k tokens; $0.50; 30s left'
    """
    rate = state.calls / elapsed if elapsed > 0 else 0.0
    reused = f", {state.reused:,} reused" if state.reused else ""
    parts = [f"this session: {state.calls:,} calls ({rate:.0f}/s), {state.in_flight} in flight{reused}"]
    if state.retries:
        limits = f", {state.rate_limited:,} of them rate limits (429)" if state.rate_limited else ""
        parts.append(f"{state.retries:,} {'retry' if state.retries == 1 else 'retries'}{limits}")
    parts.append(f"{short(state.tokens)} tokens")
    parts.append(dollars(state.cost))
    if 0 < state.finished < state.rows:
        parts.append(f"{lasting(elapsed / state.finished * (state.rows - state.finished))} left")
    return "; ".join(parts)


def short(number: int) -> str:
    """A count in three or four signs.

    Example:
        >>> short(999), short(12_000), short(3_400_000)
        ('999', '12.0k', '3.4M')
    """
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)


def dollars(cost: float | None) -> str:
    """A price for a person; an unknown one says so.

    Example:
        >>> dollars(1.5), dollars(0.0012), dollars(None)
        ('$1.50', '$0.0012', 'cost unknown')
    """
    if cost is None:
        return "cost unknown"
    return f"${cost:.2f}" if cost >= 0.1 or cost == 0 else f"${cost:.2g}"


def lasting(seconds: float) -> str:
    """A duration for a person.

    Example:
        >>> lasting(42), lasting(125), lasting(7260)
        ('42s', '2m05s', '2h01m')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"


class _Lines:
    interval = 5.0

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._last = ""

    def show(self, state: RunState, elapsed: float) -> None:
        stages = ", ".join(map(_counts, state.stages))
        line = f"{state.finished}/{state.rows} rows ended; {stages}; {figures(state, elapsed)}"
        if line != self._last:
            print(f"[{lasting(elapsed)}] {line}", file=self._out, flush=True)
            self._last = line

    def close(self) -> None:
        pass


class _Live:
    interval = 0.25

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(file=raw(out), markup=False), auto_refresh=False)
        self._live.start()

    def show(self, state: RunState, elapsed: float) -> None:
        self._live.update(_table(state, elapsed), refresh=True)

    def close(self) -> None:
        self._live.stop()


def _counts(stage: StageState) -> str:
    """Rows that a stage did and rows that failed there, apart."""
    return f"{stage.name} {stage.done}" + (f", {stage.failed} failed" if stage.failed else "")


def _table(state: RunState, elapsed: float) -> Table:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for stage in state.stages:
        failed = f"{stage.failed} failed" if stage.failed else ""
        bar = ProgressBar(total=max(state.rows, 1), completed=stage.done, width=24)
        done = f"{stage.done}/{state.rows}"
        table.add_row(escaped(stage.name), bar, done, f"{stage.in_flight} {stage.unit}", failed)
    outer = Table.grid()
    outer.add_row(table)
    outer.add_row(f"{figures(state, elapsed)}; {lasting(elapsed)} so far")
    return outer

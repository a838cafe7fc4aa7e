"""Share of a limit that is used, and of 429s: the real queue in front of simulated endpoints, in simulated time."""

from __future__ import annotations

import argparse
import asyncio
import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextvars import Context
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple, Protocol, TypeVar

from autorubric.jobs.lending import Lender, SharedBudget
from autorubric.jobs.talk import REPORT_SECONDS
from autorubric.llm.http.limiter import Allowance, Limiter
from autorubric.llm.http.negotiation import Gate
from autorubric.llm.http.quota import read_limits
from autorubric.llm.http.retry import Backoff, Fault, Retries
from autorubric.llm.request import Failure
from autorubric.llm.sharing import Amount, Sharing, sharing
from autorubric.testing import RateWindow

T = TypeVar("T")


class Simulated(Protocol):
    """An endpoint that says how long a request has to wait, 0 where it is taken, and what headers it sends."""

    def admit(self, now: float, tokens: int) -> tuple[float, tuple[tuple[str, str], ...]]: ...


class Bucket:
    """Requests that come back at a steady rate; `burst` of them at most."""

    def __init__(self, rate: float, burst: float, *, retry_after: bool = False, headers: bool = False) -> None:
        self.rate, self.burst, self.level, self.at = rate, burst, burst, 0.0
        self.retry_after, self.headers = retry_after, headers

    def admit(self, now: float, tokens: int) -> tuple[float, tuple[tuple[str, str], ...]]:
        self.level, self.at = min(self.burst, self.level + (now - self.at) * self.rate), now
        wait = (1 - self.level) / self.rate if self.level < 1 else 0.0
        if not wait:
            self.level -= 1
        told = [("Retry-After", str(math.ceil(wait)))] if wait and self.retry_after else []
        if self.headers:  # as OpenAI has it: the time until the bucket is full
            told += [("x-ratelimit-limit-requests", str(int(self.burst)))]
            told += [("x-ratelimit-remaining-requests", str(int(self.level)))]
            told += [("x-ratelimit-reset-requests", f"{1000 * (self.burst - self.level) / self.rate:.0f}ms")]
        return wait, tuple(told)


class Late:
    """Fixed windows of which the first began before the run."""

    def __init__(self, window: RateWindow, share: float) -> None:
        self.open, self.late = window.open(), share * window.seconds
        self.open._start = 0.0

    def admit(self, now: float, tokens: int) -> tuple[float, tuple[tuple[str, str], ...]]:
        return self.open.admit(now + self.late, tokens)


class AtRandom:
    """Refuses a share of requests whatever the rate, the others as the endpoint behind it does.

    The run replaces `chance` by one with its own seed; `refused` counts what was refused by chance.
    """

    def __init__(self, share: float, behind: Simulated | None = None, *, retry_after: bool = False) -> None:
        self.share, self.behind, self.chance, self.retry_after = share, behind, random.Random(), retry_after
        self.refused = 0

    def admit(self, now: float, tokens: int) -> tuple[float, tuple[tuple[str, str], ...]]:
        if self.chance.random() < self.share:
            self.refused += 1
            return 0.1, (("Retry-After", "1"),) if self.retry_after else ()
        return self.behind.admit(now, tokens) if self.behind else (0.0, ())


class Charging:
    """Charges another number of tokens for a request than its caller expects."""

    def __init__(self, behind: Simulated, share: float) -> None:
        self.behind, self.share = behind, share

    def admit(self, now: float, tokens: int) -> tuple[float, tuple[tuple[str, str], ...]]:
        return self.behind.admit(now, round(self.share * tokens))


class Changing:
    """One endpoint until a moment, another one from then on."""

    def __init__(self, before: Simulated, at: float, after: Simulated) -> None:
        self.before, self.at, self.after = before, at, after

    def admit(self, now: float, tokens: int) -> tuple[float, tuple[tuple[str, str], ...]]:
        return (self.before if now < self.at else self.after).admit(now, tokens)


class JumpingLoop(asyncio.SelectorEventLoop):
    """Instead of sleeping until the next timer, its clock jumps there; it never looks at sockets."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle | asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def time(self) -> float:
        return self.now

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def pause(self, seconds: float) -> asyncio.Future[None]:
        """As `asyncio.sleep`, which takes twice as long."""
        over: asyncio.Future[None] = asyncio.Future(loop=self)
        heapq.heappush(self._timers, (self.now + seconds, next(self._numbers), over))
        return over

    def _run_once(self) -> None:
        """Run ready callbacks, or else the next timer."""
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]
        while not ready:
            assert self._timers, "everybody waits and no timer is set"
            when, _, timer = heapq.heappop(self._timers)
            if not timer.cancelled():
                self.now = max(self.now, when)
                if isinstance(timer, asyncio.Future):
                    timer.set_result(None)
                else:
                    ready.append(timer)
        while ready and not self._stopping:  # type: ignore[attr-defined]
            handle = ready.popleft()
            if not handle.cancelled():
                handle._context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]


def on_jumping_clock(main: Callable[[JumpingLoop], Coroutine[Any, Any, T]]) -> T:
    """Run `main` in simulated time."""
    loop = JumpingLoop()
    try:
        return loop.run_until_complete(main(loop))
    finally:
        loop.close()


class Owner:
    """Whose limits a queue keeps."""


WORD = 0.005
"""Seconds that a word between two processes takes."""
BACKOFF = Backoff(1.0, 60.0)


@dataclass(eq=False)
class Queue:
    """The queue of one process, and its end of the talk with the process that divides the rate."""

    name: int
    loop: JumpingLoop
    lender: Lender
    processes: int = 1
    gate: Gate = field(default_factory=Gate)
    owner: Owner = field(default_factory=Owner)

    def __post_init__(self) -> None:
        self.shared = Sharing(self.processes, None, self._borrow, self._tell_traffic)
        token = sharing.set(self.shared if self.processes > 1 else None)
        self.limiter = Limiter(self.loop.time)
        sharing.reset(token)

    async def _borrow(self, held: Amount, missing: Amount) -> Amount | None:
        return missing

    def _tell_traffic(self, traffic: dict[str, Any]) -> None:
        self.loop.call_later(WORD, self.lender.read_message, self, {"traffic": traffic})

    async def report(self) -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            self.shared.report()

    def tell(self, **word: Any) -> None:
        if "permits" in word:
            self.loop.call_later(WORD, self.shared.pass_permits, word["permits"])


@dataclass
class Run:
    """Callers that never pause, the real queue, and a simulated endpoint.

    `tokens` draws what each request takes of the endpoint's tokens; callers know it, as they do a prompt's length.
    """

    endpoint: Simulated
    callers: int = 256
    seconds: float = 60.0
    latency: float = 0.5
    refusal: float = 0.01
    tokens: Callable[[random.Random], int] = lambda rng: 1
    seed: int = 3
    processes: int = 1
    log: list[tuple[float, bool]] = field(default_factory=list)  # when a request arrived, and whether it passed

    def __post_init__(self) -> None:
        if isinstance(self.endpoint, AtRandom):
            self.endpoint.chance = random.Random(self.seed)
        on_jumping_clock(self._main)

    async def _main(self, loop: JumpingLoop) -> None:
        self.rng = random.Random(self.seed)
        queues: list[Queue] = []
        lender = Lender(SharedBudget(Amount()), lambda: queues, clock=loop.time)
        queues += [Queue(number, loop, lender, self.processes) for number in range(self.processes)]
        for queue in queues:
            queue.limiter.join(queue.owner, Allowance(self.callers // self.processes))
        workers = [loop.create_task(self._work(loop, queues[n % self.processes])) for n in range(self.callers)]
        workers += [loop.create_task(queue.report()) for queue in queues if self.processes > 1]
        await asyncio.sleep(self.seconds)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, loop: JumpingLoop, queue: Queue) -> None:
        while True:
            retries, tokens = Retries(10**6, BACKOFF), self.tokens(self.rng)
            await queue.gate.enter()
            while (fault := await self._attempt(loop, queue, tokens)) is not None:
                await loop.pause(retries.compute_wait(fault, loop.time(), self.rng) or 0.0)

    async def _attempt(self, loop: JumpingLoop, queue: Queue, tokens: int) -> Fault | None:
        limiter = queue.limiter
        place = await limiter.acquire(tokens)
        try:
            await loop.pause(0.005 * self.rng.random())
            wait, headers = self.endpoint.admit(loop.time(), tokens)
            self.log.append((loop.time(), wait == 0.0))
            slow = self.refusal * math.exp(self.rng.gauss(0, 0.4)) if wait else self._answered_in()
            await loop.pause(slow)
            queue.gate.open()
            told = dict(headers)
            limiter.apply_readings(place, read_limits(told))
            if not wait:
                limiter.note_accepted(place)
                return None
            hint = float(told["Retry-After"]) if "Retry-After" in told else None
            limiter.note_refused(place, hint, Failure("rate_limit", ""))
            return Fault("rate_limit", "", 429, True, hint)
        finally:
            limiter.release()

    def _answered_in(self) -> float:
        return self.latency * math.exp(self.rng.gauss(0, 0.5))

    def passed(self, start: float, end: float) -> int:
        return sum(passed for at, passed in self.log if start <= at < end)

    def refused(self, start: float, end: float) -> int:
        return sum(not passed for at, passed in self.log if start <= at < end)


class Case(NamedTuple):
    """One endpoint and who calls it."""

    kind: str
    window: float
    told: str  # "nothing", "Retry-After" or "headers"
    callers: int
    latency: float
    most: float  # requests a second


KINDS = ("fixed", "late", "sliding", "bucket")
WINDOWS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
TOLD = ("nothing", "Retry-After", "headers")
CALLERS = (16, 64, 256)
LATENCIES = (0.05, 0.3, 2.0)
LEAST_USED, MOST_REFUSED = 0.9, 0.03


def endpoint_of(case: Case) -> tuple[Simulated, float]:
    """The endpoint, and the requests a second that it takes: less than the callers could make."""
    rate = min(case.most, 0.6 * case.callers / case.latency)
    limit = max(1, round(rate * case.window))
    hint, headers = case.told == "Retry-After", case.told == "headers"
    if case.kind == "bucket":
        return Bucket(rate, limit, retry_after=hint, headers=headers), rate
    window = RateWindow(
        limit,
        seconds=case.window,
        kind="sliding" if case.kind == "sliding" else "fixed",
        retry_after=hint,
        ratelimit_headers=headers,
    )
    return (Late(window, 0.6) if case.kind == "late" else window.open()), limit / case.window


def measured(case: Case) -> tuple[float, float]:
    """Share of the limit used and share of 429s, from a window after the second request on: the first goes alone."""
    endpoint, rate = endpoint_of(case)
    end = max(60.0, 6 * case.window)
    run = Run(endpoint, case.callers, end, case.latency)
    start = run.log[1][0] + case.window
    passed, refused = run.passed(start, end), run.refused(start, end)
    return passed / rate / (end - start), refused / (passed + refused)


LIMITS_AT_RANDOM: dict[str, Callable[[], Simulated]] = {
    "bucket 0.1 s": lambda: Bucket(60, 6),
    "bucket 1 s": lambda: Bucket(60, 60),
    "fixed 1 s": lambda: RateWindow(60, seconds=1.0).open(),
    "fixed 10 s": lambda: RateWindow(600, seconds=10.0).open(),
    "sliding 1 s": lambda: RateWindow(60, seconds=1.0, kind="sliding").open(),
    "sliding 10 s": lambda: RateWindow(600, seconds=10.0, kind="sliding").open(),
}
"""Endpoints that accept 60 requests per second and send no headers."""


class RandomCase(NamedTuple):
    """A limit with refusals at random in front of it, and how many processes call it."""

    limit: str
    share: float
    processes: int
    seed: int


def measured_at_random(case: RandomCase) -> tuple[float, float]:
    """Share of the limit used and share of requests refused by the limit, in 100 s from the first request on."""
    endpoint = AtRandom(case.share, LIMITS_AT_RANDOM[case.limit]())
    run = Run(endpoint, 256, 100.0, latency=0.2, seed=case.seed, processes=case.processes)
    return run.passed(0, 100) / 6000, (run.refused(0, 100) - endpoint.refused) / len(run.log)


def print_at_random(seeds: int, shares: Sequence[float], processes: Sequence[int]) -> None:
    """Print the worst and the median use, and the worst share of refusals by the limit, for each limit and share."""
    columns = list(itertools.product(processes, shares))
    cases = [
        RandomCase(limit, share, n, seed)
        for limit in LIMITS_AT_RANDOM
        for n, share in columns
        for seed in range(seeds)
    ]
    with ProcessPoolExecutor(2) as pool:
        found = dict(zip(cases, pool.map(measured_at_random, cases, chunksize=4), strict=True))
    print(f"{'processes':<12}" + "".join(f"{n:>16}" for n, _ in columns))
    print(f"{'at random':<12}" + "".join(f"{share:>16.0%}" for _, share in columns))
    for limit in LIMITS_AT_RANDOM:
        print(f"{limit:<12}", end="")
        for n, share in columns:
            cell = [v for c, v in found.items() if c[:3] == (limit, share, n)]
            used = [u for u, _ in cell]
            print(f"{min(used):>7.0%}{median(used):>5.0%}{max(r for _, r in cell):>4.0%}", end="")
        print(flush=True)


def main() -> None:
    """Print the worst of all callers and latencies for each kind of limit, and every case that misses a target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulated_limits", description=__doc__)
    parser.add_argument("--rate", type=float, default=20.0, help="requests a second that the endpoint takes at most")
    parser.add_argument("--corners", action="store_true", help="only the extremes of windows, callers and latencies")
    parser.add_argument("--told", action="append", choices=TOLD, help="only endpoints that tell this; repeatable")
    parser.add_argument("--at-random", type=int, metavar="SEEDS", help="only refusals at random in front of limits")
    parser.add_argument("--share", action="append", type=float, help="of those refusals; repeatable")
    parser.add_argument("--processes", action="append", type=int, help="that call those endpoints; repeatable")
    options = parser.parse_args()
    if options.at_random:
        shares, processes = options.share or (0.0, 0.01, 0.05, 0.1), options.processes or (1, 4)
        print_at_random(options.at_random, shares, processes)
        return
    told = options.told or TOLD
    windows = WINDOWS[::5] if options.corners else WINDOWS
    callers, latencies = (CALLERS[::2], LATENCIES[::2]) if options.corners else (CALLERS, LATENCIES)
    cases = [
        Case(kind, window, what, many, latency, options.rate)
        for kind, window, what, many, latency in itertools.product(KINDS, windows, told, callers, latencies)
    ]
    with ProcessPoolExecutor(2) as pool:
        found = dict(zip(cases, pool.map(measured, cases, chunksize=4), strict=True))
    print(f"{'limit':<9}{'told':<12}" + "".join(f"{f'{window:g} s':>14}" for window in windows))
    for kind, what in itertools.product(KINDS, told):
        print(f"{kind:<9}{what:<12}", end="")
        for window in windows:
            cell = [v for c, v in found.items() if (c.kind, c.told, c.window) == (kind, what, window)]
            print(f"{min(u for u, _ in cell):>7.0%} {max(r for _, r in cell):>6.1%}", end="")
        print(flush=True)
    missed = {c: v for c, v in found.items() if v[0] < LEAST_USED or v[1] > MOST_REFUSED}
    print(f"{len(missed)} of {len(found)} cases miss a target")
    for case, (used, refused) in missed.items():
        print(*case, f"{used:.1%} {refused:.1%}")


if __name__ == "__main__":
    main()

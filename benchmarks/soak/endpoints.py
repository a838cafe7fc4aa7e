"""Endpoints with transient faults, with a budget, and with rate limits; waits are real."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from autorubric.llm.records.ledger import Ledger
from autorubric.testing import LoopbackProcess
from benchmarks.soak.work import ENVIRONMENT, IN_FLIGHT, WORKS, Row, Work, audited, grading

PASSING = (
    *("500", "502", "503", "529", "reset", "hang"),
    *("truncated-body", "endless-body", "huge-body", "html", "no-choices", "error-in-200"),
)
"""Faults that count as retries; rate limits, which do not, have a row of their own."""
SHARE = 0.01
RETRIES = 2
KEY = "sk-planted-in-the-soak"
LIMIT, WARM_UP = 60, 10.0
TOKENS = 60_000


def rows() -> Iterator[Row]:
    """A line for mixed faults and for a budget with each command, and one for a limited rate."""
    for make in WORKS:
        yield _mixed(make)
        yield _budget(make)
    yield _limited()


def _mixed(make: object) -> Row:
    assert callable(make)
    options = [word for name in PASSING for word in ("--fault", f"{name}={SHARE}")]
    with (
        LoopbackProcess("--latency", "lognormal:0.05,0.6", *options) as endpoint,
        tempfile.TemporaryDirectory() as folder,
    ):
        work: Work = make(Path(folder), endpoint.base_url, 60, "--retry", str(RETRIES), "--timeout", "3")
        environment = {**ENVIRONMENT, "OPENAI_API_KEY": KEY}
        statuses: list[int] = []
        told = ""
        while (not statuses or statuses[-1]) and len(statuses) < 10:
            status, printed = work.finish(environment=environment)
            statuses.append(status)
            told += printed
        stats, audit = endpoint.stats(), audited(work, endpoint)
        with Ledger.open(work.ledger.parent) as ledger:
            attempts = max((call.outcome.attempts for call in ledger.read_failures()), default=0)
        leaks = sum(KEY.encode() in path.read_bytes() for path in Path(folder).rglob("*") if path.is_file())
    met = sum(stats["by_fault"].values())
    held = statuses[-1] == 0 and not (audit.lost or audit.doubled) and audit.repeated == met
    held = held and attempts <= RETRIES + 1 and not leaks and KEY not in told and "Traceback" not in told
    figures = f"{met} faults of {len(stats['by_fault'])} kinds, statuses {statuses}; rows lost {audit.lost}"
    figures += f"; calls made again {audit.repeated}; HTTP calls a request at most {max(attempts, 1)}"
    return Row("every fault ends in a finished run", f"{SHARE:.0%} of each fault, {work.name}", met, figures, held)


def _budget(make: object) -> Row:
    assert callable(make)
    faults = ("--fault", "500=0.05", "--fault", "hang=0.01")
    with (
        LoopbackProcess("--latency", "lognormal:0.05,0.6", *faults) as endpoint,
        tempfile.TemporaryDirectory() as folder,
    ):
        work: Work = make(Path(folder), endpoint.base_url, 60, "--timeout", "2", "--budget-tokens", str(TOKENS))
        results = [work.finish() for _ in range(3)]
        stats = endpoint.stats()
    spent = stats["prompt_tokens"] + stats["completion_tokens"]
    held = 0 < spent <= TOKENS and all(status == 1 and "budget" in told for status, told in results)
    figures = f"{spent:,} of {TOKENS:,} tokens in three sessions, statuses {[status for status, _ in results]}"
    return Row("the budget is never overrun", f"{TOKENS:,} tokens, {work.name}", 3, figures, held)


def _limited() -> Row:
    with (
        LoopbackProcess("--latency", "lognormal:0.3,0.6", "--requests-per-second", str(LIMIT)) as endpoint,
        tempfile.TemporaryDirectory() as folder,
    ):
        work = grading(Path(folder), endpoint.base_url, 240, "-j", "256", "--retry", "20")
        running = work.start()
        time.sleep(WARM_UP)
        before, began = endpoint.stats()["by_status"], time.monotonic()
        time.sleep(25.0)
        after, seconds = endpoint.stats()["by_status"], time.monotonic() - began
        running.communicate(timeout=120)
        audit = audited(work, endpoint)
    passed, refused = (after.get(status, 0) - before.get(status, 0) for status in ("200", "429"))
    share, used = refused / max(passed + refused, 1), passed / seconds / LIMIT
    held = running.returncode == 0 and audit.whole and share <= 0.03 and used >= 0.95
    figures = f"429s {share:.2%}, limit used {used:.1%}, {IN_FLIGHT * 16} in flight allowed"
    return Row(
        "a limited endpoint is used and not flooded", f"{LIMIT} requests a second, {work.name}", 1, figures, held
    )

"""Failures grouped by cause: how many, where, why (in the endpoint's own words), and what to do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_args

from autorubric.errors import pluralize
from autorubric.llm.http.secrets import redact
from autorubric.llm.request import FailureKind

LONGEST_QUOTE = 240
_MOST_GROUPS = 100
_MOST_ITEMS = 3
_VARIOUS = "various reasons"

_ADVICE: dict[str, str] = {
    "auth": "check the key and what it may use; --api-key-env (in Python: api_key_env) names its variable",
    "quota": "add credit or raise the limit of the account, or wait for its reset; then run the command again",
    "unreachable": "try: autorubric doctor --base-url URL",
    "no_model": "try: autorubric doctor --model MODEL@BASE_URL",
    "unusable": (
        "see whole replies with --log-json FILE --log-prompts, repair the model or its chat template, and run the "
        "same command again; or use another model"
    ),
    "no_reply": "see the reason above and the server's log, or use another model; then run the same command again",
    "rejected": "change the request or its settings as the endpoint says, or use another model",
    "rate_limit": "try a lower --concurrency (in Python: concurrency), or run the command again later",
    "server": (
        "look at the server's log; wait if it is still starting, try a lower --concurrency (in Python: concurrency) "
        "if it is overloaded, else another model"
    ),
    "network": "check the server and the network, and run the command again",
    "timeout": "try a higher --timeout or a lower --concurrency (in Python: timeout, concurrency)",
    "refusal": "the model or its filter refuses these texts; try another model",
    "truncated": "try a higher --max-tokens-ceiling (in Python: max_tokens_ceiling)",
    "empty": "see whole replies with --log-json FILE --log-prompts; try another model",
    "unreadable": "see whole replies with --log-json FILE --log-prompts; try a model that follows the format",
    "budget": "raise --budget-usd or --budget-tokens (in Python: budget_usd, budget_tokens)",
    "check": "change the check or the submission",
}
NOT_ASKED = ("infrastructure: stopped: ", "infrastructure: budget: ")
"""Parts of the error of an item some of whose calls were not made, because the run or its budget ended."""
_TOO_LONG = "shorten the texts, or use a model that takes such requests"
_LENGTH = re.compile(r"\b(?:tokens?|context|length|characters)\b|context_length|too (?:long|large)", re.IGNORECASE)
"""Phrases of endpoints about requests that are too long."""
_CONTEXT = re.compile(r"context[ _](?:size|length|window)", re.IGNORECASE)  # llama.cpp: under status 500
_ADVISED = re.compile(
    "use another model|raise --max-tokens|resume with a budget|leave out --batch|firewall or proxy|"
    "must begin with https|"
    "the process was killed"
)
"""Phrases of messages that already say what to do, or that say that there is nothing to do but resume."""
NOT_MADE = frozenset({"budget", "stopped"})
"""Kinds of failures of calls that were not made."""
_KIND = re.compile(rf"(?:^|[\s:])({'|'.join((*get_args(FailureKind), 'check', 'unknown'))}): ")
_STATUS = re.compile(r"(?:(\S{1,200}): )?(HTTP \d{3}): (.*)")
_MODEL = re.compile(r"(\S{1,200}): HTTP \d{3}")
_URL = re.compile(r"\b(?:address|base URL|URL was) (https?://\S+?)(?:/chat/completions)?[,:]?(?: |\Z)")
_REPLY_BEGINS = "; the reply begins: "
HIGHER = "; resume with a budget of "
_ATTEMPTS = re.compile(r" \(\d+ attempts\)\Z")


@dataclass(slots=True)
class FailureGroup:
    """Failures with the same cause, by their messages.

    Attributes:
        where: the stage or role that failed; empty if there is only one.
        kind: the kind of failure, such as `timeout`.
        message: the message of the first one, short, on one line and without keys.
        count: the number of failures.
        items: the first items or rows concerned.
    """

    where: str
    kind: str
    message: str
    count: int
    items: list[str]

    def format_line(self, noun: str, told: str | None = None, *, is_advised: bool = True) -> str:
        """Return one sentence about the group, with advice at the end.

        Args:
            noun: what failed.
            told: why the run ended, if a message has said so; it is not repeated.
            is_advised: whether to say what to do.

        Example:
            >>> FailureGroup("", "timeout", "no reply", 1, ["7"]).format_line("judgment")
            '1 judgment failed: timeout: no reply (item 7); try a higher --timeout or a lower --concurrency (in ...'
            >>> FailureGroup("merge", "server", "m: HTTP 500: out of memory", 9, ["3", "7", "8"]).format_line("row")
            "merge: 9 rows failed: HTTP 500 from m: 'out of memory' (items 3, 7, 8, …); look at the server's log; ..."
        """
        where = f"{self.where}: " if self.where else ""
        made = "reached" if where else "made"  # it, or its earlier stages, may have been requested
        verb = f"{'was' if self.count == 1 else 'were'} not {made}" if self.kind in NOT_MADE else "failed"
        is_told = self._has_cause(told)
        if self.is_left_out(told):
            return f"{where}{pluralize(self.count, noun)} {verb}"
        status = _STATUS.fullmatch(self.message)
        source = f" from {status[1]}:" if status and status[1] else ""
        words = (
            f"{status[2]}{source} {_quote_words(status[3])}"
            if status
            else self.message
            if self.kind in NOT_MADE
            else f"{self.kind}: {self.message}"
        )
        more = ", …" if _MOST_ITEMS <= len(self.items) < self.count else ""
        items = f" (item{'s' * (len(self.items) > 1)} {', '.join(self.items)}{more})" if self.items else ""
        why = "" if is_told else f": {words}"
        advice = self.advice if is_advised else ""
        return f"{where}{pluralize(self.count, noun)} {verb}{why}{items}" + (f"; {advice}" if advice else "")

    @property
    def is_failure(self) -> bool:
        """Whether something failed, rather than calls that were not made."""
        return self.kind not in NOT_MADE

    @property
    def advice(self) -> str:
        """What to do; empty where the message says it."""
        return find_advice(self.kind, self.message)

    def is_left_out(self, stopped: str | None) -> bool:
        """Return whether nothing failed: the calls were not made, since the run ended for this reason."""
        return self.kind in NOT_MADE and self._has_cause(stopped)

    def _has_cause(self, told: str | None) -> bool:
        return told is not None and _find_cause(quote_text(told)) == _find_cause(self.message)


class FailureGroups:
    """Groups failures by cause. Memory is bounded by the number of causes, not of failures.

    Messages that differ only in numbers and ids have one cause, as have unreadable replies with the same problem.

    Example:
        >>> groups = FailureGroups()
        >>> for item in range(5):
        ...     groups.add_text(f"infrastructure: server: HTTP 503: request {item} failed", str(item))
        >>> [(group.kind, group.count, group.message, group.items) for group in groups]
        [('server', 5, 'HTTP 503: request 0 failed', ['0', '1', '2'])]
    """

    def __init__(self, groups: Iterable[FailureGroup] = ()) -> None:
        self._groups: dict[tuple[str, str, str], FailureGroup] = {}
        for group in groups:
            for number, item in enumerate(group.items or [""]):
                self.add(group.kind, group.message, item, group.where, 0 if number else group.count)

    def add(self, kind: str, message: str, item: str = "", where: str = "", count: int = 1) -> None:
        """Add a failure, or several."""
        if message.startswith("budget of "):
            kind = "budget"  # calls that were not started because the budget had stopped the run
        place = (where, kind, _find_cause(message))
        if place not in self._groups and len(self._groups) >= _MOST_GROUPS:
            place, message = (where, kind, ""), _VARIOUS
        group = self._groups.setdefault(place, FailureGroup(where, kind, quote_text(message), 0, []))
        group.count += count
        if item:
            # The first in sorted order, whatever the order in which they ended.
            named = {*group.items, quote_text(item, 60)}
            group.items = sorted(named, key=lambda name: (len(name), name))[:_MOST_ITEMS]

    def add_text(self, error: str | None, item: str = "", where: str = "") -> None:
        """Add a failure from its sentence in a report or a row."""
        kind, message = parse_failure(error)
        self.add(kind, message, item, where)

    def total(self) -> int:
        """Return the number of failures."""
        return sum(group.count for group in self._groups.values())

    def count_by_kind(self) -> dict[str, int]:
        """Return the number of failures of each `where: kind`, the most frequent first."""
        found: Counter[str] = Counter()
        for group in self._groups.values():
            found[f"{group.where}: {group.kind}" if group.where else group.kind] += group.count
        return dict(found.most_common())

    def exclude(self, others: Iterable[FailureGroup]) -> FailureGroups:
        """These groups without those in `others`: of the same cause, or of the same kind without a place."""
        causes = {(group.kind, _find_cause(group.message) if group.where else "") for group in others}
        return FailureGroups(
            group for group in self if causes.isdisjoint({(group.kind, _find_cause(group.message)), (group.kind, "")})
        )

    def to_list(self) -> list[dict[str, Any]]:
        """Return the groups as JSON values."""
        return [asdict(group) for group in self]

    @classmethod
    def from_list(cls, groups: object) -> FailureGroups:
        """Return the groups of `to_list`, from a file that a person may have edited; invalid entries are left out."""
        entries = groups if isinstance(groups, list) else []
        return cls(
            FailureGroup(entry["where"], entry["kind"], quote_text(entry["message"]), entry["count"], entry["items"])
            for entry in entries
            if _is_group(entry)
        )

    def __iter__(self) -> Iterator[FailureGroup]:
        """Return the groups, largest first; ties by place and cause, since failures arrive in any order."""
        ordered = sorted(self._groups.items(), key=lambda entry: (-entry[1].count, entry[0]))
        return (group for _, group in ordered)

    def __len__(self) -> int:
        return len(self._groups)

    def __eq__(self, other: object) -> bool:
        return self._groups == other._groups if isinstance(other, FailureGroups) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


def format_failures(groups: Iterable[FailureGroup], noun: str, told: str | None = None) -> Iterator[str]:
    """Yield a sentence for each group; advice that several groups share follows the last of them.

    Args:
        groups: the failures.
        noun: what failed.
        told: why the run ended, if a message has said so.

    Example:
        >>> groups = [FailureGroup(stage, "network", "reset", 1, []) for stage in ("a", "b")]
        >>> list(format_failures(groups, "row"))
        ['a: 1 row failed: network: reset', 'b: 1 row failed: network: reset; check the server and the network, ...']
    """
    groups = [*groups]
    for number, group in enumerate(groups, start=1):
        yield group.format_line(
            noun, told, is_advised=group.advice not in {group.advice for group in groups[number:]}
        )


def find_advice(kind: str, message: str) -> str:
    """Return what to do about a failure; empty where its message says it.

    Example:
        >>> find_advice("auth", "HTTP 401: wrong key"), find_advice("server", "HTTP 502: use another model")
        ('check the key and what it may use; --api-key-env (in Python: api_key_env) names its variable', '')
        >>> find_advice("unreachable", "m: refused; check the address http://localhost:8000/v1, and ...")
        'try: autorubric doctor --base-url http://localhost:8000/v1'
        >>> find_advice("network", "the process was killed while the call was in flight")
        ''
    """
    if _ADVISED.search(message):
        return ""
    if (kind == "rejected" and _LENGTH.search(message)) or _CONTEXT.search(message):
        return _TOO_LONG
    advice, model, url = _ADVICE.get(kind, ""), _MODEL.match(message), _URL.search(message)
    advice = advice.replace("MODEL", model[1]) if model else advice
    return re.sub("(?:BASE_)?URL", lambda _: url[1], advice) if url else advice


def quote_text(text: str, most: int = LONGEST_QUOTE) -> str:
    r"""Quote an outside text in a message: on one line, short, and without anything that looks like a key.

    The part from the last quote or semicolon on is often advice, so it is kept if it is short.

    Example:
        >>> quote_text("key sk-abcdefgh12345\nis " + 300 * "very " + "wrong", 30)
        'key <hidden> is very very ver…'
        >>> quote_text("HTTP 429: 'too many, too many' (run it again later)", 40)
        "HTTP 429: 'too ma…' (run it again later)"
        >>> quote_text("HTTP 500: 'too many, too many'; look at the server's log", 40)
        "HTTP 500: 't…'; look at the server's log"
    """
    words = " ".join(redact(text[: 10 * most]).split())
    last = max((found.start() for found in re.finditer(r"'?; |'(?!\w)", words)), default=-1)
    is_whole = len(text) <= 10 * most  # otherwise a key may be cut in half at the end
    end = words[last:] if is_whole and len(words) - last < 0.75 * most else ""
    return words if len(words) <= most else f"{words[: most - 1 - len(end)]}…{end}"


def parse_failure(error: str | None) -> tuple[str, str]:
    """Return the kind and the message of a failure, from one sentence.

    Example:
        >>> parse_failure("Every criterion's judgment failed: infrastructure: timeout: no reply after 60 s")
        ('timeout', 'no reply after 60 s')
        >>> parse_failure("check: check 'language' cannot decide: too little text")
        ('check', "check 'language' cannot decide: too little text")
        >>> parse_failure("no such thing")
        ('unknown', 'no such thing')
    """
    text = error or "no reason is recorded"
    found = _KIND.search(text)
    return (found[1], text[found.end() :]) if found else ("unknown", text)


def _find_cause(message: str) -> str:
    """Return a message without the parts that vary from call to call."""
    if message.startswith("budget of "):
        return "budget"  # calls refused at different times name different sums
    words = _ATTEMPTS.sub("", message.partition(_REPLY_BEGINS)[0].partition(HIGHER)[0]).split()[:40]
    before = ["", *words]
    return " ".join(
        word if last == "HTTP" or not any(map(str.isdigit, word)) else "#"
        for last, word in zip(before, words, strict=False)
    )


def _quote_words(words: str) -> str:
    """Put the words of an endpoint in quotes, unless they are: messages of earlier versions have none."""
    if not words.startswith("'"):
        return f"'{words}'"
    return f"{words}'" if words.endswith("…") else words


def _is_group(entry: object) -> bool:
    if not isinstance(entry, Mapping) or not {"where", "kind", "message", "count", "items"} <= entry.keys():
        return False
    texts = all(isinstance(entry[name], str) for name in ("where", "kind", "message"))
    items = isinstance(entry["items"], list) and all(isinstance(item, str) for item in entry["items"])
    return texts and items and isinstance(entry["count"], int) and not isinstance(entry["count"], bool)

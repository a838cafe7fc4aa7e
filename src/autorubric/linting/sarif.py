"""Findings as SARIF 2.1.0, which code hosts and editors show next to the lines."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from autorubric.linting.finding import Finding, Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def to_sarif(
    findings: Iterable[Finding],
    rules: Iterable[Rule],
    version: str,
    docs: str = "docs/lint.md",
    failures: Sequence[str] | None = None,
) -> Iterator[str]:
    """Yield the pieces of a SARIF log: the rules that ran, then one result per finding, none kept in memory.

    Args:
        findings: the findings.
        rules: the rules that ran.
        version: the version of this package.
        docs: the guide to the rules.
        failures: what could not be read; None if that is known only after the findings.
    """
    _read_lines.cache_clear()  # the file may have changed since the last log
    listed = list(rules)
    driver = {"name": "autorubric", "version": version, "rules": [_describe_rule(rule, docs) for rule in listed]}
    run: dict[str, Any] = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints"}
    if failures is not None:
        notifications = [{"level": "error", "message": {"text": failure}} for failure in failures]
        run["invocations"] = [{"executionSuccessful": not failures, "toolExecutionNotifications": notifications}]
    head = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    # The results come last in the run, so that they can be written as they are found.
    yield json.dumps(head, ensure_ascii=False)[: -len("}]}")] + ', "results": ['
    places = {rule.id: index for index, rule in enumerate(listed)}
    for number, finding in enumerate(findings):
        yield (",\n" if number else "\n") + json.dumps(_build_result(finding, places), ensure_ascii=False)
    yield "]}]}\n"


def _describe_rule(rule: Rule, docs: str) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.summary[0].upper() + rule.summary[1:] + "."},
        "help": {"text": f"{docs}#{rule.id}"},
        "defaultConfiguration": {"level": rule.severity},
    }


def _build_result(finding: Finding, places: dict[str, int]) -> dict[str, Any]:
    place = finding.place
    which = "" if finding.criterion is None else f"criterion {finding.criterion} ({finding.name}): "
    uri = quote(os.fsencode(PurePath(place.file).as_posix()), safe="/:")
    physical = {"artifactLocation": {"uri": uri}, "region": {"startLine": _find_line(finding)}}
    return {
        "ruleId": finding.rule,
        "ruleIndex": places[finding.rule],
        "level": finding.severity,
        "message": {"text": f"{which}{finding.message}. {finding.suggestion}."},
        "locations": [
            {"physicalLocation": physical, "logicalLocations": [{"fullyQualifiedName": _name_location(finding)}]}
        ],
        "properties": {k: v for k, v in finding.as_dict().items() if k in ("row", "record", "part", "criterion")},
    }


def _find_line(finding: Finding) -> int:
    """Return the line of a finding, which code hosts require; 1 if it is unknown."""
    place = finding.place
    if place.row is not None and place.file.endswith(".jsonl"):  # in other files, a row is not a line
        return place.row
    if finding.criterion is None or not place.file.endswith((".json", ".yaml", ".yml", ".toml")):
        return 1
    words = finding.name.removesuffix("…").removesuffix("...").strip()
    found = (number for number, line in enumerate(_read_lines(place.file), 1) if words and words in line)
    return next(found, 1)


@lru_cache(maxsize=1)
def _read_lines(file: str) -> tuple[str, ...]:
    try:
        return tuple(Path(file).read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError):
        return ()


def _name_location(finding: Finding) -> str:
    place = finding.place
    row = "" if place.row is None else f"[{place.row}]"
    steps = [f"rubric{row}", place.part, "" if finding.criterion is None else f"criterion[{finding.criterion}]"]
    return "/".join(step for step in steps if step)

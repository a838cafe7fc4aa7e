"""The history of rubrics on a disk that is full, and in a file that is damaged."""

from __future__ import annotations

import resource
from contextlib import closing
from pathlib import Path

import pytest

from autorubric import Rubric
from autorubric.errors import InputError, NotSavedError
from autorubric.training.evolution.versions import Change, RubricVersion, VersionLog, read_log

RUBRICS = [Rubric.from_dict([{"requirement": f"Says {word}.", "weight": 4}]) for word in ("why", "how", "when")]


def written(path: Path) -> bytes:
    """A history of three events, and one of another rubric."""
    with closing(VersionLog(path)) as log:
        lineage = log.begin("Why?", RUBRICS[0])
        log.add(lineage, None, Change("first"))
        log.add(lineage, RubricVersion("Why?", 1, RUBRICS[1], from_step=2), Change("second", added=("C1",)))
        log.begin("Where?", RUBRICS[2])
    return path.read_bytes()


def test_a_full_disk_leaves_nothing_of_an_event_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "versions.jsonl"
    before = written(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(VersionLog(path)) as log:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 60, limits[1]))
        try:
            for query in ("How?", "Who?"):
                with pytest.raises(NotSavedError, match=r"not saved: .*; check the disk and try again"):
                    log.begin(query, RUBRICS[0])
                assert path.read_bytes() == before
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        log.begin("Who?", RUBRICS[0])
    assert [one.newest.query for one in read_log(path).lineages.values()] == ["Why?", "Where?", "Who?"]


def test_a_flipped_bit_or_a_line_that_is_missing_is_refused_and_never_another_history(tmp_path: Path) -> None:
    path = tmp_path / "versions.jsonl"
    whole = written(path)
    lineages = read_log(path).lineages
    lines = whole.splitlines(keepends=True)
    others = [b"".join(lines[:place] + lines[place + 1 :]) for place in range(3)]
    others += [b"".join([lines[0], lines[2], lines[1], lines[3]]), b"".join([*lines[:2], *lines[1:]])]
    for place in range(len(whole) - len(lines[-1])):
        others += [whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :] for bit in range(8)]
    read = 0
    for spoiled in others:
        path.write_bytes(spoiled)
        try:
            assert read_log(path).lineages == lineages
            read += 1
        except InputError as error:
            assert str(error).startswith(f"{path}, line ")
    assert read < len(others) / 100, "those whose flipped bit is in nothing that is read"

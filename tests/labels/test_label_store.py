import json
import os
import resource
import signal
import sqlite3
import subprocess
import threading
import warnings
from pathlib import Path

import pytest

from autorubric import InputError
from autorubric.errors import NotSavedError, RunLockedError
from autorubric.labels import STORE, Ask, History, label_queue, read_history
from autorubric.labels.label_store import label_store
from tests.labels.runs import answers, graded
from tests.processes import LONG, environment
from tests.warm_commands import forked_python

# For each word that comes in, a fork labels pairs and says so after each has returned, until it is killed or the disk
# is full. A fork, as importing the package takes longer than the test.
LABELS = """
import os, sys
from pathlib import Path
from autorubric.errors import NotSavedError
from autorubric.labels import label_queue
for word in sys.stdin:
    child = os.fork()
    if child == 0:
        break
    print("\\nended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
print("child", os.getpid(), flush=True)
with label_queue(Path(sys.argv[1])) as queue:
    if len(sys.argv) > 2:
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
    for number in range(1_000_000):
        item, place = divmod(number % 24, 2)
        verdict = ("MET", "UNMET")[number // 24 % 2]
        try:
            made = queue.label("ana", item, place, verdict, note=f"{word.strip()}-{number} " + "x" * 200)
        except NotSavedError as error:
            print("full", error, flush=True)
            break
        print("saved", made.id, made.note.split()[0], "whole", flush=True)
"""


def start(run: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [forked_python(), "-c", LABELS, str(run), *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return graded(tmp_path / "run")


def test_no_acknowledged_label_is_lost_over_twenty_kills(run: Path) -> None:
    acknowledged: dict[int, str] = {}
    with start(run) as process:
        assert process.stdin is not None and process.stdout is not None
        for round_ in range(20):
            print(f"round{round_}", file=process.stdin, flush=True)
            child = int(process.stdout.readline().split()[1])
            for line in process.stdout:  # also what was printed before the kill
                words = line.split()
                if words[:1] == ["ended"]:
                    assert int(words[1]) == -signal.SIGKILL
                    break
                if words[-1:] == ["whole"]:  # the kill may cut the last line
                    acknowledged[int(words[1])] = words[2]
                    if int(words[2].split("-")[1]) == 3 + round_:
                        os.kill(child, signal.SIGKILL)
        process.stdin.close()
    stored = {event.id: event.note.split()[0] for event in read_history(run).events}
    assert len(acknowledged) > 20 * 4
    assert {number: stored.get(number) for number in acknowledged} == acknowledged


def test_a_full_disk_saves_nothing_of_a_label_and_keeps_those_before(run: Path) -> None:
    with start(run, "200000") as process:
        out, _ = process.communicate("full\n", timeout=LONG)
    _, *lines, _, ended = out.splitlines()
    assert (process.returncode, ended) == (0, "ended 0")
    assert lines[-1].startswith(f"full {run / STORE}: not saved: ")
    assert len(lines) > 10
    assert len(read_history(run).events) == len(lines) - 1
    with label_queue(run) as queue:  # and the store takes labels again
        assert queue.label("ana", 0, 0, "MET").id == len(lines)


def test_a_full_disk_takes_no_new_store(run: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(NotSavedError, match=r"not saved: .*; check the disk and try again"), label_store(run):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with label_queue(run) as queue:
        assert queue.label("ana", 0, 0, "MET").id == 1


def test_the_database_refuses_to_change_or_delete_an_event(run: Path) -> None:
    with label_queue(run) as queue:
        queue.label("ana", 0, 0, "MET")
    connection = sqlite3.connect(run / STORE)
    for statement in ("UPDATE events SET verdict = 'UNMET'", "DELETE FROM events"):
        with pytest.raises(sqlite3.IntegrityError, match="events are only added"):
            connection.execute(statement)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_second_process_is_told_who_labels_and_can_read_meanwhile(run: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from autorubric.labels import label_queue, read_history\n"
        "print(len(read_history(Path(sys.argv[1])).events))\n"
        "with label_queue(sys.argv[1]): pass"
    )
    with label_queue(run) as queue:
        queue.label("ana", 0, 0, "MET")
        done = subprocess.run(
            [forked_python(), "-c", code, str(run)],
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
        )
    assert done.stdout == "1\n"
    assert f"RunLockedError: {run / 'labels'} is open for labelling in process {os.getpid()}" in done.stderr.replace(
        "autorubric.errors.", ""
    )


def test_the_lock_is_free_again_after_the_queue_is_closed(run: Path) -> None:
    with label_queue(run), pytest.raises(RunLockedError, match="open for labelling"), label_queue(run):
        pass
    with label_queue(run) as queue:
        assert queue.label("ana", 0, 0, "MET").id == 1


def test_a_reader_adds_what_is_new_and_counts_what_stands(run: Path) -> None:
    with label_queue(run) as queue:
        first = queue.label("ana", 0, 0, "MET")
        history = read_history(run)
        queue.label("ana", 0, 0, "UNMET", note="changed my mind")
        queue.label("ben", 0, 0, "MET")
        queue.skip("ben", 0, 1)
        assert read_history(run, history) is history
        assert [event.kind for event in history.events] == ["label", "label", "label", "skip"]
        assert {name: event.verdict for name, event in history.labels(first.key).items()} == {
            "ana": "UNMET",
            "ben": "MET",
        }
        assert history.events[1].supersedes == first.id
        queue.undo("ana")
        read_history(run, history)
    assert {name: event.verdict for name, event in history.labels(first.key).items()} == {"ana": "MET", "ben": "MET"}
    assert len(history.events) == 5


def test_threads_may_label_at_once(run: Path) -> None:
    with label_queue(run) as queue:

        def work(name: str) -> None:
            for item in range(12):
                for place in range(2):
                    queue.label(name, item, place, "MET")

        threads = [threading.Thread(target=work, args=(name,)) for name in ("ana", "ben", "cy")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert read_history(run).annotators() == {"ana": 24, "ben": 24, "cy": 24}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "has no name"),
        ("  ", "has no name"),
        ("a" * 4096, "has 4096 characters; at most 100"),
        ("../ana", "must not contain a slash, backslash or control character"),
        ("a\\b", "must not contain a slash, backslash or control character"),
        ("ana\n", None),
        ("a\nb", "must not contain a slash, backslash or control character"),
        ("a\0b", "must not contain a slash, backslash or control character"),
        ("a\u202eb", "must not contain a slash, backslash or control character"),
        ("a\ud800", "must not contain a slash, backslash or control character"),
        ("..", "reserved"),
        ("Majority", "reserved"),
    ],
)
def test_names_of_annotators(run: Path, name: str, said: str | None) -> None:
    with label_queue(run) as queue:
        if said is None:
            assert queue.label(name, 0, 0, "MET").annotator == name.strip()
        else:
            with pytest.raises(InputError, match=said):
                queue.label(name, 0, 0, "MET")
            assert read_history(run).events == []


@pytest.mark.parametrize(
    ("arguments", "more", "said"),
    [
        ((99, 0, "MET"), {}, "item 99 does not exist"),
        ((-1, 0, "MET"), {}, "item -1 does not exist"),
        ((0, 2, "MET"), {}, "criterion 2 does not exist"),
        ((0, 0, "maybe"), {}, "label 'maybe' is not one of MET, UNMET, CANNOT_ASSESS"),
        ((0, 0, "MET"), {"note": "n" * 20_001}, "the note has 20001 characters"),
        ((0, 0, "MET"), {"quote": "n" * 20_001}, "the quote has 20001 characters"),
        ((0, 0, "MET"), {"seconds": -1}, "seconds=-1"),
        ((0, 0, "MET"), {"seconds": float("nan")}, "seconds=nan"),
    ],
)
def test_a_wrong_label_is_refused_and_not_stored(run: Path, arguments: tuple, more: dict, said: str) -> None:  # type: ignore[type-arg]
    with label_queue(run) as queue, pytest.raises(InputError, match=said):
        queue.label("ana", *arguments, **more)
    assert read_history(run).events == []


def test_texts_come_back_as_they_went_in(run: Path) -> None:
    note = "NUL \0, two\nlines, \u202e right to left, 漢字, and a lone \ud83d"
    with label_queue(run) as queue:
        queue.label("ana", 0, 0, "CANNOT_ASSESS", note=note, quote="moon 1", seconds=2.5)
    [event] = read_history(run).events
    assert event.note == note.replace("\ud83d", "\\ud83d")
    assert (event.quote, event.seconds, event.verdict) == ("moon 1", 2.5, "CANNOT_ASSESS")


def test_a_label_whose_pair_has_changed_is_kept_and_not_counted(run: Path) -> None:
    with label_queue(run) as queue:
        queue.label("ana", 0, 0, "MET")
        queue.label("ana", 1, 0, "MET")
    changed = answers(12)
    changed.items[0].submission = "something else"
    with label_queue(run, Ask(), items=changed) as queue:
        assert len(queue.history.events) == 2
        assert not queue.may_show("ana", 0, 0)
        assert queue.may_show("ana", 1, 0)


@pytest.mark.parametrize("content", [b"not a database at all, but long enough", b"\0" * 5000])
def test_a_file_that_is_no_store_is_refused(run: Path, content: bytes) -> None:
    (run / "labels").mkdir()
    (run / STORE).write_bytes(content)
    with pytest.raises(InputError, match=r"labels\.sqlite cannot be read as a label store"):
        read_history(run)
    with pytest.raises(InputError, match=r"labels\.sqlite cannot be read as a label store"), label_store(run):
        pass
    assert (run / STORE).read_bytes() == content


def test_another_programs_database_is_refused(run: Path) -> None:
    (run / "labels").mkdir()
    connection = sqlite3.connect(run / STORE)
    connection.execute("CREATE TABLE things(a)")
    connection.commit()
    connection.close()
    for opened in (lambda: read_history(run), lambda: label_store(run).__enter__()):
        with pytest.raises(InputError, match="is not a label store; move it away"):
            opened()


def test_a_run_without_labels_has_an_empty_history(run: Path) -> None:
    history = read_history(run)
    assert (history.events, history.annotators(), history.last) == ([], {}, 0)
    assert not (run / "labels").exists()
    assert json.dumps(list(History().labelled())) == "[]"


def test_a_flipped_bit_anywhere_in_the_events_costs_one_of_them_and_is_told(run: Path) -> None:
    with label_queue(run, Ask("random", size=4, seed=1)) as queue:
        for verdict in ("MET", "UNMET", "MET", "UNMET"):
            task = queue.next("ana")
            assert task is not None
            queue.label("ana", task.pair.index, task.pair.place, verdict, note="why", seconds=2)
        queue.undo("ana")
    path = run / STORE
    events = read_history(run).events
    whole = path.read_bytes()
    size = int.from_bytes(whole[16:18])
    pages = [whole[start : start + size] for start in range(0, len(whole), size)]
    [page] = [number for number, data in enumerate(pages) if data.count(b"why") >= 4]
    offenders, told = list[str](), 0
    for place in (place for place in range(page * size, (page + 1) * size) if whole[place]):
        spoiled = bytearray(whole)
        spoiled[place] ^= 1 << place % 8
        path.write_bytes(spoiled)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                left = read_history(run).events
            except InputError:
                continue
        told += len(said)
        unlike = [one for one in left if one not in events]
        if unlike or (len(left) < len(events) - 1 and place > page * size + 40) or (left != events and not said):
            offenders.append(f"byte {place}: {unlike} {len(left)} of {len(events)}")
    assert not offenders
    assert told > 100


def test_what_a_newer_version_wrote_is_refused(run: Path) -> None:
    with label_queue(run) as queue:
        queue.label("ana", 0, 0, "MET")
    with sqlite3.connect(run / STORE) as connection:
        connection.execute("PRAGMA user_version = 1000")
    connection.close()
    newer = r"written by a newer autorubric \(version 1000\); use that version"
    with pytest.raises(InputError, match=newer):
        read_history(run)
    with pytest.raises(InputError, match=newer), label_queue(run):
        pass


def test_only_the_last_event_of_an_annotator_on_a_pair_is_undone(run: Path) -> None:
    with label_queue(run) as queue:
        events = [queue.label("ana", 0, 0, word) for word in ("MET", "UNMET")]
    with label_store(run) as store:
        for annotator, event in (("ana", events[0]), ("ben", events[1])):
            with pytest.raises(InputError, match=rf"event {event.id} cannot be undone by '{annotator}'"):
                store.undo(annotator, event)
        store.undo("ana", events[1])
        with pytest.raises(InputError, match="cannot be undone by 'ana'"):
            store.undo("ana", events[1])

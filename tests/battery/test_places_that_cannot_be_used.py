"""Run directories, endpoints and environment variables that a run cannot work with."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.battery.bench import COMMANDS, KEY, Bench, inventory
from tests.offenders import offenders

ENDING = ("synthesize", "grade", "select")
RUNS = (*ENDING, "serve")
WRITTEN = {
    "synthesize": (
        *("step0_reference.jsonl", "step2_rubrics.jsonl", "step4_augmented.jsonl", "final.jsonl", "final.parquet"),
        *("unfinished.jsonl", "manifest.json", "ledger/ledger.sqlite", "ledger/run.lock"),
    ),
    "grade": (
        "dataset.json",
        "items.jsonl",
        "manifest.json",
        "ledger/ledger.sqlite",
        "ledger/run.lock",
        "results.csv",
    ),
    "select": (
        *("selected.jsonl", "selected.parquet", "chat.jsonl", "trl_sft.jsonl", "llamafactory/sft.jsonl"),
        *("llamafactory/dataset_info.json", "decisions.jsonl", "selection.json", "dataset.json", "items.jsonl"),
        *("manifest.json", "ledger/ledger.sqlite", "ledger/run.lock"),
    ),
    "serve": ("manifest.json", "ledger/ledger.sqlite", "ledger/run.lock"),
}


@pytest.mark.parametrize("command", RUNS)
def test_what_stands_where_a_file_will_be_written_is_named(bench: Bench, command: str) -> None:
    more = ["--format", "csv"] if command == "grade" else []
    with offenders() as case:
        for name in WRITTEN[command]:
            for make in (Path.mkdir, os.mkfifo):
                with case(f"{name} {make.__name__}"), bench.restored():
                    path = bench.folder / "out" / name
                    path.parent.mkdir(parents=True)
                    make(path)
                    said = f"out/{name}: cannot be read"
                    bench.refuses([*COMMANDS[command], *more], said, "move it away, or pass another --out")


def test_a_file_that_is_no_ledger_is_not_written_over(bench: Bench) -> None:
    with offenders() as case:
        for command in RUNS:
            for name in ("out/ledger", "out/ledger/ledger.sqlite"):
                with case(f"{command} {name}"), bench.restored():
                    path = bench.folder / name
                    path.parent.mkdir(parents=True)
                    path.write_text("my shopping list, which is longer than the head of a database")
                    bench.refuses(COMMANDS[command], "out/ledger")


def test_a_broken_link_is_no_run_directory(bench: Bench) -> None:
    with offenders() as case:
        for command in RUNS:
            for target in ("nowhere/else", "out"):
                with case(f"{command} {target}"), bench.restored():
                    (bench.folder / "out").symlink_to(target)
                    bench.refuses(COMMANDS[command], "out")


def test_the_folders_above_a_name_that_is_too_long_are_not_made(bench: Bench) -> None:
    with offenders() as case:
        for command in RUNS:
            with case(command):
                words = [*COMMANDS[command], "--out", f"new/{'x' * 300}"]
                bench.refuses(words, "cannot be made or written: File name too long")


@pytest.mark.parametrize("name", ["final.jsonl", "step0_reference.jsonl", "manifest.json"])
def test_queries_are_not_written_over(bench: Bench, name: str) -> None:
    (bench.folder / "out").mkdir()
    (bench.folder / "queries.jsonl").rename(bench.folder / "out" / name)
    words = ["synthesize", f"out/{name}", "--out", "out", "--models", "m"]
    bench.refuses(words, f"would overwrite its own input with {name}")


def test_a_run_does_not_go_into_the_folder_that_it_reads(bench: Bench) -> None:
    (bench.folder / "texts").mkdir()
    (bench.folder / "texts" / "a.txt").write_text("An essay.")
    for out, place in (("texts", "is"), ("texts/run", "is inside")):
        words = ["grade", "--rubric", "rubric.json", "--submissions", "texts", "--judge", "judge@{url}", "--out", out]
        bench.refuses(words, f"{out} {place} texts, which the run reads")


def test_the_runs_own_copy_of_the_dataset_is_not_cut_by_grading_a_part_of_it(bench: Bench) -> None:
    words = ["grade", "run/dataset.json", "--judge", "judge@{url}", "--out", "run", "--limit", "1"]
    bench.refuses(words, "would overwrite its own input with dataset.json")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes and reads everything")
def test_files_without_permission_are_named(bench: Bench) -> None:
    (bench.folder / "queries.jsonl").chmod(0)
    bench.refuses(COMMANDS["synthesize"], "queries.jsonl: cannot be read: Permission denied")
    (bench.folder / "sealed").mkdir(mode=0o500)
    bench.refuses([*COMMANDS["grade"], "--out", "sealed/out"], "sealed/out")


URLS = (
    *(
        "not a url",
        "file:///etc/passwd",
        "ftp://host/v1",
        "javascript:alert(1)",
        "//host/v1",
        "http://",
        "http:///v1",
    ),
    *("http://host:99999/v1", "http://host:abc/v1", "http://host/v1?key=1", "http://host/v1#part", "http://a b/v1"),
    *(
        "http://user:password@host/v1",
        "http://a..b/v1",
        "http://-/v1",
        f"http://{'a' * 300}.com/v1",
        "http://h\nh/v1",
    ),
    *("http://169.254.169.254/v1", "http://169.254.169.254./v1", "HTTP://169.254.169.254/", "http://2852039166/v1"),
    *("http://0xA9FEA9FE/v1", "http://0251.0376.0251.0376/", "http://[fe80::1]/v1", "http://[fe80::1%25eth0]/v1"),
    *("http://[::ffff:169.254.169.254]/v1", "http://[64:ff9b::a9fe:a9fe]/v1", "http://[2002:a9fe:a9fe::]/v1"),
    *("http://[fd00:ec2::254]/v1", "http://100.100.100.200/v1", "http://metadata.google.internal./v1"),
    *("http://METADATA.google.internal/", "http://１６９.254.169.254/v1", "http://h\\@169.254.169.254/v1"),
)


def without_address(command: str) -> list[str]:
    return [word.replace("@{url}", "") for word in COMMANDS[command]]


def test_an_address_that_is_none_or_forbidden_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with offenders() as case:
        for url in URLS:
            with case(f"grade {url}"):
                monkeypatch.setenv("OPENAI_BASE_URL", url)
                bench.refuses(without_address("grade"), "OPENAI_BASE_URL")
            with case(f"synthesize {url}"):
                monkeypatch.setenv("OPENAI_BASE_URL", bench.endpoint.base_url)
                bench.refuses([*without_address("synthesize"), "--merge-base-url", url], "merge: ")
        # All addresses are checked in one place: one of each kind shows that every command comes by there.
        for command in RUNS:
            for url in ("not a url", "http://user:password@host/v1", "http://169.254.169.254/v1"):
                with case(f"{command} {url}"):
                    monkeypatch.setenv("OPENAI_BASE_URL", url)
                    bench.refuses(without_address(command), "OPENAI_BASE_URL")


def test_a_proxy_that_is_none_is_named_before_a_call(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("grade", "essays.json", "--judge", "judge@http://host.local/v1", "--out", "out")
    with offenders() as case:
        for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            for proxy in ("proxy", "socks5://host:1", "http://host:99999", "http://169.254.169.254"):
                with case(f"{variable} {proxy}"), monkeypatch.context() as patch:
                    patch.setenv(variable, proxy)
                    bench.refuses(words, f"{variable.upper()} {proxy!r}")


def test_an_address_where_nobody_answers_leaves_nothing_behind(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    before = inventory(bench.folder)
    with offenders() as case:
        for command in ENDING:
            with case(command):
                ended = bench.type(*without_address(command))
                assert ended.status == 2
                assert "cannot connect to 127.0.0.1:1" in ended.err
                assert "Traceback" not in ended.err
                assert inventory(bench.folder) == before


class _Website(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        page = b"<!DOCTYPE html><html><body>Welcome to our router</body></html>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def website() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Website) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_website_is_told_from_an_endpoint(bench: Bench, monkeypatch: pytest.MonkeyPatch, website: str) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", website)
    before = inventory(bench.folder)
    with offenders() as case:
        for command in ENDING:
            with case(command):
                ended = bench.type(*without_address(command))
                assert ended.status == 2
                assert "the answer is a web page" in ended.err
                assert "check the base URL" in ended.err
                assert inventory(bench.folder) == before


def test_a_key_that_is_none_is_refused_and_not_shown(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_KEY")
    named = {"judge@{url}": "openai/m", "some-model": "openai/m"}
    with offenders() as case:
        for key in (None, "", " ", "sk two words", "sk\nline", "sk-é", "\udcff", "sk\x7f"):
            if key is not None:
                monkeypatch.setenv("OPENAI_API_KEY", key)
            for command in RUNS:
                with case(f"{command} {key!r}"):
                    words = [named.get(word, word) for word in COMMANDS[command]]
                    bench.refuses(words, "OPENAI_API_KEY")
                    assert key is None or len(key) < 2 or key not in bench.type(*words).err


def test_a_finished_run_stays_when_a_later_command_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    before = inventory(bench.folder / "run")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert bench.type("grade", "essays.json", "--judge", "another", "--out", "run").status == 2
    assert set(inventory(bench.folder / "run")) >= set(before)
    assert json.loads((bench.folder / "run" / "manifest.json").read_text())["kind"] == "evaluation"
    assert KEY not in (bench.folder / "run" / "manifest.json").read_text()

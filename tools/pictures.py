"""The pictures of the guides, taken by Chromium from runs on the examples: `python -m tools.pictures [FOLDER]`.

Every run uses the offline model, so the pages are the same each time, apart from times and the machine's fonts.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.processes import free_port

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
_PROGRAM = (sys.executable, "-m", "autorubric")
_OFFLINE = ("--judge", "builtin/offline")
_PROPOSALS = [
    {
        "criterion": "Cause",
        "requirement": "Names the gravity of the moon as the cause.",
        "reason": "Any cause passes.",
    },
    {"criterion": "Cause", "requirement": "Explains in detail what causes the tides.", "reason": "Vague."},
]
_RUBRIC = [
    {"name": "Moon", "requirement": "Names the moon as a cause of the tides.", "weight": 5},
    {"name": "Long", "requirement": "Contains at least 20 words.", "weight": 3},
    {"name": "Sun", "requirement": "Mentions the sun.", "weight": 2},
]
_WORDS = "the moon pulls water of the sea toward it and so the tide rises then falls again twice each day"


@dataclass(frozen=True)
class Picture:
    """A page and the size of its picture in pixels.

    Attributes:
        name: the file name without its suffix.
        run: the run directory, or a report file.
        path: the page within the run; empty for a file.
    """

    name: str
    run: str
    path: str
    height: int
    width: int = 1200


PICTURES = (
    Picture("view_item", "essays", "items/3", 700),
    Picture("view_agreement", "essays", "agreement", 970),
    Picture("view_synthesis", "full", ".", 1160),
    Picture("view_rubric", "full", "rubrics/0", 680),
    Picture("view_drift", "served", "drift", 900),
    Picture("report", "essays.html", "", 780),
    Picture("improve_report", "improved/report.html", "", 890),
)


def make_runs(folder: Path) -> None:
    """Write the runs that the pictures show into a folder."""
    examples = folder / "examples"
    shutil.copytree(ROOT / "examples", examples)
    proposals = folder / "proposals.json"
    proposals.write_text(json.dumps(_PROPOSALS), "utf-8")
    essays = str(ROOT / "tests" / "data" / "essay_grading_dataset.json")
    queries, labels = str(examples / "queries.jsonl"), ["--labels", str(examples / "tides.json")]
    full = ["--profile", "full", "--id-column", "id", "--models", "builtin/offline", "--limit", "3"]
    improve = [str(examples / "tides_rubric.json"), *labels, *_OFFLINE, "--proposals", proposals.name]
    for command, out in (
        (["grade", essays, *_OFFLINE], "essays"),
        (["synthesize", queries, *full], "full"),
        (["improve", *improve], "improved"),
        (["report", str(folder / "essays")], "essays.html"),
    ):
        subprocess.run([*_PROGRAM, *command, "--out", str(folder / out)], check=True, capture_output=True, cwd=folder)
    train(folder / "served")


def train(out: Path) -> None:
    """Record the rewards of a simulated policy whose answers get longer."""
    draws = random.Random(1)
    words = _WORDS.split()
    with serving(["serve", *_OFFLINE, "--out", str(out)], "/healthz") as address:
        for step in range(40):
            items = []
            for rollout in range(32):
                text = " ".join(draws.choices(words, k=max(3, round(draws.gauss(6 + step / 2, 4)))))
                text += " The moon is a cause of the tides." if draws.random() < 0.1 + step / 60 else ""
                text += " The sun adds to it." if draws.random() < 0.2 else ""
                query = f"Why are there tides at place {rollout // 8}?"
                items.append({"query": query, "submission": text, "rubric": _RUBRIC, "step": step})
            body = json.dumps({"items": items}).encode()
            request = urllib.request.Request(f"{address}/v1/reward", body, {"Content-Type": "application/json"})
            urllib.request.urlopen(request).read()


@contextmanager
def serving(words: list[str], path: str = "/") -> Iterator[str]:
    """The address of a command that serves HTTP until the block ends."""
    port = free_port()
    program = "import sys; from autorubric.cli.app import run; sys.exit(run(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words, "--port", str(port)], stdout=subprocess.DEVNULL
    )
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                urllib.request.urlopen(address + path).read()
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


def take(picture: Picture, address: str, folder: Path) -> None:
    """Write the picture of a page at an address."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1"]
    flags += [f"--window-size={picture.width},{picture.height}", f"--screenshot={folder / picture.name}.png"]
    subprocess.run(["chromium", *flags, address], check=True, capture_output=True, timeout=120)


def take_all(folder: Path) -> None:
    """Write every picture of the guides into a folder."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        make_runs(home)
        for picture in PICTURES:
            if not picture.path:
                take(picture, (home / picture.run).as_uri(), folder)
                continue
            with serving(["view", str(home / picture.run)]) as address:
                take(picture, f"{address}/r/0/{picture.path}", folder)


if __name__ == "__main__":
    take_all(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)

"""Write the golden output anew: `python -m tests.golden.write`. Read the diff before you commit it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.golden.lines import HERE, told


def main() -> None:
    for path in HERE.glob("*.txt"):
        path.unlink()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in told(Path(folder)):
            (HERE / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

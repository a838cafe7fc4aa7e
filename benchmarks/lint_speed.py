"""How fast lint reads: criteria a second on one core, by all rules, files included."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from autorubric.linting import lint_file

DATA = Path(__file__).parents[2] / "shared" / "data"
TARGET = 2000
ENGLISH = (
    "States that the highest daily dose of paracetamol for an adult of {n} kg is 4 g.",
    "Explains in two sentences why the liver of patient {n} is at risk.",
    "Recommends case {n} to see a doctor if the pain lasts for more than three days.",
    "Names at least two of the signs of an overdose in group {n}, such as nausea and yellow eyes.",
)
CHINESE = (
    "指出体重{n}公斤的成年人每天最多服用4克对乙酰氨基酚。",
    "用两句话解释第{n}号患者的肝脏为什么有风险。",
    "建议第{n}号病例在疼痛持续三天以上时就医。",
    "至少列出第{n}组过量症状中的两项，例如恶心和眼睛发黄。",
)


def run() -> None:
    """Print the rates; the target is 2,000 criteria a second."""
    with tempfile.TemporaryDirectory() as folder:
        for name, texts, query in (
            ("English", ENGLISH, "How much is safe?"),
            ("Chinese", CHINESE, "每天多少是安全的？"),
        ):
            path = Path(folder) / f"{name}.jsonl"
            path.write_text(_rows(texts, query), "utf-8")
            _measure(f"made up, {name}, 20 a rubric", path, 20_000)
    real = DATA / "healthbench_250.jsonl"
    if real.exists():
        _measure("HealthBench, 250 rows", real, 2955)
    else:
        print("lint: HealthBench is not beside this checkout; skipped")


def _rows(texts: tuple[str, ...], query: str) -> str:
    rows = (
        {
            "question": query,
            "id": str(row),
            "rubrics": [{"criterion": texts[n % 4].format(n=row * 20 + n), "points": n % 9 + 1} for n in range(20)],
        }
        for row in range(1000)
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _measure(name: str, path: Path, criteria: int) -> None:
    rates = []
    for _ in range(3):
        started = time.process_time()
        found = sum(1 for _ in lint_file(path))
        rates.append(criteria / (time.process_time() - started))
    size = path.stat().st_size / criteria
    print(
        f"lint: {name:<32} {sorted(rates)[1]:8,.0f} criteria a second of CPU "
        f"(target {TARGET:,}; {size:.0f} bytes each; {found:,} findings)"
    )


if __name__ == "__main__":
    run()

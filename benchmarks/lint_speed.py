"""How fast lint is: criteria per second on one core, with all rules, reading of files included."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from autorubric.linting import lint_file
from benchmarks.record import Record

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


def run() -> Record:
    """Criteria a second of CPU, against `json.loads` of the same file; fails below 2,000."""
    record, rows = Record("fastest of five rounds, as timeit advises; floor: json.loads of each line"), []
    with tempfile.TemporaryDirectory() as folder:
        for name, texts, query in (
            ("English", ENGLISH, "How much is safe?"),
            ("Chinese", CHINESE, "每天多少是安全的？"),
        ):
            path = Path(folder) / f"{name}.jsonl"
            path.write_text(_rows(texts, query), "utf-8")
            rows.append(_measure(f"made up, {name}, 20 a rubric", path, 20_000, record))
    real = DATA / "healthbench_250.jsonl"
    if real.exists():
        rows.append(_measure("HealthBench, 250 rows", real, 2955, record))
    else:
        print("lint: HealthBench is not next to this checkout; skipped")
    header = ["criteria", "bytes each", "findings", "floor: criteria per second of CPU", "criteria per second of CPU"]
    record.table("rates", header, rows)
    return record


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


def _measure(name: str, path: Path, criteria: int, record: Record) -> list[str]:
    rates, floors, findings = [], [], 0
    for _ in range(5):
        started = time.process_time()
        findings = sum(1 for _ in lint_file(path))
        rates.append(criteria / (time.process_time() - started))
        started = time.process_time()
        for line in path.read_text("utf-8").splitlines():
            json.loads(line)
        floors.append(criteria / (time.process_time() - started))
    rate, floor = max(rates), max(floors)
    record.limit(f"lint, {name}: criteria per second", rate, least=TARGET)
    return [name, f"{path.stat().st_size / criteria:.0f}", f"{findings:,}", f"{floor:,.0f}", f"{rate:,.0f}"]


if __name__ == "__main__":
    run()

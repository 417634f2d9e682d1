"""A table of a million rows: read, fitted, labelled and reported by the command line."""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import problems

N_ROWS, N_COLUMNS = 1_000_000, 10


def write_table(path: Path) -> None:
    """Write rows of four clusters as CSV, six decimals."""
    rng = np.random.default_rng(0)
    means = rng.normal(0, 4, (4, N_COLUMNS))
    labels = rng.choice(4, N_ROWS, p=[0.4, 0.3, 0.2, 0.1])
    with path.open("w") as file:
        file.write(",".join(f"c{i}" for i in range(N_COLUMNS)) + "\n")
        for start in range(0, N_ROWS, 50_000):
            part = labels[start : start + 50_000]
            noise = rng.standard_normal((len(part), N_COLUMNS)) * np.array([1, 1.5, 0.7, 2.0])[part][:, None]
            rows = (means[part] + noise).tolist()
            file.write("\n".join(",".join(f"{value:.6f}" for value in row) for row in rows) + "\n")


def main() -> None:
    """Time the command on a table of a million rows."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_table(path)
        for kind in ("spherical", "full"):
            output = Path(folder) / kind
            options = ["-k", "4", "--covariance", kind, "-o", str(output)]
            command = [sys.executable, "-m", "apolar", "fit", str(path), *options]
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds = time.perf_counter() - start
            memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            size = (output / "report.html").stat().st_size / 1e6
            rows.append([kind, f"{seconds:.1f}", f"{memory:.0f}", f"{size:.2f}"])
        size = f"{N_ROWS:,} x {N_COLUMNS} ({path.stat().st_size / 1e6:.0f} MB)"
        setting = f"`apolar fit` of a CSV file of {size}, 4 components."
    header = ["covariances", "seconds", "peak memory so far, MB", "report, MB"]
    problems.save(
        "table",
        "A table of a million rows",
        [setting + "\n\n" + problems.table(header, rows)],
        ("numpy", "scipy"),
    )

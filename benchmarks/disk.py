"""A table that stays on disk, compared with the same table in memory."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import large, problems

N_ROWS, N_COLUMNS, N_COMPONENTS = 30_000_000, 16, 8

# In a separate process: peak memory is measured per process.
FIT = """
import json, sys, time
import numpy as np
import apolar

path, kind, n_columns, n_components = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024

X = np.memmap(path, dtype=np.float32, mode="r").reshape(-1, n_columns)
if kind == "array":
    X = np.fromfile(path, dtype=np.float32).reshape(-1, n_columns)
start = time.perf_counter()
model = apolar.GaussianMixture(n_components, covariance_type="spherical", random_state=0).fit(X)
seconds = time.perf_counter() - start
print(json.dumps([seconds, peak(), model.n_iter_, model.lower_bound_, model.means_.tolist()]))
"""


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def fits(path: Path) -> str:
    large.write(path, N_ROWS, N_COLUMNS, N_COMPONENTS)
    runs_of = {kind: [] for kind in ("memory map", "array")}
    # By turns: the machine may be busier at one time than at another.
    for _ in range(2):
        for kind, runs in runs_of.items():
            runs.append(json.loads(run(FIT, path, kind, N_COLUMNS, N_COMPONENTS)))
    best = {kind: min(runs) for kind, runs in runs_of.items()}
    rows = [
        [kind, f"{seconds:.1f}", f"{memory:.0f}", str(n_iter), f"{log_likelihood:.9f}"]
        for kind, (seconds, memory, n_iter, log_likelihood, _) in best.items()
    ]
    ratio = best["memory map"][0] / best["array"][0]
    mapped_means, array_means = (np.array(run[4]) for run in best.values())
    difference = np.abs(mapped_means - array_means).max()
    setting = (
        f"A default fit of {N_COMPONENTS} spherical components to {N_ROWS:,} x {N_COLUMNS} numbers of "
        f"float32 ({N_ROWS * N_COLUMNS * 4 / 1e9:.2f} GB), the better of two runs each. The memory map takes "
        f"{ratio:.2f} times as long; the means differ by {difference:.1g} at most."
    )
    header = ["table", "seconds", "peak of resident memory, MB", "passes at the end", "mean log-likelihood"]
    return setting + "\n\n" + problems.table(header, rows)


def main() -> None:
    """Measure both."""
    with tempfile.TemporaryDirectory() as folder:
        parts = [fits(Path(folder) / "rows")]
    problems.save("disk", "Tables on disk", parts, ("numpy", "scipy"))

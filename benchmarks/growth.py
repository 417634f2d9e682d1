"""How time and memory grow with the number of rows."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import large, problems

N_COLUMNS, N_COMPONENTS = 16, 8
SIZES = (100_000, 1_000_000, 10_000_000, 30_000_000)

# In a separate process: peak memory is measured per process.
SCRIPT = """
import json, sys, time
import numpy as np
import apolar
from apolar.data import open_rows
from apolar.em.problem import Problem
from apolar._core.threads import one_blas_thread
from apolar.mixture.families import family
from apolar.search.moment_starts import whitened_spherical

path, n_columns, n_components = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024

def seconds(call, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return min(times), result

X = np.memmap(path, dtype=np.float32, mode="r").reshape(-1, n_columns)
repeats = 3 if len(X) <= 1_000_000 else 1
moments, mixture = seconds(lambda: apolar.mixture_from_moments(X, n_components), repeats)
with one_blas_thread():
    data = Problem(open_rows(X), family("spherical"), threads=2)
    start = whitened_spherical(data, mixture, np.ones(n_columns))[None]
    step, _ = seconds(lambda: data.e_step(start), 3)
model = apolar.GaussianMixture(n_components, covariance_type="spherical", random_state=0)
fit, _ = seconds(lambda: model.fit(X), repeats)
print(json.dumps([moments, step, fit, model.n_iter_, peak()]))
"""


def main() -> None:
    """Time fits of tables of growing size."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        for n_rows in SIZES:
            large.write(path, n_rows, N_COLUMNS, N_COMPONENTS)
            command = [sys.executable, "-c", SCRIPT, str(path), str(N_COLUMNS), str(N_COMPONENTS)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            moments, step, fit, n_iter, memory = json.loads(output)
            rows.append(
                [
                    f"{n_rows:,}",
                    f"{moments:.3f}",
                    f"{step:.3f}",
                    f"{1e9 * step / n_rows:.0f}",
                    f"{fit:.2f}",
                    f"{fit / step:.0f}",
                    str(n_iter),
                    f"{memory:.0f}",
                ]
            )
    setting = (
        f"A memory map of {N_COLUMNS} columns of float32, {N_COMPONENTS} spherical components, two threads."
    )
    header = [
        "rows",
        "moment start, s",
        "pass of EM, s",
        "per row, ns",
        "default fit, s",
        "in passes",
        "passes over all rows at the end",
        "peak memory, MB",
    ]
    problems.save(
        "growth",
        "Growth with the number of rows",
        [setting + "\n\n" + problems.table(header, rows)],
        ("numpy", "scipy"),
    )

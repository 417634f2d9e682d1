"""A table that stays on disk, compared with the same table in memory; a fit that is killed."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import apolar
from benchmarks import large, problems

N_ROWS, N_COLUMNS, N_COMPONENTS = 30_000_000, 16, 8
KILLED_ROWS, KILLED_COMPONENTS = 1_000_000, 12

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

# Overlapping clusters, started at random: many passes.
LONG = """
import sys
import numpy as np
import apolar

path, checkpoint, n_columns, n_components = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
X = np.memmap(path, dtype=np.float32, mode="r").reshape(-1, n_columns)
model = apolar.GaussianMixture(
    n_components, covariance_type="full", init_params="random", random_state=0, tol=1.0,
    checkpoint=checkpoint, checkpoint_every=5, warm_start=True,
).fit(X)
print(model.n_iter_, model.lower_bound_, model.converged_)
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


def killed(path: Path, checkpoint: Path) -> str:
    large.write(path, KILLED_ROWS, N_COLUMNS, KILLED_COMPONENTS)
    unbroken = run(LONG, path, checkpoint, N_COLUMNS, KILLED_COMPONENTS).split()
    checkpoint.unlink()
    command = [sys.executable, "-c", LONG, *map(str, (path, checkpoint, N_COLUMNS, KILLED_COMPONENTS))]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    reached = 0
    while reached < int(unbroken[0]) / 2:
        time.sleep(0.2)
        if checkpoint.exists():
            reached = len(apolar.GaussianMixture.load(checkpoint).lower_bounds_)
        if process.poll() is not None:
            raise RuntimeError("the fit ended before it was killed")
    process.kill()
    process.wait()
    resumed = run(LONG, path, checkpoint, N_COLUMNS, KILLED_COMPONENTS).split()
    rows = [
        ["not killed", *unbroken],
        [f"killed after pass {reached}, then resumed", f"{reached} + {resumed[0]}", *resumed[1:]],
    ]
    text = (
        f"A fit of {KILLED_COMPONENTS} full components to {KILLED_ROWS:,} rows, from random "
        "responsibilities, ended by SIGKILL and run again with the same checkpoint."
    )
    return text + "\n\n" + problems.table(["run", "passes", "mean log-likelihood", "converged"], rows)


def main() -> None:
    """Run both."""
    with tempfile.TemporaryDirectory() as folder:
        parts = [fits(Path(folder) / "rows"), killed(Path(folder) / "rows", Path(folder) / "fit.npz")]
    problems.save("disk", "Tables on disk", parts, ("numpy", "scipy"))

"""Sparse rows of many columns."""

import json
import subprocess
import sys

from benchmarks import problems

N_ROWS, N_COLUMNS, N_PER_ROW, N_TOPICS = 100_000, 50_000, 50, 10

# In a separate process: peak memory is measured per process.
SCRIPT = """
import json, sys, time
import numpy as np
from scipy import sparse
import apolar
from sklearn.cluster import KMeans

n_rows, n_columns, n_per_row, n_topics = map(int, sys.argv[1:5])
rng = np.random.default_rng(0)
labels = rng.choice(n_topics, n_rows, p=rng.dirichlet(np.full(n_topics, 5.0)))
topic_columns = rng.integers(0, n_columns, (n_topics, n_columns // 50))
columns = rng.integers(0, n_columns, (n_rows, n_per_row))
picked = topic_columns[labels[:, None], rng.integers(0, topic_columns.shape[1], (n_rows, n_per_row))]
columns = np.where(rng.random((n_rows, n_per_row)) < 0.5, picked, columns)
values = rng.exponential(size=n_rows * n_per_row)
starts = np.arange(0, n_rows * n_per_row + 1, n_per_row)
X = sparse.csr_matrix((values, columns.ravel(), starts), shape=(n_rows, n_columns))
X.sum_duplicates()
X = sparse.csr_matrix(X.multiply(1 / np.sqrt(X.multiply(X).sum(axis=1))))

def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024

def index(predicted):
    return apolar.scores.adjusted_rand_index(labels, predicted)

results = [["density", X.nnz / n_rows / n_columns, peak(), 0.0]]
start = time.perf_counter()
apolar.mixture_from_moments(X, n_topics)
results.append(["mixture_from_moments", time.perf_counter() - start, peak(), None])
start = time.perf_counter()
model = apolar.GaussianMixture(n_topics, covariance_type="spherical", random_state=0).fit(X)
results.append(["GaussianMixture, spherical", time.perf_counter() - start, peak(), index(model.predict(X))])
start = time.perf_counter()
predicted = KMeans(n_topics, n_init=1, random_state=0).fit(X).labels_
results.append(["scikit-learn's KMeans, one start", time.perf_counter() - start, peak(), index(predicted)])
print(json.dumps(results))
"""


def main() -> None:
    """Time the fits."""
    command = [sys.executable, "-c", SCRIPT, *map(str, (N_ROWS, N_COLUMNS, N_PER_ROW, N_TOPICS))]
    results = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    _, density, memory_before, _ = results[0]
    rows = [
        [name, f"{seconds:.1f}", f"{memory:.0f}", "" if index is None else f"{index:.3f}"]
        for name, seconds, memory, index in results[1:]
    ]
    setting = (
        f"{N_ROWS:,} x {N_COLUMNS:,} numbers of density {density:.2%}, rows of length one, {N_TOPICS} "
        f"topics. Dense they would take {N_ROWS * N_COLUMNS * 8 / 1e9:.0f} GB; the process took "
        f"{memory_before:.0f} MB before the first fit."
    )
    header = ["method", "seconds", "peak of resident memory so far, MB", "adjusted Rand index"]
    problems.save(
        "sparse",
        "Sparse tables",
        [setting + "\n\n" + problems.table(header, rows)],
        ("numpy", "scipy", "scikit-learn"),
    )

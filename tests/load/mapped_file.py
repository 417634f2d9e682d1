"""A table that is mapped from a file, larger than the memory that the process may take.

`python -m load.mapped_file 2048`, with `tests` on the path, is for a file of 2 GB. The limit is that of the
data of the process, in which pages of a file do not count: what it takes before the fit, and a little more.
"""

import resource
import sys
import tempfile
from pathlib import Path

import numpy as np

import apolar

N_FEATURES = 12
# What a fit may take beside the file: some chunks of rows, and the sample that starts are searched on.
ALLOWED = 2**28


def clusters(n_rows):
    """Return two clusters in single precision."""
    X = np.random.default_rng(0).standard_normal((n_rows, N_FEATURES), dtype=np.float32)
    X[::2] += 5
    return X


def write(path, n_bytes):
    """Write clusters; return the number of rows."""
    block = clusters(2**18)
    n_blocks = -(-n_bytes // block.nbytes)
    with path.open("wb") as file:
        for i in range(n_blocks):
            # Other rows in each block, by a rotation of them.
            file.write(np.roll(block, i, axis=0).tobytes())
    return n_blocks * len(block)


def data_size():
    """Return the bytes that count in the limit, as the system says."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmData" in line)
    return int(line.split()[1]) * 1024


def main():
    """Write the file, set the limit, fit, and predict."""
    n_bytes = int(sys.argv[1]) * 2**20
    model = apolar.GaussianMixture(2, covariance_type="spherical", random_state=0, n_threads=2)
    # The libraries, their threads and working memory.
    model.fit(clusters(50_000))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        n_rows = write(path, n_bytes)
        resource.setrlimit(resource.RLIMIT_DATA, (data_size() + ALLOWED,) * 2)
        try:
            np.ones(n_bytes // 4)
        except MemoryError:
            pass
        else:
            raise AssertionError("the limit does not hold")
        rows = np.memmap(path, dtype=np.float32, mode="r").reshape(-1, N_FEATURES)
        model.fit(rows)
        assert model.n_samples_seen_ == n_rows
        np.testing.assert_allclose(np.sort(model.means_[:, 0]), [0, 5], atol=0.05)
        assert np.isfinite(model.score(rows))
    print(f"{n_bytes / 2**20:.0f} MB fitted with {ALLOWED / 2**20:.0f} MB")


if __name__ == "__main__":
    sys.exit(main())

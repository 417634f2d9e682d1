"""All families and numbers of components at once, compared with `Mclust` of R: BIC, time, and known classes.

``python -m benchmarks.selection --help`` has parts of it.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn import datasets
from sklearn.metrics import adjusted_rand_score

import apolar
from benchmarks import problems

# Mclust is given up after this many seconds.
PATIENCE = 600
# How often each selection is timed; the least time is shown.
REPEATS = 3
# Tables that mclust brings along, and how their columns are taken: rows in CSV, the class last.
R_TABLES = """
suppressMessages(library(mclust)); folder <- commandArgs(TRUE)[1]
data(diabetes); data(banknote); data(thyroid); data(wdbc); data(Baudry_etal_2010_JCGS_examples)
tables <- list(diabetes = diabetes[, c(2:4, 1)], banknote = banknote[, c(2:7, 1)],
  thyroid = thyroid[, c(2:6, 1)], wdbc = wdbc[, c(3:32, 2)], faithful = cbind(faithful, 0),
  "Baudry 4.1" = cbind(ex4.1, 0), "Baudry 4.2" = cbind(ex4.2, 0), "Baudry 4.3" = cbind(ex4.3, 0),
  "Baudry 4.4.1" = cbind(ex4.4.1, 0), "Baudry 4.4.2" = cbind(ex4.4.2, 0))
for (name in names(tables))
  write.csv(tables[[name]], file.path(folder, paste0(name, ".csv")), row.names = FALSE, quote = FALSE)
"""
R_SELECTION = """
suppressMessages(library(mclust)); args <- commandArgs(TRUE)
X <- as.matrix(read.csv(args[1])); least <- Inf
for (i in 1:as.integer(args[2])) {
  seconds <- system.time(best <- Mclust(X, verbose = FALSE))[["elapsed"]]; least <- min(least, seconds) }
cat(sprintf('{"model": "%s", "n_components": %d, "bic": %.6f, "seconds": %.4f, "labels": [%s]}',
  best$modelName, best$G, best$bic, least, paste(best$classification, collapse = ",")))
"""


def tables(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the tables by name, each with its classes; those of mclust if R is installed."""
    found = {}
    for name in ("iris", "olive"):
        loaded = getattr(apolar.datasets, f"load_{name}")()
        found[name] = np.asarray(loaded.data, dtype=float), np.asarray(loaded.target)
    wine = datasets.load_wine()
    found["wine"] = wine.data, wine.target
    if shutil.which("Rscript"):
        subprocess.run(["Rscript", "-e", R_TABLES, str(folder)], check=True, capture_output=True)
        for path in sorted(folder.glob("*.csv")):
            text = np.genfromtxt(path, delimiter=",", skip_header=1, dtype=str)
            found[path.stem] = text[:, :-1].astype(float), np.unique(text[:, -1], return_inverse=True)[1]
    return found


def mclust(X: np.ndarray, folder: Path, repeats: int) -> dict | None:
    """Return the choice of `Mclust`; None without R, or if it takes too long."""
    if shutil.which("Rscript") is None:
        return None
    path = folder / "table.txt"
    np.savetxt(path, X, delimiter=",", header=",".join(f"x{i}" for i in range(X.shape[1])), comments="")
    command = ["Rscript", "-e", R_SELECTION, str(path), str(repeats)]
    try:
        ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(ran.stdout[ran.stdout.index("{") :])


def compared(names: list[str] | None, repeats: int) -> str:
    """Return a table of the choices of both, their BIC in mclust's sign, and their times."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        known = tables(Path(folder))
        for name in names or known:
            X, classes = known[name]
            seconds = np.inf
            for _ in range(repeats):
                begun = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    selection = apolar.select(X, random_state=0)
                seconds = min(seconds, time.perf_counter() - begun)
            theirs = mclust(X, Path(folder), 1 if seconds > 10 else repeats)
            best = selection.best
            row = [
                name,
                f"{len(X)} x {X.shape[1]}",
                f"{_code(best)} {best.n_components}",
                f"{-best.bic(X):.2f}",
            ]
            n_classes = len(np.unique(classes))
            indices = ["", ""]
            if theirs is not None:
                row += [f"{theirs['model']} {theirs['n_components']}", f"{theirs['bic']:.2f}"]
                row += [f"{seconds:.2f}", f"{theirs['seconds']:.2f}", f"{theirs['seconds'] / seconds:.1f}"]
                if n_classes > 1:
                    indices[1] = f"{adjusted_rand_score(classes, theirs['labels']):.2f}"
            else:
                row += ["", "", f"{seconds:.2f}", "", ""]
            if n_classes > 1:
                indices[0] = f"{adjusted_rand_score(classes, best.predict(X)):.2f}"
            lines.append([*row, *indices])
            print(" ".join(lines[-1]), flush=True)
    header = [
        "table",
        "rows",
        "apolar",
        "BIC",
        "Mclust",
        "BIC",
        "apolar s",
        "Mclust s",
        "ratio",
        "ARI",
        "theirs",
    ]
    text = (
        "All fourteen families, 1 to 9 components, defaults of both; BIC in mclust's sign, larger is better. "
        f"Times are the least of {repeats} runs; ratios are those of mclust to ours; if there is none, it "
        f"did not end in {PATIENCE} s. ARI: with known classes."
    )
    return text + "\n\n" + problems.table(header, lines)


def _code(model: apolar.GaussianMixture) -> str:
    return apolar.mixture.families.family(model.covariance_type).code


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="*", help="some of the tables, without saving")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options, _ = parser.parse_known_args()
    part = compared(options.tables, options.repeats)
    if options.tables:
        print(part)
    else:
        problems.save("selection", "Selection compared with mclust", [part], ("numpy", "scipy"))


if __name__ == "__main__":
    main()

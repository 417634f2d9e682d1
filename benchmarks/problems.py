"""Tensors with known components, noise, and other libraries under the same interface."""

import os
import platform
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

import apolar
from apolar.decomposition import component_errors

RESULTS = Path(__file__).parent / "results"


def components(dim: int, rank: int, seed: int, *, unit: bool) -> np.ndarray:
    """Return Gaussian components of variance 1/dim, or the same on the unit sphere."""
    drawn = np.random.default_rng([dim, rank, seed]).standard_normal((rank, dim)) / np.sqrt(dim)
    return drawn / np.linalg.norm(drawn, axis=1)[:, None] if unit else drawn


def noisy(tensor: apolar.SymmetricTensor, noise: float, seed: int) -> apolar.SymmetricTensor:
    """Return the tensor plus symmetric Gaussian noise of that relative Frobenius norm."""
    rng = np.random.default_rng([1, seed])
    errors = rng.standard_normal(len(tensor.coefficients)) / np.sqrt(tensor.multinomials)
    error = apolar.SymmetricTensor(tensor.order, tensor.dim, errors)
    return tensor + error * (noise * tensor.norm() / error.norm())


def largest_error(truth: np.ndarray, waring: apolar.Waring) -> float:
    """Return the largest relative error of a component; infinite if their number differs."""
    if waring.rank != len(truth):
        return float("inf")
    return float(component_errors(apolar.Waring(np.ones(len(truth)), truth, waring.order), waring).max())


def symmetric(weights: np.ndarray, factors: list[np.ndarray]) -> apolar.Waring:
    """Return a CP decomposition as a symmetric one: its factors aligned in sign, and averaged."""
    order = len(factors)
    norms = [np.linalg.norm(factor, axis=0) for factor in factors]
    units = [factor / np.where(norm > 0, norm, 1) for factor, norm in zip(factors, norms, strict=True)]
    signs = [np.where(np.sum(unit * units[0], axis=0) < 0, -1.0, 1.0) for unit in units]
    mean = sum(unit * sign for unit, sign in zip(units, signs, strict=True))
    length = np.linalg.norm(mean, axis=0)
    points = (mean / np.where(length > 0, length, 1)).T
    return apolar.Waring(weights * np.prod(norms, axis=0) * np.prod(signs, axis=0), points, order)


def tensorly_parafac(dense: np.ndarray, rank: int, seed: int, *, n_iter: int = 100) -> apolar.Waring:
    """Return the result of Tensorly's alternating least squares, by default with its default iterations."""
    from tensorly.decomposition import parafac

    tol = 1e-8 if n_iter <= 100 else 1e-12
    cp = parafac(dense, rank, random_state=seed, n_iter_max=n_iter, tol=tol)
    return symmetric(np.asarray(cp.weights), [np.asarray(factor) for factor in cp.factors])


def tensorly_power(dense: np.ndarray, rank: int, seed: int) -> apolar.Waring:
    """Return the result of Tensorly's symmetric power iteration, with its defaults."""
    import tensorly
    from tensorly.decomposition import symmetric_parafac_power_iteration

    with tensorly.backend_context("numpy"):
        np.random.seed(seed)  # noqa: NPY002 (it draws from the global state)
        weights, factor = symmetric_parafac_power_iteration(dense, rank)
    return apolar.Waring(np.asarray(weights), np.asarray(factor).T, dense.ndim)


def pyttb_als(dense: np.ndarray, rank: int, seed: int) -> apolar.Waring:
    """Return the result of Pyttb's alternating least squares, with its default of 1000 iterations."""
    import pyttb

    np.random.seed(seed)  # noqa: NPY002 (it draws from the global state)
    cp = pyttb.cp_als(pyttb.tensor(dense), rank, printitn=0)[0]
    return symmetric(np.asarray(cp.weights), [np.asarray(factor) for factor in cp.factor_matrices])


def timed(call: Callable[[], apolar.Waring]) -> tuple[float, apolar.Waring | None]:
    """Return the seconds that a call takes, and its result; None if it raises."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = call()
        except Exception as error:
            print(f"  a peer raised {type(error).__name__}: {error}")
            result = None
    return time.perf_counter() - start, result


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def save(
    name: str,
    title: str,
    parts: list[str],
    libraries: tuple[str, ...] = ("numpy", "scipy", "tensorly", "pyttb"),
) -> None:
    """Print a report, and keep it in the folder of results."""
    versions = ", ".join(f"{library} {version(library)}" for library in libraries)
    versions = f"Python {platform.python_version()}, {versions}"
    made = f"`python -m benchmarks {name}`, {versions}, {os.cpu_count()} cores."
    report = "\n\n".join([f"# {title}", made, *parts]) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(report)
    print(report)

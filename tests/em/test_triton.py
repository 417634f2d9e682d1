"""The kernels by themselves: what they sum and predict is what NumPy does.

On a machine without a GPU, Triton's interpreter runs them.
"""

import numpy as np
import pytest

from apolar._core.namespaces import Scratch
from apolar.data import Chunk, open_rows
from apolar.em import kernel_block
from apolar.em.blocks import StatsBlock, posteriors, write_row_stats
from apolar.em.problem import Problem
from apolar.em.row_blocks import RowBlocks
from apolar.mixture.families import family
from apolar.mixture.parameters import WhitenedParameters
from apolar.mixture.tails import Tails
from kernel_device import DEVICE, interpreted, torch

pytestmark = interpreted

SIZES = [(1, 1), (3, 2), (6, 4), (16, 8), (17, 9)]
CASES = [(name, *size, False) for name in ("spherical", "diag", "full") for size in SIZES[:4]]
CASES += [("spherical", 17, 9, True), ("diag", 64, 3, False), ("diag", 5, 32, True)]
CASES += [("full", 17, 5, True), ("full", 4, 16, True), ("tied", 6, 4, False)]
# Sums of many terms in another order, of logits that have other roundings: some hundred units of rounding.
TOLERANCE = 1e-12


def problem(name, n_columns, n_components, n_rows=101, dtype=np.float32):
    """Return rows, in single precision, their whitening, and natural parameters of a mixture."""
    rng = np.random.default_rng(n_columns + n_components)
    rows = (rng.standard_normal((n_rows, n_columns)) * rng.uniform(1, 3, n_columns) + 5).astype(dtype)
    kind = family(name)
    whitening = Problem(open_rows(rows.astype(np.float64)), kind).whitening
    weights, means = rng.dirichlet(np.ones(n_components)), rng.standard_normal((n_components, n_columns))
    covariances = kind.from_spherical(rng.uniform(0.3, 1.5, n_components), kind.identity(n_columns), weights)
    if kind.n_axes == 2:
        factors = np.eye(n_columns) + 0.3 * rng.standard_normal(
            (*covariances.shape[:-2], n_columns, n_columns)
        )
        covariances = factors @ covariances @ np.swapaxes(factors, -1, -2)
    return rows, kind, whitening, kind.natural(WhitenedParameters(weights, means, covariances))


def parameters_of(whitening, natural):
    return kernel_block.parameters_of(whitening.centre, whitening.matrix, natural)


def on_host(rows, kind, whitening, weights=None):
    return StatsBlock(write_row_stats(rows.astype(np.float64), kind, whitening, Scratch()), weights)


def of_kernel(rows, weights, kind, whitening, natural, tails=None):
    chunk = Chunk(rows, weights, 0, rows.shape[1])
    return kernel_block.KernelBlock(chunk, RowBlocks(kind, whitening)).e_step(natural[None], tails)


def tails_of(natural, n_columns):
    """Return tails of several lengths; the last component is noise."""
    natural = np.vstack([natural, np.zeros((1, natural.shape[1]))])
    natural[-1, 0] = natural[0, 0] - n_columns
    peaks = natural[:, 0].copy()
    for k, row in enumerate(natural[:-1]):
        linear, quadratic = row[1 : 1 + n_columns], row[1 + n_columns :]
        precision = np.zeros((n_columns, n_columns))
        if len(quadratic) > n_columns:
            precision[np.triu_indices(n_columns)] = -quadratic
            precision = precision + precision.T
        else:
            precision = np.diag(np.broadcast_to(-2 * quadratic, n_columns))
        peaks[k] += 0.5 * linear @ np.linalg.solve(precision, linear)
    dof = np.append(np.geomspace(1.0, 60.0, len(natural) - 1), np.inf)
    return natural, Tails(dof, peaks, n_columns)


def assert_close(ours, expected):
    np.testing.assert_allclose(ours, expected, rtol=TOLERANCE, atol=TOLERANCE * np.abs(expected).max())


@pytest.mark.parametrize(("name", "n_columns", "n_components", "weighted"), CASES)
def test_the_e_step_is_that_of_numpy(name, n_columns, n_components, weighted):
    rows, kind, whitening, natural = problem(name, n_columns, n_components)
    weights = np.random.default_rng(2).uniform(0, 2, len(rows)) if weighted else None
    tensors = [None if a is None else torch.tensor(a, device=DEVICE) for a in (rows, weights)]
    sums = of_kernel(*tensors, kind, whitening, natural)
    expected = on_host(rows, kind, whitening, weights).e_step(natural[None])
    for ours, theirs in zip(sums, expected, strict=True):
        assert_close(ours, theirs)


@pytest.mark.parametrize(("name", "n_columns", "n_components", "weighted"), CASES[:9:4] + CASES[-6:])
def test_predictions_are_those_of_numpy(name, n_columns, n_components, weighted):
    rows, kind, whitening, natural = problem(name, n_columns, n_components)
    block = on_host(rows, kind, whitening)
    responsibilities, density = posteriors(block.logits(natural).copy()[None])
    parameters = parameters_of(whitening, natural)
    expected = {
        "labels": responsibilities[0].argmax(axis=0),
        "probabilities": responsibilities[0].T,
        "densities": density[0],
    }
    tensor = torch.tensor(rows, device=DEVICE)
    for what, theirs in expected.items():
        ours, check = kernel_block.predict(tensor, None, parameters, what)
        assert float(check) == 0
        assert ours.dtype == (torch.int64 if what == "labels" else torch.float64)
        assert_close(ours.cpu().numpy(), theirs)
    weights = np.random.default_rng(2).uniform(0, 2, len(rows)) if weighted else None
    device_weights = None if weights is None else torch.tensor(weights, device=DEVICE)
    sums, check = kernel_block.predict(tensor, device_weights, parameters, "sums")
    assert float(check) == 0
    assert_close(
        sums.cpu().numpy(), np.array(on_host(rows, kind, whitening, weights).posteriors(natural, "sums")[:2])
    )


@pytest.mark.parametrize(("name", "n_columns", "n_components", "weighted"), CASES)
def test_long_tails_are_those_of_numpy(name, n_columns, n_components, weighted):
    rows, kind, whitening, natural = problem(name, n_columns, n_components)
    natural, tails = tails_of(natural, n_columns)
    weights = np.random.default_rng(2).uniform(0, 2, len(rows)) if weighted else None
    tensors = [None if a is None else torch.tensor(a, device=DEVICE) for a in (rows, weights)]
    block = on_host(rows, kind, whitening, weights)
    ours, log_likelihood = of_kernel(*tensors, kind, whitening, natural, tails)
    theirs, expected = block.e_step(natural[None], tails)
    # Logarithms of squared distances have some more rounding; factors of the noise mean nothing.
    for one, other in ((ours[:-1], theirs[:-1]), (ours[-1, -2], theirs[-1, -2]), (log_likelihood, expected)):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10 * np.abs(theirs[:-1]).max())
    parameters = kernel_block.parameters_of(whitening.centre, whitening.matrix, natural, tails)
    answers, check = kernel_block.predict(tensors[0], None, parameters, "densities")
    assert float(check) == 0
    assert_close(answers.cpu().numpy(), block.posteriors(natural, "densities", tails))


@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("name", ["diag", "full"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_seen(name, bad):
    rows, _, whitening, natural = problem(name, 6, 4)
    rows[77, 3] = bad
    for what in ("labels", "probabilities", "densities", "sums"):
        # The interpreter, which computes with NumPy, would warn.
        with np.errstate(all="ignore"):
            _, check = kernel_block.predict(
                torch.tensor(rows, device=DEVICE), None, parameters_of(whitening, natural), what
            )
        assert np.isnan(float(check))


def test_rows_far_from_all_components_have_responsibilities():
    rows, kind, whitening, natural = problem("spherical", 6, 4, dtype=np.float64)
    rows[::7] *= 1e6
    responsibilities, density = posteriors(on_host(rows, kind, whitening).logits(natural).copy()[None])
    parameters, tensor = parameters_of(whitening, natural), torch.tensor(rows, device=DEVICE)
    probabilities, check = kernel_block.predict(tensor, None, parameters, "probabilities")
    assert float(check) == 0
    # Logits of 1e12 have roundings of 1e-4: where two are close, only sums of responsibilities are exact.
    np.testing.assert_allclose(probabilities.sum(dim=1).cpu().numpy(), 1, rtol=1e-12)
    near = np.arange(len(rows)) % 7 != 0
    assert_close(probabilities.cpu().numpy()[near], responsibilities[0].T[near])
    ours = kernel_block.predict(tensor, None, parameters, "densities")[0].cpu().numpy()
    np.testing.assert_allclose(ours, density[0], rtol=1e-12, atol=1e-10)


def test_columns_may_be_stored_in_any_order():
    rows, kind, whitening, natural = problem("full", 6, 4)
    by_column = torch.tensor(np.asfortranarray(rows).T, device=DEVICE).T
    assert not by_column.is_contiguous()
    sums = of_kernel(by_column, None, kind, whitening, natural)
    for ours, theirs in zip(sums, on_host(rows, kind, whitening).e_step(natural[None]), strict=True):
        assert_close(ours, theirs)

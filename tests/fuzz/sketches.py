"""Moments of hostile tables: by rows, by sketches that are merged, and mixtures from them."""

import warnings

import numpy as np

import apolar
from fuzz.outcomes import refused_on_purpose
from fuzz.tables import table, weights


def run(rng):
    """Take moments of a table in one of several ways; return what was tried."""
    kind, X = table(rng)
    weighted, sample_weight = weights(rng, len(X))
    name = str(rng.choice(list(WAYS)))
    tried = f"{name} of {kind} {X.shape} {X.dtype}, weights {weighted}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            WAYS[name](rng, X, sample_weight)
    except (ValueError, TypeError) as error:
        refused_on_purpose(error)
        return f"{tried}: {error}"
    return tried


def _mixture(rng, X, sample_weight):
    n_components, form = int(rng.integers(1, 5)), str(rng.choice(["equivariant", "paper"]))
    _sound(apolar.mixture_from_moments(X, n_components, form=form, sample_weight=sample_weight))


def _sketched_mixture(rng, X, sample_weight):
    sketch = _sketch(rng, X, sample_weight)
    _sound(apolar.mixture_from_moments(sketch, int(rng.integers(1, 5))))


def _moments(rng, X, sample_weight):  # noqa: ARG001 - all ways are called alike
    moments = apolar.spherical_moments(X, sample_weight=sample_weight)
    for value in (moments.first, moments.second, moments.third.coefficients, moments.mean_variance):
        assert np.all(np.isfinite(value)), "a moment is not finite"


def _count(rng, X, sample_weight):  # noqa: ARG001
    count = apolar.n_components_from_spectrum(X, sample_weight=sample_weight)
    assert count.n_components >= 1
    assert count.message


def _sketch(rng, X, sample_weight):
    """Return the sum of the sketches of two parts, checked against that of the whole."""
    whole = apolar.MomentSketch(X.shape[1]).update(X, sample_weight)
    cut = int(rng.integers(0, len(X) + 1))
    parts = []
    for part in (slice(0, cut), slice(cut, None)):
        part_weight = None if sample_weight is None else sample_weight[part]
        if len(X[part]) and (part_weight is None or np.any(part_weight > 0)):
            parts.append(apolar.MomentSketch(X.shape[1]).update(X[part], part_weight))
    merged = sum(parts[1:], parts[0])
    expected, obtained = whole.central(), merged.central()
    size = np.abs(np.asarray(X, dtype=float)).max() + 1e-300
    np.testing.assert_allclose(obtained.mean / size, expected.mean / size, atol=1e-9)
    np.testing.assert_allclose(
        obtained.covariance / size / size, expected.covariance / size / size, atol=1e-9
    )
    return merged


def _sound(mixture):
    for name in ("weights", "means", "variances"):
        assert np.all(np.isfinite(getattr(mixture, name))), f"{name} are not finite"
    np.testing.assert_allclose(mixture.weights.sum(), 1)
    assert np.all(mixture.variances > 0)
    assert np.all(mixture.weights > 0)


WAYS = {
    "a mixture": _mixture,
    "a mixture from sketches": _sketched_mixture,
    "moments": _moments,
    "the number of components": _count,
    "merged sketches": _sketch,
}

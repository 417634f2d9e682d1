"""Every scheduler gives what NumPy gives."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import apolar
from apolar._core.settings import SETTINGS
from apolar.selection import select
from data.dask.blocks import CLOSE, COLUMNS, assert_same_mixture, generated, model, rows_of_block


@pytest.mark.parametrize("kind", ["spherical", "full", "tied"])
@pytest.mark.usefixtures("scheduler")
def test_a_fit_is_that_of_the_rows_in_memory(kind):
    X = rows_of_block(7000, 0)
    lazy = da.from_array(X, chunks=(1500, 3))
    ours, theirs = model(covariance_type=kind).fit(lazy), model(covariance_type=kind).fit(X)
    assert_same_mixture(ours, theirs)
    np.testing.assert_array_equal(ours.predict(lazy).compute(), theirs.predict(X))
    np.testing.assert_allclose(ours.predict_proba(lazy).compute(), theirs.predict_proba(X), atol=CLOSE)
    np.testing.assert_allclose(ours.score_samples(lazy).compute(), theirs.score_samples(X), atol=1e-6)
    for name in ("score", "bic", "aic", "icl"):
        assert getattr(ours, name)(lazy) == pytest.approx(getattr(theirs, name)(X), rel=1e-9)


@pytest.mark.usefixtures("scheduler")
def test_a_dataframe_with_a_column_of_weights():
    X = rows_of_block(5500, 2)
    frame = pd.DataFrame(X, columns=COLUMNS)
    frame["w"] = np.random.default_rng(0).integers(0, 4, len(X)).astype(float)
    lazy = dd.from_pandas(frame, npartitions=4)
    ours = model(covariance_type="spherical").fit(lazy[COLUMNS], sample_weight=lazy["w"])
    theirs = model(covariance_type="spherical").fit(frame[COLUMNS], sample_weight=frame["w"])
    assert_same_mixture(ours, theirs)
    assert list(ours.feature_names_in_) == COLUMNS
    labels = ours.predict(lazy[COLUMNS])
    assert isinstance(labels, da.Array)
    np.testing.assert_array_equal(labels.compute(), theirs.predict(frame[COLUMNS]))
    assert ours.score(lazy[COLUMNS], sample_weight=lazy["w"]) == pytest.approx(
        theirs.score(frame[COLUMNS], sample_weight=frame["w"])
    )
    with pytest.raises(ValueError, match="feature names should match"):
        ours.predict(lazy[COLUMNS[::-1]])


@pytest.mark.parametrize("unknown", [True, False])
@pytest.mark.usefixtures("synchronous")
def test_weights_of_every_form(unknown):
    X = rows_of_block(1200, 3)
    weights = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    lazy, whole = da.from_array(X, chunks=(500, 4)), da.from_array(weights, chunks=350)
    forms = [dd.from_pandas(pd.Series(weights), npartitions=2)]
    if unknown:
        lazy = lazy[da.from_array(np.ones(len(X), dtype=bool), chunks=500)]
        forms += [weights, whole[whole > -1]]
    else:
        forms += [da.from_array(weights, chunks=500), whole]
    expected = model(covariance_type="diag").fit(X, sample_weight=weights)
    for form in forms:
        assert_same_mixture(model(covariance_type="diag").fit(lazy, sample_weight=form), expected)


@pytest.mark.usefixtures("scheduler")
def test_unknown_chunk_sizes_and_empty_partitions():
    X = rows_of_block(6000, 4)
    mask = (np.arange(len(X)) < 2000) | (np.arange(len(X)) >= 4500)
    mask[0:1000] = False
    lazy = da.from_array(X, chunks=(1000, 4))[da.from_array(mask, chunks=1000)]
    assert np.isnan(lazy.shape[0])
    ours, theirs = model().fit(lazy), model().fit(X[mask])
    assert_same_mixture(ours, theirs)
    np.testing.assert_array_equal(ours.predict(lazy).compute(), theirs.predict(X[mask]))
    assert ours.predict_proba(lazy).compute().shape == (mask.sum(), 3)
    assert ours.bic(lazy) == pytest.approx(theirs.bic(X[mask]))


def test_processes():
    X = rows_of_block(1500, 5)
    lazy = da.from_array(X, chunks=(500, 4))
    pool = ProcessPoolExecutor(2, mp_context=get_context("spawn"))
    with pool, dask.config.set(scheduler="processes", pool=pool):
        ours = model(covariance_type="spherical").fit(lazy)
    assert_same_mixture(ours, model(covariance_type="spherical").fit(X))


@pytest.mark.usefixtures("scheduler")
def test_moments():
    X = rows_of_block(4000, 6) + 1e3
    weights = np.random.default_rng(2).random(len(X))
    lazy, lazy_weights = da.from_array(X, chunks=(1100, 4)), da.from_array(weights, chunks=700)
    ours = apolar.mixture_from_moments(lazy, 3, sample_weight=lazy_weights)
    theirs = apolar.mixture_from_moments(X, 3, sample_weight=weights)
    np.testing.assert_allclose(ours.means, theirs.means, rtol=1e-7)
    ours, theirs = (apolar.mixture_from_moments(rows, 2, covariance_type="tied") for rows in (lazy, X))
    np.testing.assert_allclose(ours.means, theirs.means, rtol=1e-6)
    ours, theirs = apolar.spherical_moments(lazy), apolar.spherical_moments(X)
    np.testing.assert_allclose(ours.third.coefficients, theirs.third.coefficients, rtol=1e-9)
    ours, theirs = apolar.n_components_from_spectrum(lazy), apolar.n_components_from_spectrum(X)
    np.testing.assert_allclose(ours.spectrum, theirs.spectrum, rtol=1e-9)


@pytest.mark.parametrize("scheduler", ["threads", "cluster"], indirect=True)
@pytest.mark.parametrize("kind", ["spherical", "diag"])
@pytest.mark.usefixtures("scheduler")
def test_many_rows_are_approached_by_the_same_samples(kind, monkeypatch):
    # Clusters overlap, so that the samples matter; some samples are fetched, others stay on the workers.
    monkeypatch.setattr("apolar.search.search.SETTINGS", replace(SETTINGS, sample_rows=1000))
    X = 0.3 * rows_of_block(60_000, 7) + np.random.default_rng(3).standard_normal((60_000, 4))
    lazy = da.from_array(X, chunks=(13_000, 4))
    assert_same_mixture(model(covariance_type=kind).fit(lazy), model(covariance_type=kind).fit(X))


@pytest.mark.usefixtures("synchronous")
@pytest.mark.parametrize("convert", [sparse.csr_array, np.ma.masked_array, np.float32, np.object_])
def test_blocks_of_other_kinds(convert):
    X = np.round(rows_of_block(1500, 10), 2)
    X[np.abs(X) < 0.5] = 0
    lazy = da.from_array(X, chunks=(400, 4)).map_blocks(convert)
    ours, theirs = model().fit(lazy), model().fit(convert(X))
    assert_same_mixture(ours, theirs)
    np.testing.assert_array_equal(ours.predict(lazy).compute(), theirs.predict(convert(X)))


@pytest.mark.usefixtures("synchronous")
def test_starts_that_are_given():
    X = rows_of_block(900, 17)
    lazy = da.from_array(X, chunks=(300, 4))
    labels = np.arange(900) % 3
    for init_params in (labels, da.from_array(labels, chunks=300), lambda X, n, state: labels):
        with pytest.raises(ValueError, match="Give means_init, or the name of a start"):
            model(init_params=init_params).fit(lazy)
    means = X[:3]
    assert_same_mixture(model(means_init=means).fit(lazy), model(means_init=means).fit(X))
    for start in ("kmeans", "moments", "random", "mbhc"):
        assert_same_mixture(model(init_params=start).fit(lazy), model(init_params=start).fit(X))

    def start(X, n_components, _):
        return apolar.mixture_from_moments(X, n_components)

    assert_same_mixture(model(init_params=start).fit(lazy), model(init_params=start).fit(X))


@pytest.mark.usefixtures("synchronous")
def test_selection_and_errors_of_estimates():
    X = rows_of_block(900, 19)
    lazy = da.from_array(X, chunks=(300, 4))
    ours, theirs = (select(rows, (2, 3), ("spherical", "diag"), random_state=0) for rows in (lazy, X))
    for our_row, their_row in zip(ours.table, theirs.table, strict=True):
        assert (our_row.n_components, our_row.start) == (their_row.n_components, their_row.start)
        np.testing.assert_allclose([our_row.bic, our_row.icl], [their_row.bic, their_row.icl], rtol=1e-9)
    with pytest.raises(ValueError, match="leave n_jobs out"):
        select(lazy, (2, 3), n_jobs=2)
    fitted = model().fit(X)
    for ask in (fitted.standard_errors, lambda rows: fitted.bootstrap(rows, n_resamples=2)):
        np.testing.assert_allclose(ask(lazy).means, ask(X).means, rtol=1e-6)
    # A fitted mixture holds nothing of the data.
    assert len(pickle.dumps(model().fit(generated(900, 3)))) < 20_000

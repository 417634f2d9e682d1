"""`StudentMixture`: the law of its components, its optimum, and what it shares with `GaussianMixture`."""

import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from apolar import GaussianMixture, StudentMixture
from apolar.scores import adjusted_rand_index
from apolar.selection import select
from mixtures import FAMILY_NAMES, pairs

# Of families that do not suit the rows, and of two components for three clusters.
pytestmark = pytest.mark.filterwarnings("ignore:Two solutions")

MEANS = np.array([[0.0, 0.0], [9.0, 2.0], [0.0, 9.0]])


def rows(n_rows=300, dof=3.0, seed=0):
    """Return rows of three clusters with long tails, and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_rows) % 3
    roots = np.array([[[1.0, 0.3], [0.0, 0.8]], [[0.7, 0.0], [0.4, 1.2]], [[1.0, 0.0], [0.0, 1.0]]])
    tails = rng.standard_normal((n_rows, 2)) / np.sqrt(rng.chisquare(dof, (n_rows, 1)) / dof)
    return MEANS[labels] + np.einsum("nij,nj->ni", roots[labels], tails), labels


X, LABELS = rows()
W = np.random.default_rng(1).choice([0.0, 0.4, 1.0, 2.5], len(X))


def fitted(X=X, sample_weight=None, **parameters):
    return StudentMixture(3, random_state=0, **parameters).fit(X, sample_weight=sample_weight)


def components(model):
    kind = [(model.means_[k], model.covariances_[k], model.dof_[k]) for k in range(model.n_components)]
    return [stats.multivariate_t(mean, shape, df=dof) for mean, shape, dof in kind]


def test_components_are_those_of_scipy():
    model = fitted()
    densities = np.array([law.logpdf(X) for law in components(model)]) + np.log(model.weights_)[:, None]
    total = np.logaddexp.reduce(densities, axis=0)
    np.testing.assert_allclose(model.score_samples(X), total, rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X).T, np.exp(densities - total), atol=1e-9)
    # Some thousand rows of the model have its quantiles of distances.
    drawn, labels = model.sample(6000)
    for k, law in enumerate(components(model)):
        gaps = drawn[labels == k] - law.loc
        distances = np.einsum("ni,ij,nj->n", gaps, np.linalg.inv(law.shape), gaps)
        assert stats.kstest(distances / 2, stats.f(2, law.df).cdf).pvalue > 1e-3


def test_clusters_and_tails_are_found():
    X, labels = rows(3000)
    model = fitted(X)
    assert adjusted_rand_index(labels, model.predict(X)) > 0.95
    assert np.all((model.dof_ > 2.3) & (model.dof_ < 4.2))
    assert model.score(rows(3000, seed=1)[0]) > GaussianMixture(3, random_state=0).fit(X).score(
        rows(3000, seed=1)[0]
    )
    common = fitted(X, dof="common")
    assert np.ptp(common.dof_) == 0
    assert common.n_parameters_ == model.n_parameters_ - 2 == fitted(X, dof=3.0).n_parameters_ + 1
    np.testing.assert_array_equal(fitted(X, dof=3.0).dof_, 3.0)


def test_the_optimum_is_that_of_direct_maximisation():
    model = fitted(prior=None, tol=1e-10, max_iter=5000)

    def objective(point):
        weights = np.exp(np.append(point[:2], 0.0))
        densities = []
        for k in range(3):
            mean, (a, b, c), log_dof = point[2 + 2 * k :][:2], point[8 + 3 * k :][:3], point[17 + k]
            root = np.array([[np.exp(a), 0.0], [b, np.exp(c)]])
            law = stats.multivariate_t(mean, root @ root.T, df=np.exp(log_dof))
            densities.append(np.log(weights[k] / weights.sum()) + law.logpdf(X))
        return -np.logaddexp.reduce(densities, axis=0).sum()

    roots = np.linalg.cholesky(model.covariances_)
    shapes = np.stack([np.log(roots[:, 0, 0]), roots[:, 1, 0], np.log(roots[:, 1, 1])], axis=1)
    logs = np.log(model.weights_)
    start = [*(logs[:2] - logs[2]), *model.means_.ravel(), *shapes.ravel(), *np.log(model.dof_)]
    assert -objective(np.array(start)) == pytest.approx(model.score(X) * len(X), rel=1e-12)
    best = minimize(objective, start, method="BFGS", options={"gtol": 1e-6})
    assert -best.fun == pytest.approx(model.score(X) * len(X), abs=1e-5)


def test_weights_are_counts():
    counts = (np.arange(len(X)) % 3).astype(float)
    tight = {"tol": 1e-9, "max_iter": 3000}
    weighted, repeated = fitted(X, counts, **tight), fitted(np.repeat(X, counts.astype(int), axis=0), **tight)
    assert weighted.loo_ == pytest.approx(repeated.loo_, rel=1e-5)
    np.testing.assert_allclose(weighted.means_, repeated.means_, atol=1e-3)
    np.testing.assert_allclose(weighted.dof_, repeated.dof_, rtol=1e-2)


@pytest.mark.parametrize(("name", "weights"), pairs(FAMILY_NAMES[::2], [None, W]))
def test_rows_left_out_are_what_fits_without_them_say(name, weights):
    seen = fitted(X, weights, covariance_type=name)
    values = seen.loo_samples(X, sample_weight=weights)
    w = np.ones(len(X)) if weights is None else weights
    assert seen.loo_ == pytest.approx(values @ w, rel=1e-12)
    optimism = seen.score_samples(X) @ w - seen.loo_
    assert 0.2 * seen.n_parameters_ < optimism < 2 * seen.n_parameters_


@pytest.mark.parametrize("name", ["full", "diag", "spherical"])
def test_a_row_with_missing_values_has_the_marginal_density(name):
    model = fitted(covariance_type=name)
    incomplete = X.copy()
    incomplete[:, 1] = np.nan
    spread = {"full": lambda c: c[:, 0, 0], "diag": lambda c: c[:, 0], "spherical": lambda c: c}[name]
    scales = np.sqrt(spread(model.covariances_))
    each = [
        np.log(model.weights_[k]) + stats.t(model.dof_[k], model.means_[k, 0], scales[k]).logpdf(X[:, 0])
        for k in range(3)
    ]
    np.testing.assert_allclose(model.score_samples(incomplete), np.logaddexp.reduce(each, axis=0), rtol=1e-9)


def test_values_that_are_missing_take_part_and_are_imputed():
    incomplete = rows(900)[0]
    rng = np.random.default_rng(0)
    is_hidden = rng.random(incomplete.shape) < 0.1
    known, incomplete = (
        incomplete.copy(),
        np.where(is_hidden & ~is_hidden.all(axis=1)[:, None], np.nan, incomplete),
    )
    model, whole = fitted(incomplete), fitted(known)
    order = [int(np.argmin(np.linalg.norm(whole.means_ - mean, axis=1))) for mean in model.means_]
    np.testing.assert_allclose(model.means_, whole.means_[order], atol=0.25)
    np.testing.assert_allclose(np.log(model.dof_), np.log(whole.dof_[order]), atol=0.6)
    # The conditional of a t distribution is a t distribution with one more degree of freedom per known value.
    part = model.conditional([0], [1.0])
    assert isinstance(part, StudentMixture)
    grid = np.linspace(-400, 400, 80_001)
    joint = np.exp(model.score_samples(np.column_stack([np.full(len(grid), 1.0), grid])))
    mean = (joint @ grid) / joint.sum()
    assert model.impute([[1.0, np.nan]])[0, 1] == pytest.approx(mean, abs=2e-3)
    np.testing.assert_allclose(
        np.exp(part.score_samples(grid[:, None])), joint / np.trapezoid(joint, grid), rtol=0.02
    )


def test_a_stream_learns_the_tails():
    model = StudentMixture(3, random_state=0)
    for seed in range(12):
        model.partial_fit(rows(1500, seed=seed)[0])
    new, labels = rows(1500, seed=99)
    assert adjusted_rand_index(labels, model.predict(new)) > 0.93
    assert np.all((model.dof_ > 1.8) & (model.dof_ < 6.0))


def test_noise_is_set_aside():
    X, _ = rows(900, dof=8.0)
    far = np.random.default_rng(0).uniform(-40, 40, (90, 2))
    model = StudentMixture(3, noise=True, random_state=0).fit(np.vstack([X, far]))
    labels = model.predict(np.vstack([X, far]))
    assert np.mean(labels[:900] == -1) < 0.05
    assert np.mean(labels[900:] == -1) > 0.6


def test_a_file_without_tails_is_refused(tmp_path):
    GaussianMixture(2).fit(X).save(tmp_path / "a.model")
    with pytest.raises(ValueError, match=r"no degrees of freedom: load it by GaussianMixture\.load"):
        StudentMixture.load(tmp_path / "a.model")


def test_the_summary_says_how_long_the_tails_are():
    text = fitted().summary()
    assert "3 clusters" in text
    assert "long tails" in text
    assert "degrees of freedom. The fewer, the longer." in text
    normal = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    assert "200, the upper limit: practically Gaussian" in StudentMixture(1).fit(normal).summary()
    assert "200" not in StudentMixture(1, dof=4).fit(normal).summary().partition("Tails")[2].partition(".")[0]


@pytest.mark.parametrize("dof", [0.5, np.nan, np.inf, -1, "long", None, [3.0, 4.0, 5.0]])
def test_degrees_of_freedom_that_are_none_are_refused(dof):
    with pytest.raises(ValueError, match="The 'dof' parameter of StudentMixture must be"):
        StudentMixture(2, dof=dof).fit(X)


def test_select_compares_both_laws():
    selection = select(X, range(2, 5), "full", distribution=("gaussian", "t"), random_state=0)
    assert isinstance(selection.best, StudentMixture)
    assert selection.best.n_components == 3
    assert selection.reason.startswith("3 full t components have the lowest BIC")
    assert {row.distribution for row in selection.table} == {"gaussian", "t"}
    normal = MEANS[LABELS] + np.random.default_rng(0).standard_normal((len(X), 2))
    best = select(normal, range(2, 5), "full", distribution=("gaussian", "t"), random_state=0).best
    assert type(best) is GaussianMixture
    for wrong in ("cauchy", (), ("t", "cauchy")):
        with pytest.raises(ValueError, match="distribution"):
            select(X, 2, distribution=wrong)
    with pytest.raises(ValueError, match="dof is for components with long tails"):
        select(X, 2, dof=3.0)


def test_standard_errors_are_those_of_repeated_tables():
    tables = [rows(300, dof=5.0, seed=seed)[0] - MEANS[np.arange(300) % 3] for seed in range(20)]
    models = [StudentMixture(1, prior=None).fit(table) for table in tables]
    spread = np.std([[*model.means_[0], np.log(model.dof_[0])] for model in models], axis=0)
    some = [(model, model.standard_errors(table)) for model, table in zip(models[:5], tables, strict=False)]
    errors = np.mean([[*each.means[0], each.dof[0] / model.dof_[0]] for model, each in some], axis=0)
    # A deviation of twenty is known to 16 per cent: two of these.
    np.testing.assert_allclose(errors, spread, rtol=0.35)


def test_missing_values_next_to_nearly_singular_covariances():
    # The precisions are singular up to rounding: how far a row is from the mean does not need their inverse.
    rng = np.random.default_rng(3)
    X = rng.standard_normal((6, 3))[rng.integers(6, size=40)]
    X[rng.random(X.shape) < 0.1] = np.nan
    model = StudentMixture(
        3, covariance_type="EVE", dof=1.0, prior=None, init_params="moments", random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X)
    assert np.all(np.isfinite(model.score_samples(X)))
    assert np.all(np.isfinite(model.impute(X)))

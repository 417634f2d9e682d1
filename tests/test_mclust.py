"""`Mclust`: the words, signs and shapes of R's."""

from types import SimpleNamespace

import numpy as np
import pytest

import apolar

PEOPLE = apolar.datasets.load_diabetes()
RNG = np.random.default_rng(0)
X = np.concatenate([RNG.standard_normal((50, 2)) * [1, 3] + shift for shift in (0, 9, [0, 20])])


def test_values_are_those_of_the_selection():
    fit = apolar.Mclust(PEOPLE.data, 3, "VVV", random_state=0)
    gm = apolar.select(PEOPLE.data, 3, "VVV", random_state=0).best
    assert repr(fit) == "'Mclust' model object: (VVV,3)"
    assert (fit.modelName, fit.G, fit.n, fit.d, fit.df) == ("VVV", 3, 145, 3, 29)
    np.testing.assert_array_equal(fit.classification, gm.predict(PEOPLE.data) + 1)
    np.testing.assert_array_equal(fit.z, gm.predict_proba(PEOPLE.data))
    np.testing.assert_array_equal(fit.uncertainty, 1 - fit.z.max(axis=1))
    assert fit.bic == pytest.approx(-gm.bic(PEOPLE.data))
    assert fit.icl == pytest.approx(-gm.icl(PEOPLE.data))
    assert fit.loglik == pytest.approx(gm.score_samples(PEOPLE.data).sum())
    # What R prints for this fit, as docs/mclust.md shows; EM stops a little earlier there.
    assert fit.loglik == pytest.approx(-2303.496, abs=0.02)
    assert fit.bic == pytest.approx(-4751.316, abs=0.02)
    np.testing.assert_array_equal(fit.parameters.pro, gm.weights_)
    np.testing.assert_array_equal(fit.parameters.mean, gm.means_.T)
    assert fit.parameters.variance.sigma.shape == (3, 3, 3)
    np.testing.assert_array_equal(fit.parameters.variance.sigma[:, :, 1], gm.covariances_[1])
    new = fit.predict([[90, 350, 150], [250, 1200, 100]])
    np.testing.assert_array_equal(new.classification, [1, 3])
    assert new.z.shape == (2, 3)


def test_the_summary_is_printed_as_r_prints_it():
    fit = apolar.Mclust(PEOPLE.data, 3, "VVV", random_state=0)
    lines = str(fit.summary()).splitlines()
    assert lines[4:6] == [
        "Mclust VVV (ellipsoidal, varying volume, shape, and orientation) model",
        "with 3 components:",
    ]
    assert lines[7] == " log-likelihood   n df       BIC       ICL"
    assert lines[8].startswith("      -2303.49")
    assert lines[-3:] == ["Clustering table:", " 1  2  3", "81 36 28"]
    assert "<pre>" in fit.summary()._repr_html_()


def test_the_summary_shows_parameters_on_demand():
    fit = apolar.Mclust(X, 3, "VVI", random_state=0)
    lines = str(fit.summary(parameters=True)).splitlines()
    start = lines.index("Mixing probabilities:")
    assert lines[: start - 1] == str(fit.summary()).splitlines()
    assert [float(cell) for cell in lines[start + 2].split()] == pytest.approx(fit.parameters.pro, rel=1e-6)
    start = lines.index("Means:")
    second = [float(cell) for cell in lines[start + 3].split()[1:]]
    assert second == pytest.approx(fit.parameters.mean[1], rel=1e-6)
    start = lines.index("[,,2]")
    first = [float(cell) for cell in lines[start + 2].split()[1:]]
    assert first == pytest.approx(fit.parameters.variance.sigma[0, :, 1], rel=1e-6)
    one = apolar.Mclust(X[:, :1], 2, random_state=0)
    assert "Variances:" in str(one.summary(parameters=True))


@pytest.mark.parametrize(
    ("rows", "names", "expected", "words"),
    [
        (X, "VVI", "XXI", "diagonal multivariate normal"),
        (X, "EII", "XII", "spherical multivariate normal"),
        (X, "EVE", "XXX", "ellipsoidal multivariate normal"),
        (X[:, :1], None, "X", "univariate normal"),
    ],
)
def test_one_component_has_the_letter_x(rows, names, expected, words):
    fit = apolar.Mclust(rows, 1, names, random_state=0)
    assert fit.modelName == expected
    assert f"Mclust {expected} ({words}) model with 1 component:" in str(fit.summary())


def test_one_column_has_variances():
    fit = apolar.Mclust(X[:, 1:], range(1, 4), random_state=0)
    assert fit.modelName in ("E", "V")
    assert set(fit.BIC) == {(name, n) for name in ("E", "V") for n in (1, 2, 3)}
    assert fit.parameters.mean.shape == fit.parameters.variance.sigmasq.shape == (fit.G,)
    assert max(value for value in fit.BIC.values() if not np.isnan(value)) == fit.bic


def test_noise_is_the_last_and_has_label_zero():
    rows = np.vstack([X, RNG.uniform(-20, 60, (40, 2))])
    fit = apolar.Mclust(rows, 3, "VVI", noise=True, random_state=0)
    assert fit.z.shape == (190, 4)
    assert fit.parameters.pro.shape == (4,)
    assert fit.parameters.pro.sum() == pytest.approx(1)
    np.testing.assert_array_equal(fit.classification == 0, fit.z.argmax(axis=1) == 3)
    assert "and a noise term:" in str(fit.summary()).replace("\n", " ")
    assert str(fit.summary()).splitlines()[-2].split() == ["1", "2", "3", "0"]


def test_annotated_data_are_read_where_asked():
    cells = SimpleNamespace(X=X, obsm={"X_pca": X[:, :1]})
    whole = apolar.Mclust(cells, 3, "VVI", random_state=0)
    assert whole.d == 2
    part = apolar.Mclust(cells, 3, "V", use_rep="X_pca", random_state=0)
    assert part.d == 1
    np.testing.assert_array_equal(part.predict(cells).classification, part.predict(X[:, :1]).classification)
    with pytest.raises(ValueError, match=r"no obsm\['X_umap'\]; it has 'X_pca'"):
        apolar.Mclust(cells, 3, use_rep="X_umap")
    with pytest.raises(TypeError, match="use_rep is for AnnData"):
        apolar.Mclust(X, 3, use_rep="X_pca")
    anndata = pytest.importorskip("anndata")
    data = anndata.AnnData(X)
    assert apolar.Mclust(data, 3, "VVI", random_state=0).loglik == pytest.approx(whole.loglik)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        apolar.Mclust(X, 0)
    with pytest.raises(ValueError, match="'VVV'|VVV"):
        apolar.Mclust(X, 2, "ABC")
    with pytest.raises(TypeError, match="no parameter 'verbos'"):
        apolar.Mclust(X, 2, verbos=True)


# --- the bootstrap test of the number of components ----------------------------------------------


def test_too_few_tables_for_the_level_are_refused():
    with pytest.raises(ValueError, match="nboot=19 or more"):
        apolar.mclustBootstrapLRT(X, "VVI", nboot=9)


def test_one_more_component_is_tested_until_it_is_no_better():
    test = apolar.mclustBootstrapLRT(X, "VVI", nboot=19, random_state=0)
    assert test.G == 3
    assert len(test.obs) == len(test.p_value) == len(test.boot) == 3
    assert test.p_value[:2].tolist() == [1 / 20, 1 / 20]
    assert test.p_value[2] > 0.05
    fits = apolar.select(X, (1, 2), "VVI", random_state=0).table
    assert test.obs[0] == pytest.approx(2 * (fits[1].log_likelihood - fits[0].log_likelihood), rel=1e-4)
    assert [len(drawn) for drawn in test.boot] == [19, 19, 19]
    lines = repr(test).splitlines()
    assert lines[0].endswith("(VVI)")
    assert lines[-1].split()[:3] == ["3", "vs", "4"]


def test_tables_without_a_maximum_do_not_raise_the_p_value():
    X = apolar.datasets.load_iris().data
    test = apolar.mclustBootstrapLRT(X, "VII", nboot=19, maxG=1, random_state=0)
    assert np.isnan(test.boot[0]).any()
    assert test.G == 2


def test_numbers_that_cannot_be_compared_are_refused():
    with pytest.raises(ValueError, match="cannot be compared: .*Lower maxG"):
        apolar.mclustBootstrapLRT(X[:12], "VVV", nboot=2, level=0.999)
    with pytest.raises(ValueError, match="nboot must be at least 1"):
        apolar.mclustBootstrapLRT(X, "VVV", nboot=0)
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        apolar.mclustBootstrapLRT(X, "VVV", level=5)

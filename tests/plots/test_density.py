"""Densities of one and two columns, quantiles, and components combined, read back from the axes."""

import numpy as np
import pandas as pd
import pytest

import apolar
from apolar.plots import density, entropies, quantiles
from plots.reading import blank, legend, lines, three_clusters

X, LABELS = three_clusters(n=300, m=3)
MODEL = apolar.GaussianMixture(3, covariance_type="diag", random_state=0).fit(X)


def polygons(line):
    """Return the parts of a line that gaps separate."""
    places = np.column_stack(line.get_data())
    gaps = np.flatnonzero(np.isnan(places[:, 0]))
    return [part[~np.isnan(part[:, 0])] for part in np.split(places, gaps) if len(part) > 1]


@pytest.mark.parametrize("cls", [apolar.GaussianMixture, apolar.StudentMixture])
def test_the_density_of_a_column_is_that_of_its_marginal(cls):
    model = cls(3, covariance_type="diag", random_state=0).fit(X)
    named = lines(density(model, X, columns=1, ax=blank()))
    x, y = named["density"].get_data()
    part = model.marginal(1)
    np.testing.assert_allclose(y, np.exp(part.score_samples(x[:, None])), rtol=1e-9)
    np.testing.assert_allclose(sum(named[f"cluster-{k}"].get_ydata() for k in (1, 2, 3)), y, rtol=1e-9)
    # 400 points of three clusters that are ten deviations apart.
    assert np.trapezoid(y, x) == pytest.approx(1, abs=0.01)
    places, heights = named["rows"].get_data()
    assert np.sum(np.diff(places) * heights[1:]) == pytest.approx(1)


def test_contours_hold_their_share_of_the_rows():
    axes = density(MODEL, X, columns=[0, 2], ax=blank())
    named, part = lines(axes), MODEL.marginal([0, 2])
    drawn = part.score_samples(part.sample(20_000)[0])
    for share in (0.25, 0.5, 0.75, 0.95):
        places = np.concatenate(polygons(named[f"region-{share:.0%}"]))
        level = part.score_samples(places).mean()
        # The grid has cells of a fifth of a deviation.
        assert np.mean(drawn >= level) == pytest.approx(share, abs=0.03)
    assert legend(axes)[0] == "300 rows"


def test_boundaries_are_where_two_clusters_are_equally_probable():
    named = lines(density(MODEL, columns=[0, 1], boundaries=True, ax=blank()))
    part = MODEL.marginal([0, 1])
    for k in range(3):
        places = np.concatenate(polygons(named[f"boundary-{k + 1}"]))
        first, second = np.sort(part.predict_proba(places), axis=1).T[:-3:-1]
        # Logits change by about 10 over one deviation, which is five cells, and lines are straight in a cell.
        assert np.median(first - second) < 0.2
    assert "boundary-1" not in lines(density(MODEL, columns=[0, 1], ax=blank()))


def test_columns_are_chosen_by_name_and_by_separation():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["c"] = np.random.default_rng(0).standard_normal(300)
    model = apolar.GaussianMixture(3, random_state=0).fit(frame)
    axes = density(model, frame)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("a", "b")
    assert density(model, frame, columns="c").get_xlabel() == "c"
    assert density(model, feature_names=["x", "y", "z"], columns=["z", "x"]).get_ylabel() == "x"


def test_quantiles_of_rows_of_the_mixture_are_on_the_diagonal():
    rows = MODEL.marginal([0]).sample(4000)[0]
    part = apolar.GaussianMixture(3, random_state=0).fit(rows)
    x, y = lines(quantiles(part, rows, ax=blank()))["rows"].get_data()
    inner = slice(200, -200)
    # Clusters are ten deviations apart, where one row more or less in a cluster is a long way.
    assert np.median(np.abs(x - y)[inner]) < 0.1
    assert np.all(np.diff(x) >= 0)


def test_entropies_are_those_of_the_combination():
    model = apolar.GaussianMixture(5, random_state=0).fit(X)
    for by in ("entropy", "overlap"):
        combination = model.combine(X, by=by)
        named = lines(entropies(combination, ax=blank()))
        expected = combination.entropies if by == "entropy" else combination.overlaps
        np.testing.assert_array_equal(named["values"].get_ydata(), expected)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: density(MODEL, X[:, :2]), "2 columns and the model 3"),
        (lambda: density(MODEL, columns=[0, 1, 2]), "one or two columns"),
        (lambda: density(MODEL, columns="a"), "no column 'a'"),
        (lambda: density(MODEL, columns=0, boundaries=True), "leave boundaries out"),
        (lambda: density(apolar.GaussianMixture(2)), "not fitted"),
        (lambda: density(3), "GaussianMixture, not int"),
        (lambda: quantiles(MODEL, X, 5), "no column 5"),
        (lambda: entropies(MODEL), "pass gm.combine"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, message):
    with pytest.raises((ValueError, TypeError), match=message):
        draw()

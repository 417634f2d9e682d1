"""A mixture for each class: scikit-learn's contract, and beside its discriminant analyses."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

import apolar
from apolar import MixtureClassifier

IRIS = apolar.datasets.load_iris()
# Fifteen rows of thirty columns: some class has no two rows that differ.
FAILS = {"check_sample_weight_equivalence_on_dense_data": "a class without two rows that differ"}


@parametrize_with_checks(
    [MixtureClassifier(1, covariance_type="diag")], expected_failed_checks=lambda _: FAILS
)
@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


# Classes that share a covariance or not, and mixtures.
@parametrize_with_checks([MixtureClassifier(random_state=0, covariance_type=("full", "diag", "tied"))])
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_the_checks_of_scikit_learn_where_a_family_is_chosen(estimator, check):
    check(estimator)


X, Y = np.asarray(IRIS.data), np.asarray(IRIS.target)


def moons(n=300, seed=0):
    """Return two classes that are bent around each other: no single Gaussian describes one."""
    rng = np.random.default_rng(seed)
    angle, classes = rng.uniform(0, np.pi, n), np.arange(n) % 2
    curve = np.column_stack([np.cos(angle), np.sin(angle)])
    rows = np.where(classes[:, None] == 0, curve, [1.0, 0.4] - curve)
    return rows + 0.12 * rng.standard_normal((n, 2)), classes


@pytest.mark.parametrize(
    ("parameters", "theirs", "tolerance"),
    [
        # Theirs divides by one row less: the logarithms of probabilities differ by some per cent.
        ({"n_components": 1, "covariance_type": "full"}, QuadraticDiscriminantAnalysis(), 0.05),
        # Both at the maximum of the likelihood, ours up to its tolerance.
        ({"n_components": 1, "covariance_type": "diag"}, GaussianNB(var_smoothing=0), 1e-6),
        ({"shared": True, "covariance_type": "tied"}, LinearDiscriminantAnalysis(solver="lsqr"), 1e-6),
    ],
)
def test_it_is_discriminant_analysis_or_naive_bayes(parameters, theirs, tolerance):
    ours, theirs = MixtureClassifier(**parameters).fit(X, Y), theirs.fit(X, Y)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=tolerance)


def test_the_family_that_classes_share_can_have_the_lowest_bic():
    model = MixtureClassifier(shared=True, criterion="bic").fit(X, Y)
    assert model.covariance_type_ == min(model.bics_, key=model.bics_.get)
    assert model.covariance_type_ == "VEV"
    # mclust 6.0.0: MclustDA(iris[, 1:4], iris$Species, modelType = "EDDA", modelNames = ...)$loglik, which is
    # that of rows without their classes. Shapes are found by iteration, to a tolerance.
    for name, expected in (("VEV", -187.7097), ("full", -182.9208), ("tied", -256.6462), ("VEE", -238.3947)):
        one = MixtureClassifier(shared=True, covariance_type=name).fit(X, Y)
        assert one.score_samples(X).sum() == pytest.approx(expected, abs=1e-3)


def test_components_are_chosen_for_each_class():
    rows, classes = moons()
    model = MixtureClassifier(random_state=0).fit(rows, classes)
    assert all(mixture.n_components > 1 for mixture in model.mixtures_)
    assert len(model.selections_) == 2
    fresh, truth = moons(seed=1)
    assert (
        model.score(fresh, truth)
        > QuadraticDiscriminantAnalysis().fit(rows, classes).score(fresh, truth) + 0.03
    )


def test_decisions_agree_with_probabilities():
    settings = {"shared": True, "covariance_type": "tied"}
    model = MixtureClassifier(**settings).fit(X, Y)
    assert model.decision_function(X).shape == (150, 3)
    np.testing.assert_array_equal(np.argmax(model.decision_function(X), axis=1), model.predict(X))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    two = MixtureClassifier(**settings).fit(X[50:], Y[50:])
    np.testing.assert_array_equal(two.decision_function(X[50:]) > 0, two.predict(X[50:]) == 2)
    # The density of a row of no class is low.
    assert model.score_samples([[20.0, 20, 20, 20]])[0] < model.score_samples(X).min() - 100
    given = MixtureClassifier(**settings, class_prior=[0, 0.5, 0.5]).fit(X, Y)
    assert set(given.predict(X)) == {1, 2}
    for wrong in ([0.5, 0.5], [0.5, 0.6, 0.1], [-1, 1, 1]):
        with pytest.raises(ValueError, match="class_prior"):
            MixtureClassifier(class_prior=wrong).fit(X, Y)


@pytest.mark.parametrize("shared", [False, True])
def test_missing_values_are_allowed_and_a_weight_is_a_number_of_rows(shared):
    rng = np.random.default_rng(0)
    holed = np.where(rng.random(X.shape) < 0.15, np.nan, X)
    model = MixtureClassifier(1, covariance_type="full", shared=shared, random_state=0).fit(holed, Y)
    assert model.score(X, Y) > 0.95
    assert model.score(holed, Y) > 0.9
    # A row without any value: the shares of the classes.
    np.testing.assert_allclose(model.predict_proba([[np.nan] * 4]), [model.class_prior_], atol=1e-9)
    counts = rng.integers(1, 4, len(X))
    model.set_params(covariance_type=("diag", "full"))
    weighted = model.fit(X, Y, sample_weight=counts).predict_proba(X)
    repeated = model.fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts)).predict_proba(X)
    # Additions in another order, and fits up to their tolerance.
    np.testing.assert_allclose(weighted, repeated, atol=1e-5)


def test_classes_and_columns_have_names():
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    names = np.array(["setosa", "versicolor", "virginica"])[Y]
    model = MixtureClassifier(shared=True, covariance_type="tied").fit(table, names)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
    assert set(model.predict(table)) == set(names)


def test_constant_columns_say_nothing():
    wider = np.column_stack([X, np.full(150, 7.0)])
    one = MixtureClassifier(shared=True, covariance_type="full").fit(X, Y)
    two = MixtureClassifier(shared=True, covariance_type="full").fit(wider, Y)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(wider))
    with pytest.raises(ValueError, match="constant"):
        MixtureClassifier().fit(np.ones((10, 2)), np.arange(10) % 2)


def test_a_number_that_is_given_is_used():
    rng = np.random.default_rng(0)
    few = np.concatenate([np.arange(50), 50 + rng.choice(50, 8, replace=False)])
    model = MixtureClassifier(3, covariance_type="tied_diag", random_state=0).fit(X[few], Y[few])
    assert [mixture.n_components for mixture in model.mixtures_] == [3, 3]
    chosen = MixtureClassifier(shared=False, covariance_type="tied_diag", random_state=0).fit(X[few], Y[few])
    assert chosen.mixtures_[1].n_components == 1


def few_and_others(data, n_rows, seed):
    """Return rows with their classes, few to fit and the others to test."""
    split = train_test_split(
        data.data, data.target, train_size=n_rows, stratify=data.target, random_state=seed
    )
    return split[0], split[2], split[1], split[3]


def test_with_few_rows_it_is_as_good_as_linear_discriminant_analysis():
    scores = []
    for seed in range(2):
        few, classes, others, truth = few_and_others(load_wine(), 26, seed)
        models = MixtureClassifier(shared=True, random_state=0), LinearDiscriminantAnalysis()
        scores.append([model.fit(few, classes).score(others, truth) for model in models])
    ours, theirs = np.mean(scores, axis=0)
    assert ours > theirs


def test_a_tied_covariance_of_fewer_rows_than_columns_is_shrunk_with_a_warning():
    few, classes, others, truth = few_and_others(load_breast_cancer(), 22, 0)
    model = MixtureClassifier(covariance_type="tied", random_state=0)
    with pytest.warns(apolar.exceptions.FewRowsWarning, match=r"too few rows.*'tied'.*prior='default'"):
        model.fit(few, classes)
    assert model.covariance_type_ == "tied"
    assert model.score(others, truth) > 0.9
    # Shared within each class only: a Gaussian or a mixture of its own.
    own = MixtureClassifier(shared=False, covariance_type="tied", random_state=0).fit(X, Y)
    assert {mixture.covariance_type for mixture in own.mixtures_} == {"tied"}


def test_columns_that_say_nothing_leave_the_larger_class():
    rng = np.random.default_rng(0)
    rows, classes = rng.standard_normal((60, 8)), np.arange(60) % 4 == 0
    # Chance decides how far a linear classifier is off: one draw where it is by much.
    with pytest.warns(apolar.exceptions.FewRowsWarning, match="most probable class"):
        model = MixtureClassifier(shared=True, random_state=0).fit(rows, classes)
    assert not np.any(model.predict(rows))
    np.testing.assert_allclose(model.predict_proba(rows[:1]), [[0.75, 0.25]])


def test_the_choice_depends_neither_on_units_nor_on_the_order_of_rows():
    few, classes, others, _ = few_and_others(load_wine(), 26, 0)
    model = MixtureClassifier(shared=True, random_state=0)
    expected = model.fit(few, classes).predict_proba(others)
    units = np.geomspace(1e-3, 1e3, few.shape[1])
    order = np.random.default_rng(0).permutation(len(few))
    # The units change the order of sums of squares.
    moved = model.fit(few[order] * units, classes[order]).predict_proba(others * units)
    np.testing.assert_allclose(moved, expected, atol=1e-6)


def test_a_class_of_one_row_shares_the_covariance_of_others():
    few = np.append(np.arange(20), 60)
    with pytest.raises(ValueError, match=r"Class 1 has no two rows that differ.*shared=True"):
        MixtureClassifier(shared=False).fit(X[few], Y[few])
    for parameters in ({"covariance_type": ("diag", "tied")}, {"shared": True, "covariance_type": "tied"}):
        model = MixtureClassifier(**parameters).fit(X[few], Y[few])
        np.testing.assert_array_equal(model.predict(X[few]), Y[few])
    with pytest.warns(apolar.exceptions.FewRowsWarning, match=r"Class 1 only 1"):
        model = MixtureClassifier(shared=True, covariance_type="full").fit(X[few], Y[few])
    assert model.predict(X[few])[-1] == 1


def test_warnings_of_a_class_name_it():
    rows = X.copy()
    rows[60] = 1e4
    with pytest.warns(apolar.exceptions.ApolarWarning, match=r"Class 1: Row 10 is more than 100"):
        MixtureClassifier(1, covariance_type="full", random_state=0).fit(rows, Y)


def test_what_makes_no_sense_is_refused():
    for parameters, error in (
        ({"n_components": 0}, "n_components"),
        ({"n_components": "many"}, "n_components"),
        ({"n_components": ()}, "n_components is empty"),
        ({"criterion": "best"}, "criterion"),
        ({"covariance_type": "round"}, "covariance_type"),
        ({"covariance_type": "round", "shared": True}, "covariance_type"),
    ):
        with pytest.raises(ValueError, match=error):
            MixtureClassifier(**parameters).fit(X, Y)
    with pytest.raises(ValueError, match=r"Column 0 of X has .* overflow or underflow. Divide the column"):
        MixtureClassifier().fit(X * 1e200, Y)
    with pytest.raises(NotFittedError):
        MixtureClassifier().predict(X)


def test_rows_of_unknown_class_help():
    few, classes, others, truth = few_and_others(load_wine(), 9, 0)
    rows = np.concatenate([few, others])
    partly = [*classes.tolist(), *[None] * len(others)]
    alone = MixtureClassifier(random_state=0).fit(few, classes)
    together = MixtureClassifier(random_state=0).fit(rows, partly)
    np.testing.assert_array_equal(together.classes_, alone.classes_)
    assert together.score(others, truth) > alone.score(others, truth)
    assert together.class_count_.sum() == 9


def test_unknown_classes_can_be_marked_in_three_ways():
    settings = {"shared": True, "covariance_type": "tied"}
    expected, *others = (
        MixtureClassifier(**settings).fit(X, [y if i % 3 else unknown for i, y in enumerate(Y)])
        for unknown in (-1, None, np.nan)
    )
    for model in others:
        np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


def test_minus_one_and_one_are_classes():
    model = MixtureClassifier(1, covariance_type="diag").fit(X, np.where(Y == 0, -1, 1))
    np.testing.assert_array_equal(model.classes_, [-1, 1])
    for unknown in (np.nan, -1):
        with pytest.raises(ValueError, match="the classes of some rows are needed"):
            MixtureClassifier().fit(X, np.full(len(X), unknown))


def test_values_whose_squares_overflow_are_refused_also_in_rows_of_unknown_class():
    X, y = np.random.default_rng(0).standard_normal((40, 2)), np.arange(40) % 3 - 1
    model = MixtureClassifier(random_state=0).fit(X, y)
    X[y == -1] *= 1e150
    with pytest.raises(ValueError, match="squares overflow"):
        MixtureClassifier(random_state=0).fit(X, y, sample_weight=np.full(40, 1e10))
    # The sum of such values is not a number.
    X[:4] = [[1.7e308, 0], [1.7e308, 0], [-1.7e308, 0], [-1.7e308, 0]]
    with pytest.raises(ValueError, match="squares overflow"):
        MixtureClassifier(random_state=0).fit(X, y)
    assert np.all(np.isin(model.predict(X[4:]), model.classes_))

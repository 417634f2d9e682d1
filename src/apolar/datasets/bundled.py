"""Real data sets, and the two simulated mixtures of the paper's section 4."""

import csv
import importlib
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np

from apolar._core.arrays import Array
from apolar._core.checks import one_of
from apolar.mixture import SphericalMixture

# In a clone, next to `src`.
CLONE = Path(__file__).parents[3] / "reproduction"
REMEDY = (
    "This needs the package apolar-reproduction, which is not part of apolar: "
    'pip install "git+https://github.com/apolar/apolar#subdirectory=reproduction", or work in a clone.'
)
# Columns of the tables that hold classes; all others hold numbers.
_CLASSES = ("species", "class", "area", "region")

# Parameters printed in [khouja2022moments, section 4.1]; the weights are made to add up to one.
_EXAMPLES = {
    1: (
        [0.2782, 0.0139, 0.3324, 0.3756],
        [[-5, -9, 8, 8, 2, 5], [-7, 6, -1, 6, -8, -10], [-4, -10, -5, 1, 5, 4], [-6, 6, 5, 4, -1, -1]],
        [1.5, 2.5, 5.0, 15.0],
    ),
    2: (
        [0.0930, 0.2151, 0.6918],
        [[7, -4, -4, -6, -4], [2, -4, -6, -10, -3], [4, -4, -5, 6, 1]],
        [5.0, 10.0, 15.0],
    ),
}


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table of numbers whose classes are known.

    Attributes
    ----------
    data : ndarray of float64, shape (n_samples, n_features)
        A copy that belongs to the caller: it may be changed in place.
    target : ndarray of int64, shape (n_samples,)
        The class of each row, from 0.
    feature_names : tuple of str, length n_features
    target_names : tuple of str, length n_classes
        `target_names[code]` is the class that `target` calls `code`; in order of first appearance.
    name : str
    description : str
        What was measured, where it comes from and under which licence.

    Examples
    --------
    >>> from apolar.datasets import load_iris
    >>> iris = load_iris()
    >>> iris
    Dataset(iris: 150 rows, 4 columns, 3 classes)
    >>> iris.target_names[iris.target[0]]
    'setosa'
    """

    data: Array
    target: Array
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    name: str
    description: str

    def __repr__(self) -> str:
        n_rows, n_columns = self.data.shape
        return f"Dataset({self.name}: {n_rows} rows, {n_columns} columns, {len(self.target_names)} classes)"


def load_iris(version: Literal["corrected", "uci"] = "corrected") -> Dataset:
    """Return Fisher's iris: four measurements of 150 flowers of three species.

    Measured by Anderson [anderson1935] and published by Fisher [fisher1936].

    Parameters
    ----------
    version : {"corrected", "uci"}, default="corrected"
        "corrected" has Fisher's numbers, as R and scikit-learn do; "uci" is the copy of the UCI Machine
        Learning Repository, in which three numbers of rows 35 and 38 (counted from 1) are wrong.

    Returns
    -------
    iris : Dataset
        `data` has shape (150, 4), in cm; 50 rows of each class.

    Examples
    --------
    >>> from apolar.datasets import load_iris
    >>> iris = load_iris()
    >>> iris.target_names
    ('setosa', 'versicolor', 'virginica')
    >>> load_iris("uci").data[34] - iris.data[34]
    array([ 0. ,  0. ,  0. , -0.1])
    """
    one_of(version, "version", ("corrected", "uci"))
    wrong = " The copy of that repository, with its errors in rows 35 and 38." if version == "uci" else ""
    return _table(
        "iris" if version == "corrected" else "iris_uci",
        "species",
        "Length and width of sepals and petals, in cm, of 50 flowers of each of three species of iris. "
        "Measured by Anderson (1935), published by Fisher (1936). Licence as known: CC BY 4.0 (UCI Machine "
        f"Learning Repository).{wrong}",
    )


def load_diabetes() -> Dataset:
    """Return the diabetes data of Reaven and Miller: three measurements of 145 adults.

    Returns
    -------
    diabetes : Dataset
        `data` has shape (145, 3); 76 rows are normal, 36 have chemical and 33 overt diabetes.

    Notes
    -----
    The study is [reaven1979]; numbers and names of columns are those of R's mclust [scrucca2016], so that
    results can be compared. By mclust's manual the columns are not what their names say: `glucose` is the
    fasting plasma glucose, `insulin` the area under the glucose curve, where 45 in row 104 (counted from 1)
    should be 455, and `sspg` the area under the insulin curve.

    Examples
    --------
    >>> from apolar.datasets import load_diabetes
    >>> diabetes = load_diabetes()
    >>> diabetes.feature_names
    ('glucose', 'insulin', 'sspg')
    >>> diabetes.target_names
    ('Normal', 'Chemical', 'Overt')
    """
    return _table(
        "diabetes",
        "class",
        "Plasma glucose and insulin of 145 non-obese adults who are normal or have chemical or overt "
        "diabetes. From Reaven and Miller (1979), as in R's mclust, whose manual says that the columns hold "
        "fasting glucose, glucose area and insulin area, and that 45 in row 104 should be 455. Licence: no "
        "restriction is known.",
    )


def load_olive(target: Literal["area", "region"] = "area") -> Dataset:
    """Return the olive oils of Forina and others: eight fatty acids of 572 Italian oils.

    Parameters
    ----------
    target : {"area", "region"}, default="area"
        The classes: three areas (the south, Sardinia, the north), or the nine regions within them.

    Returns
    -------
    olive : Dataset
        `data` has shape (572, 8), in percent. The areas have 323, 98 and 151 rows.

    Notes
    -----
    The study is [forina1983]. Some programs use the two words the other way round.

    Examples
    --------
    >>> from apolar.datasets import load_olive
    >>> load_olive().target_names
    ('Southern Italy', 'Sardinia', 'Northern Italy')
    >>> load_olive("region")
    Dataset(olive: 572 rows, 8 columns, 9 classes)
    """
    one_of(target, "target", ("area", "region"))
    return _table(
        "olive",
        target,
        "Shares of eight fatty acids, in percent, in 572 olive oils from nine regions in three areas of "
        "Italy. From Forina, Armanino, Lanteri and Tiscornia (1983). Licence: no restriction is known.",
    )


def load_mnist01(n_components: int | None = 5, *, centred: bool = True) -> Dataset:
    """Return the handwritten zeros and ones of MNIST's training set, as principal components or images.

    Parameters
    ----------
    n_components : int or None, default=5
        How many principal components to return, from 1 to 617; None returns the images. The images span 579
        dimensions: the components after that are zero up to rounding.
    centred : bool, default=True
        False leaves the mean of the pixels in: the same components, shifted.

    Returns
    -------
    mnist01 : Dataset
        `data` has shape (12665, n_components), or (12665, 784) for the images: grey levels from 0 to 255, row
        by row. There are 5923 zeros and 6742 ones.

    Raises
    ------
    ImportError
        Where the package apolar-reproduction, which has the images, is missing; the message says how to
        install it.

    Notes
    -----
    The images are described in [lecun1998], and prepared as in [khouja2022moments]: of the 784 pixels the 617
    that are not the same in all images are kept, made to have mean 0 and variance 1 (over n_samples), and
    projected onto their first principal axes. The largest entry of each axis, in absolute value, is positive.

    Examples
    --------
    >>> from apolar.datasets import load_mnist01
    >>> load_mnist01()  # doctest: +SKIP
    Dataset(mnist01: 12665 rows, 5 columns, 2 classes)
    >>> load_mnist01(n_components=None).data.shape  # doctest: +SKIP
    (12665, 784)
    """
    return import_reproduction("mnist").load_images(n_components, centred=centred)


def _table(name: str, target: str, description: str) -> Dataset:
    """Return the packaged table `name`, with the classes of its column `target`."""
    path = resources.files("apolar.datasets").joinpath("data", f"{name}.csv")
    with path.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    features = tuple(column for column in rows[0] if column not in _CLASSES)
    codes: dict[str, int] = {}
    labels = [codes.setdefault(row[target], len(codes)) for row in rows]
    return Dataset(
        np.array([[float(row[column]) for column in features] for row in rows]),
        np.array(labels, dtype=np.int64),
        features,
        tuple(codes),
        name,
        description,
    )


def import_reproduction(module: str) -> Any:
    """Return a module of `apolar_reproduction`: as installed, or as it is in a clone.

    Raises
    ------
    ImportError
        With the command that installs it, where it is in neither place.
    """
    if CLONE.is_dir() and str(CLONE) not in sys.path:
        sys.path.append(str(CLONE))
    try:
        return importlib.import_module(f"apolar_reproduction.{module}")
    except ModuleNotFoundError as error:
        if error.name != "apolar_reproduction":
            raise
        raise ImportError(REMEDY) from error


# --- the paper's examples -------------------------------------------------------------------------


def example_mixture(number: int) -> SphericalMixture:
    """Return the mixture of the paper's example 1 (4 components in R^6) or 2 (3 in R^5)."""
    one_of(number, "number", (1, 2))
    weights, means, variances = _EXAMPLES[number]
    return SphericalMixture(
        np.array(weights) / sum(weights), np.array(means, dtype=float), np.array(variances)
    )


def make_example(number: int, n_samples: int = 1000, random_state: Any = None) -> tuple[Array, Array]:
    """Return rows drawn from the paper's example 1 or 2, and their components.

    Parameters
    ----------
    number : {1, 2}
    n_samples : int, default=1000
    random_state : int, Generator or None

    Returns
    -------
    X : ndarray, shape (n_samples, n_features)
    labels : ndarray of int, shape (n_samples,)

    Examples
    --------
    >>> from apolar.datasets import make_example
    >>> X, labels = make_example(1, random_state=0)
    >>> X.shape
    (1000, 6)
    """
    return example_mixture(number).sample(n_samples, random_state)

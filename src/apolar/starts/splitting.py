"""Mixtures with one component more: one is split, or a small one is added where the density is too low."""

import numpy as np

from apolar._core.arrays import Array
from apolar.em.whitened import WhitenedData
from apolar.mixture.parameters import WhitenedParameters
from apolar.starts.comparisons import added_gains

# Principal axes are eigenvectors of the scatter up to this many columns; above, they come from this many
# power iterations.
DENSE_COLUMNS = 64
ITERATIONS = 8
# The halves of a component are placed this many deviations from its mean, along the principal axis.
HALF_STEP = 0.8
# Rows that are tried as means of an added component, how many of these are proposed, and the steps of EM for
# their weights.
TRIED_ROWS = 128
PROPOSED_ROWS = 2
WEIGHT_STEPS = 4
# Rows on which the gains of added components are compared.
COMPARED_ROWS = 2000


def with_one_more(
    data: WhitenedData, parameters: WhitenedParameters, rng: np.random.Generator
) -> list[WhitenedParameters]:
    """Return proposals with one component more than a mixture: each component split, and some added."""
    posterior, density = _posteriors(data, parameters)
    axes = [_principal_axis(data, p, mean) for p, mean in zip(posterior, parameters.means, strict=True)]
    proposals = []
    for k, (value, axis) in enumerate(axes):
        if value > 0:
            proposals.append(_halved(data, parameters, k, HALF_STEP * np.sqrt(value) * axis))
        moment_split = _moment_split(data, parameters, posterior[k], k, value, axis)
        if moment_split is not None:
            proposals.append(moment_split)
    return proposals + _with_added_component(data, parameters, density, rng)


def _posteriors(data: WhitenedData, parameters: WhitenedParameters) -> tuple[Array, Array]:
    """Return responsibilities times weights of rows, shape (n_components, n_rows), and log-densities."""
    posterior, density = data.row_responsibilities(parameters)
    weights = data.row_weights()
    return (posterior if weights is None else posterior * weights), density


def _principal_axis(data: WhitenedData, responsibilities: Array, mean: Array) -> tuple[float, Array]:
    """Return the largest variance of the rows under responsibilities, and its direction."""
    x = data.whitened_rows()
    total = float(responsibilities.sum())
    if not total > 0:
        return 0.0, np.zeros(len(mean))
    if len(mean) <= DENSE_COLUMNS:
        covariance = (x * responsibilities) @ x.T / total - np.outer(mean, mean)
        values, vectors = np.linalg.eigh(covariance)
        return float(values[-1]), vectors[:, -1]
    vector = np.ones(len(mean)) / np.sqrt(len(mean))
    value = 0.0
    for _ in range(ITERATIONS):
        image = x @ (responsibilities * (vector @ x)) / total - mean * float(mean @ vector)
        value = float(np.linalg.norm(image))
        if not value > 0:
            return 0.0, vector
        vector = image / value
    return value, vector


def _split(
    parameters: WhitenedParameters, k: int, weights: Array, means: Array, covariances: Array
) -> WhitenedParameters:
    """Return the mixture with component k replaced by two of the given weights and means, the second last.

    `covariances` are those of all components of the new mixture.
    """
    new_weights = np.append(parameters.weights, weights[1])
    new_weights[k] = weights[0]
    new_means = np.vstack([parameters.means, means[1]])
    new_means[k] = means[0]
    return WhitenedParameters(new_weights, new_means, covariances)


def _halved(data: WhitenedData, parameters: WhitenedParameters, k: int, offset: Array) -> WhitenedParameters:
    """Return the mixture with component k replaced by two equal halves, at plus and minus the offset."""
    mean, weight = parameters.means[k], parameters.weights[k]
    covariances = data.family.halved(parameters.covariances, k, offset)
    means = np.stack([mean - offset, mean + offset])
    return _split(parameters, k, np.full(2, weight / 2), means, covariances)


def _moment_split(
    data: WhitenedData,
    parameters: WhitenedParameters,
    responsibilities: Array,
    k: int,
    value: float,
    axis: Array,
) -> WhitenedParameters | None:
    """Return the mixture with component k split in two by the moments of its rows.

    None unless components are spherical with separate variances, and the moments show two parts. For two
    components the equivariant form has a closed solution: the two offsets from the mean are the roots of
    z^2 - (t / v) z - v, where v and t are the second and third moments of the offsets.
    """
    family = data.family
    n_features = data.n_features
    if not family.is_spherical or family != family.untied or n_features < 2:
        return None
    mean, weight, variance = parameters.means[k], parameters.weights[k], float(parameters.covariances[k])
    total = float(responsibilities.sum())
    if not total > 0:
        return None
    x = data.whitened_rows()
    squares = np.einsum("ij,ij->j", x, x) - 2 * (mean @ x) + mean @ mean
    y = axis @ x - axis @ mean
    # The variance per row, from the directions orthogonal to the axis.
    row_variances = (squares - y * y) / (n_features - 1)
    mean_variance = float(responsibilities @ row_variances) / total
    variance_offset = float(responsibilities @ (row_variances * y)) / total
    second = value - mean_variance
    if not second > 1e-6 * value:
        return None
    third = float(responsibilities @ y**3) / total - 3 * variance_offset
    midpoint = third / (2 * second)
    half = np.sqrt(midpoint**2 + second)
    offsets = np.array([midpoint - half, midpoint + half])
    fractions = np.array([offsets[1], -offsets[0]]) / (2 * half)
    fractions = np.maximum(fractions, 0.02)
    fractions /= fractions.sum()
    # Variances of the two parts with the mean variance, and its covariance with the offset, as observed.
    system = np.array([fractions, fractions * offsets])
    variances = np.linalg.solve(system, [mean_variance, variance_offset])
    variances = np.clip(variances, 0.05 * variance, 1.2 * variance)
    means = mean + offsets[:, None] * axis
    covariances = family.replaced(parameters.covariances, k, variances[0])
    return _split(parameters, k, weight * fractions, means, family.appended(covariances, variances[1]))


def _with_added_component(
    data: WhitenedData, parameters: WhitenedParameters, density: Array, rng: np.random.Generator
) -> list[WhitenedParameters]:
    """Return mixtures with a small component added at the rows where that raises the likelihood most."""
    family, n = data.family, len(density)
    n_tried = min(TRIED_ROWS, n)
    lowest = np.argpartition(density, n_tried // 2 - 1)[: n_tried // 2] if n_tried > 1 else np.zeros(1, int)
    tried = np.union1d(lowest, rng.choice(n, n_tried - len(lowest), replace=False))
    centres = data.whitened_rows()[:, tried].T
    compared = slice(None, None, max(1, n // COMPARED_ROWS))
    density = density[compared]
    gains = []
    for covariance in _likely_covariances(data, parameters):
        # Each candidate as a mixture of one component.
        covariances = family.repeated(covariance, len(tried))
        natural = family.natural(WhitenedParameters(np.ones(len(tried)), centres, covariances))
        gain, weights = added_gains(data, compared, natural, density, WEIGHT_STEPS)
        best = np.argsort(-gain)[:PROPOSED_ROWS]
        gains += [(float(gain[i]), float(weights[i]), centres[i], covariance) for i in best]
    gains.sort(key=lambda item: -item[0])
    proposals = []
    for _, weight, centre, covariance in gains[:PROPOSED_ROWS]:
        weight = max(weight, 1 / n)
        covariances = family.appended(parameters.covariances, covariance)
        new_weights = np.append(parameters.weights * (1 - weight), weight)
        proposals.append(WhitenedParameters(new_weights, np.vstack([parameters.means, centre]), covariances))
    return proposals


def _likely_covariances(data: WhitenedData, parameters: WhitenedParameters) -> list[Array]:
    """Return covariances for an added component: those of smallest and of median determinant."""
    covariances = data.family.per_component(parameters.covariances)
    order = np.argsort(data.family.log_det(covariances, data.n_features))
    chosen = dict.fromkeys([int(order[0]), int(order[len(order) // 2])])
    return [covariances[k] for k in chosen]

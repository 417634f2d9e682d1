"""One component more: split one of a mixture, or insert a small one where the density is too low."""

import numpy as np

from apolar._core.arrays import Array
from apolar.em.whitened import WhitenedData
from apolar.mixture.parameters import WhitenedParameters

# Principal axes are computed from the whole scatter up to this many columns, and by iteration above.
DENSE_COLUMNS = 64
ITERATIONS = 8
# Halves are put at this many deviations from the centre, along the principal axis.
HALF_STEP = 0.8
# Rows that are tried as centres of an inserted component, how many of those are kept, and the steps that
# find their weights.
CANDIDATES = 128
INSERTED = 2
WEIGHT_STEPS = 4
# Rows on which candidates are judged.
JUDGES = 2000


def with_one_more(
    data: WhitenedData, parameters: WhitenedParameters, rng: np.random.Generator
) -> list[WhitenedParameters]:
    """Return mixtures of one component more than the given one, in several ways."""
    posterior, density = _posteriors(data, parameters)
    axes = [_axis(data, p, mean) for p, mean in zip(posterior, parameters.means, strict=True)]
    grown = []
    for k, (value, axis) in enumerate(axes):
        if value > 0:
            grown.append(_halved(data, parameters, k, HALF_STEP * np.sqrt(value) * axis))
        parts = _moment_split(data, parameters, posterior[k], k, value, axis)
        if parts is not None:
            grown.append(parts)
    return grown + _inserted(data, parameters, density, rng)


def _posteriors(data: WhitenedData, parameters: WhitenedParameters) -> tuple[Array, Array]:
    """Return responsibilities times weights of rows, shape (n_components, n_rows), and log-densities."""
    posterior, density = data.row_responsibilities(parameters)
    weights = data.row_weights()
    return (posterior if weights is None else posterior * weights), density


def _axis(data: WhitenedData, responsibilities: Array, mean: Array) -> tuple[float, Array]:
    """Return the largest variance of a component's rows and its direction."""
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
    """Return the mixture with component k replaced by two of these weights and means, the second one last.

    `covariances` are those of the new mixture.
    """
    new_weights = np.append(parameters.weights, weights[1])
    new_weights[k] = weights[0]
    new_means = np.vstack([parameters.means, means[1]])
    new_means[k] = means[0]
    return WhitenedParameters(new_weights, new_means, covariances)


def _halved(data: WhitenedData, parameters: WhitenedParameters, k: int, offset: Array) -> WhitenedParameters:
    """Return the mixture with component k cut in two along an axis."""
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
    """Return the mixture with component k cut in two by the moments of its rows.

    None unless it is spherical, of a variance of its own, and the moments show two parts.
    With one signal direction the equivariant form has a closed solution: the two offsets are the roots of
    z^2 - (t / v) z - v, where v and t are second and third moment of the offsets.
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
    rest = (squares - y * y) / (n_features - 1)
    mean_variance = float(responsibilities @ rest) / total
    noise_times = float(responsibilities @ (rest * y)) / total
    second = value - mean_variance
    if not second > 1e-6 * value:
        return None
    third = float(responsibilities @ y**3) / total - 3 * noise_times
    middle = third / (2 * second)
    half = np.sqrt(middle**2 + second)
    offsets = np.array([middle - half, middle + half])
    parts = np.array([offsets[1], -offsets[0]]) / (2 * half)
    parts = np.maximum(parts, 0.02)
    parts /= parts.sum()
    system = np.array([parts, parts * offsets])
    variances = np.linalg.solve(system, [mean_variance, noise_times])
    variances = np.clip(variances, 0.05 * variance, 1.2 * variance)
    means = mean + offsets[:, None] * axis
    covariances = family.replaced(parameters.covariances, k, variances[0])
    return _split(parameters, k, weight * parts, means, family.appended(covariances, variances[1]))


def _inserted(
    data: WhitenedData, parameters: WhitenedParameters, density: Array, rng: np.random.Generator
) -> list[WhitenedParameters]:
    """Return the mixture with a small component at rows where that raises the likelihood most."""
    family, n = data.family, len(density)
    weights = data.row_weights()
    n_tried = min(CANDIDATES, n)
    lowest = np.argpartition(density, n_tried // 2 - 1)[: n_tried // 2] if n_tried > 1 else np.zeros(1, int)
    tried = np.union1d(lowest, rng.choice(n, n_tried - len(lowest), replace=False))
    centres = data.whitened_rows()[:, tried].T
    # What a candidate gains is judged on some of the rows.
    judges = slice(None, None, max(1, n // JUDGES))
    density = density[judges]
    judge_weights = np.ones(len(density)) if weights is None else weights[judges]
    judge_weights = judge_weights / judge_weights.sum()
    gains = []
    for covariance in _likely_covariances(data, parameters):
        all_alike = family.repeated(covariance, len(tried))
        alone = WhitenedParameters(np.ones(len(tried)), centres, all_alike)
        ratio = data.row_logits(family.natural(alone), judges)
        ratio -= density
        np.minimum(ratio, 50.0, out=ratio)
        np.exp(ratio, out=ratio)
        ratio -= 1
        weight = np.full((len(tried), 1), 0.02)
        work = np.empty_like(ratio)
        # weight <- mean of weight (1 + ratio) / (1 + weight ratio): EM for the weight of the new component.
        for _ in range(WEIGHT_STEPS):
            np.multiply(ratio, weight, out=work)
            work += 1
            np.divide(ratio, work, out=work)
            weight = weight * (1 + (1 - weight) * (work @ judge_weights)[:, None])
        np.multiply(ratio, weight, out=work)
        gain = np.log1p(work, out=work) @ judge_weights
        best = np.argsort(-gain)[:INSERTED]
        gains += [(float(gain[i]), float(weight[i, 0]), centres[i], covariance) for i in best]
    gains.sort(key=lambda item: -item[0])
    grown = []
    for _, part, centre, covariance in gains[:INSERTED]:
        part = max(part, 1 / n)
        covariances = family.appended(parameters.covariances, covariance)
        new_weights = np.append(parameters.weights * (1 - part), part)
        grown.append(WhitenedParameters(new_weights, np.vstack([parameters.means, centre]), covariances))
    return grown


def _likely_covariances(data: WhitenedData, parameters: WhitenedParameters) -> list[Array]:
    """Return covariances for an inserted component: the smallest and the middle one there are."""
    covariances = data.family.per_component(parameters.covariances)
    order = np.argsort(data.family.log_det(covariances, data.n_features))
    chosen = dict.fromkeys([int(order[0]), int(order[len(order) // 2])])
    return [covariances[k] for k in chosen]

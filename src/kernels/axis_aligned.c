/* Components without correlations: v variances each, one per column, or one for all m columns.

   The statistics of a component are its count, the sums of x, and the v sums of squares. Divisors are on the scale of
   the families: per row of a component m / v. */

#include "calls.h"

/* aligned_natural(weights (n), means (n, m), variances (n / r, v), natural (n, 1 + m + v), m, v): natural parameters of
   components of which r in succession share their variances. */
PyObject *py_aligned_natural(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 4, 1, 2)) return NULL;
  isize m = number_of(args[4]), v = number_of(args[5]), n = length_of(&b, 0);
  if (PyErr_Occurred() || m < 1 || (v != m && v != 1)) return mismatch(&b);
  isize n_covariances = length_of(&b, 2) / v, n_stats = 1 + m + v;
  if (n < 1 || n_covariances < 1 || n % n_covariances || length_of(&b, 2) != n_covariances * v ||
      length_of(&b, 1) != n * m || length_of(&b, 3) != n * n_stats)
    return mismatch(&b);
  for (isize i = 0; i < n; i++)
    write_aligned_natural(values_of(&b, 2) + i / (n / n_covariances) * v, values_of(&b, 1) + i * m, values_of(&b, 0)[i],
                          values_of(&b, 3) + i * n_stats, m, v);
  return done(&b, NULL, 1);
}

/* aligned_m_step(stats (n, 1 + m + v), added (1 or n, v), divisors (n), means (n, m), variances (n, v), m, v, shrinkage,
   least) */
PyObject *py_aligned_m_step(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 5, 2, 4)) return NULL;
  isize m = number_of(args[5]), v = number_of(args[6]), n = length_of(&b, 2);
  double shrinkage = PyFloat_AsDouble(args[7]), least = PyFloat_AsDouble(args[8]);
  if (PyErr_Occurred() || m < 1 || (v != m && v != 1)) return mismatch(&b);
  isize n_added = length_of(&b, 1) / v, n_stats = 1 + m + v;
  if (length_of(&b, 0) != n * n_stats || length_of(&b, 3) != n * m || length_of(&b, 4) != n * v ||
      (n_added != 1 && n_added != n) || length_of(&b, 1) != n_added * v)
    return mismatch(&b);
  for (isize i = 0; i < n; i++) {
    const double *stats = values_of(&b, 0) + i * n_stats, *added = values_of(&b, 1) + (n_added == 1 ? 0 : i * v);
    double *means = values_of(&b, 3) + i * m, *variances = values_of(&b, 4) + i * v;
    double weight = stats[0] > LEAST_WEIGHT ? stats[0] : LEAST_WEIGHT;
    double divisor = weight * (double)(m / v) + values_of(&b, 2)[i];
    aligned_scatter(stats, variances, m, v);
    for (isize j = 0; j < m; j++) means[j] = stats[1 + j] / weight;
    for (isize j = 0; j < v; j++) {
      double factor = weight * shrinkage / (weight + shrinkage);
      double value = (variances[j] + factor * square_of(means, j, m, v) + added[j]) / divisor;
      variances[j] = value < least ? least : value;
    }
    for (isize j = 0; j < m; j++) means[j] = stats[1 + j] / (weight + shrinkage);
  }
  return done(&b, NULL, 1);
}

/* aligned_log_prior(means (n, m), variances (n, v), added (1 or n, v), divisors (n), terms (n), m, v, shrinkage): minus
   half of the divisor, per row, times log|S|, plus tr(S^-1 added) + shrinkage mean^t S^-1 mean. */
PyObject *py_aligned_log_prior(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 5, 1, 3)) return NULL;
  isize m = number_of(args[5]), v = number_of(args[6]), n = length_of(&b, 4);
  double shrinkage = PyFloat_AsDouble(args[7]);
  if (PyErr_Occurred() || m < 1 || (v != m && v != 1)) return mismatch(&b);
  isize n_added = length_of(&b, 2) / v;
  if (length_of(&b, 0) != n * m || length_of(&b, 1) != n * v || length_of(&b, 3) != n ||
      (n_added != 1 && n_added != n) || length_of(&b, 2) != n_added * v)
    return mismatch(&b);
  for (isize i = 0; i < n; i++) {
    const double *mean = values_of(&b, 0) + i * m, *variances = values_of(&b, 1) + i * v;
    const double *added = values_of(&b, 2) + (n_added == 1 ? 0 : i * v);
    double sum = 0.0;
    for (isize j = 0; j < v; j++) {
      /* The divisor of one row is m / v, and so is the number of columns of a variance. */
      sum += values_of(&b, 3)[i] * log(variances[j]);
      sum += (added[j] + shrinkage * square_of(mean, j, m, v)) / variances[j];
    }
    values_of(&b, 4)[i] = -0.5 * sum;
  }
  return done(&b, NULL, 1);
}

/* aligned_common_covariance(stats (n_mixtures, r, 1 + m + v), added (v), targets (.., v), m, v, r, least, least_count,
   volume_rows, rounds): see `apolar.mixture.shrinkage.common_covariance`. */
PyObject *py_aligned_common_covariance(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 3, 1, 7)) return NULL;
  isize m = number_of(args[3]), v = number_of(args[4]), r = number_of(args[5]);
  double least = PyFloat_AsDouble(args[6]), least_count = PyFloat_AsDouble(args[7]);
  double volume_rows = PyFloat_AsDouble(args[8]);
  isize rounds = number_of(args[9]), n_stats = 1 + m + v;
  if (PyErr_Occurred() || m < 1 || r < 1 || (v != m && v != 1)) return mismatch(&b);
  isize n = length_of(&b, 2) / (r * v);
  if (length_of(&b, 2) != n * r * v || length_of(&b, 0) != n * r * n_stats || length_of(&b, 1) != v)
    return mismatch(&b);
  double *scatter = workspace(&b, r * v + 2 * v + 2 * r);
  if (scatter == NULL) return NULL;
  double *common = scatter + r * v, *sum = common + v, *counts = sum + v, *volumes = counts + r;
  double unit = (double)(m / v), n_prior = (double)v / (double)m + 1.0;
  for (isize mixture = 0; mixture < n; mixture++) {
    double total = 0.0;
    for (isize k = 0; k < r; k++) {
      const double *stats = values_of(&b, 0) + (mixture * r + k) * n_stats;
      counts[k] = stats[0] > least_count ? stats[0] : least_count;
      total += counts[k];
      volumes[k] = 1.0;
      aligned_scatter(stats, scatter + k * v, m, v);
    }
    for (isize round = 0; round <= rounds; round++) {
      if (round > 0) {
        double mean = 0.0;
        for (isize k = 0; k < r; k++) {
          double ratio = 0.0;
          for (isize j = 0; j < v; j++) ratio += scatter[k * v + j] / common[j];
          volumes[k] = log((ratio / (double)m + volume_rows) / (counts[k] + volume_rows));
          mean += counts[k] * volumes[k];
        }
        for (isize k = 0; k < r; k++) volumes[k] = exp(volumes[k] - mean / total);
      }
      for (isize j = 0; j < v; j++) {
        double value = values_of(&b, 1)[j];
        for (isize k = 0; k < r; k++) value += scatter[k * v + j] / volumes[k];
        value /= unit * (total + 1.0);
        common[j] = value < least ? least : value;
      }
    }
    /* The harmonic mean of the variances, shrunk towards the common ones. */
    memset(sum, 0, (size_t)v * sizeof(double));
    for (isize k = 0; k < r; k++) {
      double rows = unit * (counts[k] + n_prior), n_values = unit * counts[k];
      double weight = counts[k] / total * n_values / (n_values + 2.0);
      for (isize j = 0; j < v; j++) {
        double value = (scatter[k * v + j] / volumes[k] + unit * n_prior * common[j]) / rows;
        sum[j] += weight / (value < least ? least : value);
      }
    }
    for (isize k = 0; k < r; k++)
      for (isize j = 0; j < v; j++) values_of(&b, 2)[(mixture * r + k) * v + j] = volumes[k] / sum[j];
  }
  return done(&b, scatter, 1);
}

/* aligned_log_marginals(counts (n), spectra (n, v), strengths (s), values (s, n), m, v) */
PyObject *py_aligned_log_marginals(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 4, 1, 2)) return NULL;
  isize m = number_of(args[4]), v = number_of(args[5]), n = length_of(&b, 0), n_strengths = length_of(&b, 2);
  if (PyErr_Occurred() || m < 1 || (v != m && v != 1) || length_of(&b, 1) != n * v ||
      length_of(&b, 3) != n * n_strengths)
    return mismatch(&b);
  double unit = (double)(m / v);
  for (isize s = 0; s < n_strengths; s++) {
    double strength = unit * values_of(&b, 2)[s], half = 0.5 * (strength + 2.0);
    double before = lgamma(half) - half * log(strength);
    for (isize i = 0; i < n; i++) {
      double n_values = values_of(&b, 0)[i] - 1.0, logs = 0.0, product = 1.0;
      n_values = n_values > 0.0 ? unit * n_values : 0.0;
      double after = half + 0.5 * n_values;
      for (isize j = 0; j < v; j++) {
        product *= strength + values_of(&b, 1)[i * v + j];
        if (product > 1e150 || product < 1e-150) {
          logs += log(product);
          product = 1.0;
        }
      }
      logs += log(product);
      double each = lgamma(after) - before - 0.5 * n_values * LOG_PI;
      values_of(&b, 3)[s * n + i] = (double)v * each - after * logs;
    }
  }
  return done(&b, NULL, 1);
}

/* aligned_gradient(roots (n, v), tangents (n, v), stats (n, 1 + m + v), means (n, m), added (1 or n, v), divisors (n),
   by_mean (n, m), by_covariance (n, v), m, v, shrinkage): at the variances roots^2 exp(2 tangents). */
PyObject *py_aligned_gradient(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 8, 2, 3)) return NULL;
  isize m = number_of(args[8]), v = number_of(args[9]), n_stats = 1 + m + v;
  double shrinkage = PyFloat_AsDouble(args[10]);
  if (PyErr_Occurred() || m < 1 || (v != m && v != 1)) return mismatch(&b);
  isize n = length_of(&b, 5), n_added = length_of(&b, 4) / v;
  if (length_of(&b, 0) != n * v || length_of(&b, 1) != n * v || length_of(&b, 2) != n * n_stats ||
      length_of(&b, 3) != n * m || (n_added != 1 && n_added != n) || length_of(&b, 4) != n_added * v ||
      length_of(&b, 6) != n * m || length_of(&b, 7) != n * v)
    return mismatch(&b);
  double *variances = workspace(&b, 2 * v + m);
  if (variances == NULL) return NULL;
  double *scatter = variances + v, *offset = scatter + v;
  for (isize i = 0; i < n; i++) {
    const double *roots = values_of(&b, 0) + i * v, *stats = values_of(&b, 2) + i * n_stats;
    const double *mean = values_of(&b, 3) + i * m, *added = values_of(&b, 4) + (n_added == 1 ? 0 : i * v);
    double *by_mean = values_of(&b, 6) + i * m, *by_covariance = values_of(&b, 7) + i * v;
    double count = stats[0], divisor = count * (double)(m / v) + values_of(&b, 5)[i];
    for (isize j = 0; j < v; j++) variances[j] = roots[j] * roots[j] * exp(2.0 * values_of(&b, 1)[i * v + j]);
    for (isize j = 0; j < m; j++) {
      double difference = stats[1 + j] - count * mean[j];
      offset[j] = difference / (count > LEAST_WEIGHT ? count : LEAST_WEIGHT);
      by_mean[j] = (difference - shrinkage * mean[j]) * roots[v == m ? j : 0] / variances[v == m ? j : 0];
    }
    aligned_scatter(stats, scatter, m, v);
    for (isize j = 0; j < v; j++) {
      double value = scatter[j] + count * square_of(offset, j, m, v) + shrinkage * square_of(mean, j, m, v) + added[j];
      by_covariance[j] = value / variances[j] - divisor;
    }
  }
  return done(&b, variances, 1);
}

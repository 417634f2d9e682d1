/* The components of mixtures of full covariances: natural parameters, M-step, prior, terms of mergers. */

#include "calls.h"

/* exceed(covariances (n, m, m), m, least): whether all squared pivots are larger than `least`. */
PyObject *py_exceed(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 1, 0, 2)) return NULL;
  isize m = matrix_size_of(args[1]);
  double least = PyFloat_AsDouble(args[2]);
  if (PyErr_Occurred() || m < 1 || length_of(&b, 0) % (m * m)) return mismatch(&b);
  double *work = workspace(&b, m * m);
  if (work == NULL) return NULL;
  isize n = length_of(&b, 0) / (m * m);
  int is_positive = 1;
  for (isize i = 0; i < n && is_positive; i++)
    is_positive = factorise(values_of(&b, 0) + i * m * m, work, m) > least;
  return done(&b, work, is_positive);
}

/* inverses(covariances (n, m, m), inverses (n, m, m), log_dets (n), m) */
PyObject *py_inverses(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 3, 2, 1)) return NULL;
  isize m = matrix_size_of(args[3]), n = length_of(&b, 2);
  if (PyErr_Occurred() || m < 1 || length_of(&b, 0) != n * m * m || length_of(&b, 1) != n * m * m) return mismatch(&b);
  double *u = workspace(&b, 2 * m * m);
  if (u == NULL) return NULL;
  int is_positive = 1;
  for (isize i = 0; i < n && is_positive; i++)
    is_positive = invert(values_of(&b, 0) + i * m * m, u, values_of(&b, 1) + i * m * m, values_of(&b, 2) + i, m) > 0.0;
  return done(&b, u, is_positive);
}

/* natural(weights (n), means (n, m), covariances (n / r, m, m), natural (n, n_stats), m):
   natural parameters of components of which r in succession share a covariance. */
PyObject *py_natural(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 4, 1, 1)) return NULL;
  isize m = matrix_size_of(args[4]), n = length_of(&b, 0), n_stats = 1 + m + m * (m + 1) / 2;
  if (PyErr_Occurred() || m < 1) return mismatch(&b);
  isize n_covariances = length_of(&b, 2) / (m * m);
  if (n < 1 || n_covariances < 1 || n % n_covariances || length_of(&b, 2) != n_covariances * m * m
    || length_of(&b, 1) != n * m || length_of(&b, 3) != n * n_stats)
    return mismatch(&b);
  double *u = workspace(&b, 3 * m * m);
  if (u == NULL) return NULL;
  double *precision = u + 2 * m * m, log_of_det = 0.0;
  isize repeat = n / n_covariances;
  for (isize i = 0; i < n; i++) {
    if (i % repeat == 0 && !(invert(values_of(&b, 2) + i / repeat * m * m, u, precision, &log_of_det, m) > 0.0))
      return done(&b, u, 0);
    write_natural(precision, log_of_det, values_of(&b, 1) + i * m, values_of(&b, 0)[i], values_of(&b, 3) + i * n_stats,
                  m);
  }
  return done(&b, u, 1);
}

/* merging_terms(stats (n, n_stats), terms (n), m, least): weight times log-determinant of components. */
PyObject *py_merging_terms(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 2, 1, 2)) return NULL;
  isize m = matrix_size_of(args[2]), n = length_of(&b, 1), n_stats = 1 + m + m * (m + 1) / 2;
  double least = PyFloat_AsDouble(args[3]);
  if (PyErr_Occurred() || m < 1 || length_of(&b, 0) != n * n_stats) return mismatch(&b);
  double *u = workspace(&b, 2 * m * m);
  if (u == NULL) return NULL;
  double *covariance = u + m * m;
  int is_positive = 1;
  for (isize i = 0; i < n && is_positive; i++) {
    const double *stats = values_of(&b, 0) + i * n_stats;
    double count = stats[0] > LEAST_WEIGHT ? stats[0] : LEAST_WEIGHT;
    scatter_of(stats, covariance, m);
    for (isize j = 0; j < m * m; j++)
      covariance[j] /= count;
    is_positive = factorise(covariance, u, m) > least;
    if (is_positive)
      values_of(&b, 1)[i] = count * log_det(u, m);
  }
  return done(&b, u, is_positive);
}

/* m_step(stats (n, n_stats), added (1 or n, m, m), divisors (n), means (n, m), covariances (n, m, m),
          m, shrinkage, least)
   Means and covariances that maximise the expected objective; `added` and `divisors` are those of the prior. */
PyObject *py_m_step(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 5, 2, 3)) return NULL;
  isize m = matrix_size_of(args[5]), n = length_of(&b, 2), n_stats = 1 + m + m * (m + 1) / 2;
  double shrinkage = PyFloat_AsDouble(args[6]), least = PyFloat_AsDouble(args[7]);
  if (PyErr_Occurred() || m < 1) return mismatch(&b);
  isize n_added = length_of(&b, 1) / (m * m);
  if (length_of(&b, 0) != n * n_stats || length_of(&b, 3) != n * m || length_of(&b, 4) != n * m * m
    || (n_added != 1 && n_added != n) || length_of(&b, 1) != n_added * m * m)
    return mismatch(&b);
  double *u = workspace(&b, m * m + m);
  if (u == NULL) return NULL;
  double *mean = u + m * m;
  int is_positive = 1;
  for (isize i = 0; i < n && is_positive; i++) {
    const double *stats = values_of(&b, 0) + i * n_stats;
    const double *added = values_of(&b, 1) + (n_added == 1 ? 0 : i * m * m);
    double *covariance = values_of(&b, 4) + i * m * m, *out = values_of(&b, 3) + i * m;
    double weight = stats[0] > LEAST_WEIGHT ? stats[0] : LEAST_WEIGHT;
    double divisor = weight + values_of(&b, 2)[i];
    scatter_of(stats, covariance, m);
    for (isize j = 0; j < m; j++) {
      mean[j] = stats[1 + j] / weight;
      out[j] = stats[1 + j] / (weight + shrinkage);
    }
    add_outer(covariance, mean, weight * shrinkage / (weight + shrinkage), m);
    for (isize j = 0; j < m * m; j++)
      covariance[j] = (covariance[j] + added[j]) / divisor;
    is_positive = factorise(covariance, u, m) > least;
  }
  return done(&b, u, is_positive);
}

/* log_prior(means (n, m), covariances (n, m, m), added (1 or n, m, m), divisors (n), terms (n), m, shrinkage):
   minus half of divisor log|S| + tr(S^-1 added) + shrinkage mean^t S^-1 mean. */
PyObject *py_log_prior(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 5, 1, 2)) return NULL;
  isize m = matrix_size_of(args[5]), n = length_of(&b, 4);
  double shrinkage = PyFloat_AsDouble(args[6]);
  if (PyErr_Occurred() || m < 1) return mismatch(&b);
  isize n_added = length_of(&b, 2) / (m * m);
  if (length_of(&b, 0) != n * m || length_of(&b, 1) != n * m * m || length_of(&b, 3) != n
    || (n_added != 1 && n_added != n) || length_of(&b, 2) != n_added * m * m)
    return mismatch(&b);
  double *u = workspace(&b, 3 * m * m);
  if (u == NULL) return NULL;
  double *precision = u + 2 * m * m, log_of_det = 0.0;
  int is_positive = 1;
  for (isize i = 0; i < n && is_positive; i++) {
    is_positive = invert(values_of(&b, 1) + i * m * m, u, precision, &log_of_det, m) > 0.0;
    if (!is_positive) break;
    const double *mean = values_of(&b, 0) + i * m;
    const double *added = values_of(&b, 2) + (n_added == 1 ? 0 : i * m * m);
    double square = 0.0;
    for (isize j = 0; j < m; j++)
      square += mean[j] * dot(precision + j * m, mean, m);
    double trace = dot(precision, added, m * m);
    values_of(&b, 4)[i] = -0.5 * (values_of(&b, 3)[i] * log_of_det + trace + shrinkage * square);
  }
  return done(&b, u, is_positive);
}

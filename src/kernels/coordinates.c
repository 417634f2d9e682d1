/* Local coordinates of covariances without sharing: see apolar/em/coordinates.py. */

#include "calls.h"

/* Write T, lower triangular, from tangents in the order of the upper triangle of T^t; the diagonal of T holds
   exponentials. Entries above the diagonal are zero. */
static void triangle_of(const double *restrict tangents, double *restrict t, isize m) {
  memset(t, 0, (size_t)(m * m) * sizeof(double));
  for (isize i = 0; i < m; i++) {
    t[i * m + i] = exp(*tangents++);
    for (isize j = i + 1; j < m; j++)
      t[j * m + i] = *tangents++;
  }
}

/* Write the product of two lower triangular matrices. */
static void triangular_product(
  const double *restrict a, const double *restrict b, double *restrict product, isize m) {
  memset(product, 0, (size_t)(m * m) * sizeof(double));
  for (isize i = 0; i < m; i++)
    for (isize k = 0; k <= i; k++) {
      double factor = a[i * m + k];
      for (isize j = 0; j <= k; j++)
        product[i * m + j] += factor * b[k * m + j];
    }
}

/* Write the gradients of one component of full covariance at S = L T T^t L^t: in the tangent vectors of means,
   L^t S^-1 pull, and of covariances, T^-t (Z - divisor I) with Z = (L T)^-1 scatter (L T)^-t. `work` has room for five
   matrices and a vector. */
static void full_gradient(const double *root, const double *tangents, const double *scatter, const double *pull,
                          double divisor, double *by_mean, double *by_covariance, double *work, isize m) {
  isize mm = m * m;
  double *t = work, *factor = t + mm, *u = factor + mm, *inverse = u + mm, *z = inverse + mm, *solved = z + mm;
  triangle_of(tangents, t, m);
  triangular_product(root, t, factor, m);
  for (isize j = 0; j < m; j++)
    for (isize k = j; k < m; k++) u[j * m + k] = factor[k * m + j];
  invert_factor(u, inverse, m);
  /* L^t S^-1 pull = L^t F^-t F^-1 pull = T^-t (F^-1 pull), with F = L T. */
  for (isize j = 0; j < m; j++) solved[j] = dot(inverse + j * m, pull, j + 1);
  for (isize j = m - 1; j >= 0; j--) {
    double value = solved[j];
    for (isize k = j + 1; k < m; k++) value -= t[k * m + j] * by_mean[k];
    by_mean[j] = value / t[j * m + j];
  }
  congruent(inverse, scatter, factor, z, m);
  for (isize j = 0; j < m; j++) z[j * m + j] -= divisor;
  /* Solve T^t G = Z - divisor I by rows, from the last to the first. */
  for (isize j = m - 1; j >= 0; j--) {
    double *row = z + j * m;
    for (isize k = j + 1; k < m; k++) {
      double entry = t[k * m + j];
      for (isize l = 0; l < m; l++) row[l] -= entry * z[k * m + l];
    }
    double scale = 1.0 / t[j * m + j];
    for (isize l = 0; l < m; l++) row[l] *= scale;
  }
  for (isize j = 0; j < m; j++) {
    *by_covariance++ = z[j * m + j] * t[j * m + j];
    for (isize k = j + 1; k < m; k++) *by_covariance++ = z[k * m + j];
  }
}

/* gradient(roots (n, v), tangents (n, n_tangents), stats (n, n_stats), means (n, m), added (n, v) or none,
   divisors (n) or none, by_mean (n, m), by_covariance (n, n_tangents), m, kind, shrinkage, mean_divisor): the
   gradient of the expected objective in tangent vectors. Variances without correlations are roots^2 exp(2 tangents). */
PyObject *py_gradient(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  Form form;
  if (!take(&b, args, n_args, 8, 2, 4)) return NULL;
  double shrinkage = PyFloat_AsDouble(args[10]), mean_divisor = PyFloat_AsDouble(args[11]);
  if (!is_form(args + 8, &form)) return mismatch(&b);
  isize m = form.m, v = form.v, n_tangents = form.n_quadratics, n = length_of(&b, 6) / m;
  if (length_of(&b, 0) != n * v || length_of(&b, 1) != n * n_tangents || length_of(&b, 2) != n * form.n_stats ||
      length_of(&b, 3) != n * m || length_of(&b, 6) != n * m || length_of(&b, 7) != n * n_tangents)
    return mismatch(&b);
  int has_prior = length_of(&b, 4) > 0;
  if (length_of(&b, 4) != has_prior * n * v || length_of(&b, 5) != has_prior * n) return mismatch(&b);
  double *scatter = workspace(&b, 6 * v + 3 * m);
  if (scatter == NULL) return NULL;
  double *offset = scatter + v, *pull = offset + m, *work = pull + m;
  for (isize i = 0; i < n; i++) {
    const double *root = values_of(&b, 0) + i * v, *tangents = values_of(&b, 1) + i * n_tangents;
    const double *stats = values_of(&b, 2) + i * form.n_stats, *mean = values_of(&b, 3) + i * m;
    double *by_mean = values_of(&b, 6) + i * m, *by_covariance = values_of(&b, 7) + i * n_tangents;
    double count = stats[0], divisor = count * form.unit + mean_divisor;
    for (isize j = 0; j < m; j++) {
      double difference = stats[1 + j] - count * mean[j];
      offset[j] = difference / (count > MIN_WEIGHT ? count : MIN_WEIGHT);
      pull[j] = difference - shrinkage * mean[j];
    }
    write_scatter(&form, stats, scatter);
    add_square(&form, scatter, offset, count);
    add_square(&form, scatter, mean, shrinkage);
    for (isize j = 0; j < v && has_prior; j++) scatter[j] += values_of(&b, 4)[i * v + j];
    if (has_prior) divisor += values_of(&b, 5)[i];
    if (form.kind == FULL) {
      full_gradient(root, tangents, scatter, pull, divisor, by_mean, by_covariance, work, m);
      continue;
    }
    for (isize j = 0; j < v; j++) {
      work[j] = root[j] * root[j] * exp(2.0 * tangents[j]);
      by_covariance[j] = scatter[j] / work[j] - divisor;
    }
    for (isize j = 0; j < m; j++) by_mean[j] = pull[j] * root[j % v] / work[j % v];
  }
  return done(&b, scatter, 1);
}

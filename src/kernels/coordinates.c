/* Local coordinates of full covariances: see apolar/em/coordinates.py. */

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

/* retraction(roots (n, m, m), tangents (n, m (m + 1) / 2), covariances (n, m, m), m, least):
   L T T^t L^t; whether all squared pivots are larger than `least`. */
PyObject *py_retraction(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 3, 1, 2)) return NULL;
  isize m = matrix_size_of(args[3]), mm = m * m, n_tangents = m * (m + 1) / 2;
  double least = PyFloat_AsDouble(args[4]);
  if (PyErr_Occurred() || m < 1) return mismatch(&b);
  isize n = length_of(&b, 0) / mm;
  if (length_of(&b, 0) != n * mm || length_of(&b, 1) != n * n_tangents || length_of(&b, 2) != n * mm) return mismatch(&b);
  double *t = workspace(&b, 2 * mm);
  if (t == NULL) return NULL;
  double *factor = t + mm;
  int is_positive = 1;
  for (isize i = 0; i < n; i++) {
    double *covariance = values_of(&b, 2) + i * mm;
    triangle_of(values_of(&b, 1) + i * n_tangents, t, m);
    triangular_product(values_of(&b, 0) + i * mm, t, factor, m);
    for (isize j = 0; j < m; j++) {
      double pivot = factor[j * m + j] * factor[j * m + j];
      is_positive = is_positive && pivot > least && isfinite(pivot);
      for (isize k = 0; k <= j; k++)
        covariance[j * m + k] = covariance[k * m + j] = dot(factor + j * m, factor + k * m, k + 1);
    }
  }
  return done(&b, t, is_positive);
}

/* gradient(roots (n, m, m), tangents (n, m (m + 1) / 2), stats (n, n_stats), means (n, m), added (1 or n, m, m),
            divisors (n), by_mean (n, m), by_covariance (n, m (m + 1) / 2), m, shrinkage)
   The gradient of the expected objective at S = L T T^t L^t in the tangent vectors of means, L^t S^-1 pull, and
   of covariances, T^-t (Z - divisor I) with Z = (L T)^-1 scatter (L T)^-t. */
PyObject *py_gradient(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 8, 2, 2)) return NULL;
  isize m = matrix_size_of(args[8]), mm = m * m, n_tangents = m * (m + 1) / 2, n_stats = 1 + m + n_tangents;
  double shrinkage = PyFloat_AsDouble(args[9]);
  if (PyErr_Occurred() || m < 1) return mismatch(&b);
  isize n = length_of(&b, 5), n_added = length_of(&b, 4) / mm;
  if (length_of(&b, 0) != n * mm || length_of(&b, 1) != n * n_tangents || length_of(&b, 2) != n * n_stats
    || length_of(&b, 3) != n * m || (n_added != 1 && n_added != n) || length_of(&b, 4) != n_added * mm
    || length_of(&b, 6) != n * m || length_of(&b, 7) != n * n_tangents)
    return mismatch(&b);
  double *t = workspace(&b, 6 * mm + 2 * m);
  if (t == NULL) return NULL;
  double *factor = t + mm, *u = factor + mm, *inverse = u + mm, *scatter = inverse + mm, *z = scatter + mm;
  double *offset = z + mm, *pull = offset + m;
  for (isize i = 0; i < n; i++) {
    const double *root = values_of(&b, 0) + i * mm, *stats = values_of(&b, 2) + i * n_stats;
    const double *mean = values_of(&b, 3) + i * m, *added = values_of(&b, 4) + (n_added == 1 ? 0 : i * mm);
    double *by_mean = values_of(&b, 6) + i * m, *by_covariance = values_of(&b, 7) + i * n_tangents;
    double count = stats[0], least = count > LEAST_WEIGHT ? count : LEAST_WEIGHT;
    double divisor = count + values_of(&b, 5)[i];
    triangle_of(values_of(&b, 1) + i * n_tangents, t, m);
    triangular_product(root, t, factor, m);
    for (isize j = 0; j < m; j++)
      for (isize k = j; k < m; k++)
        u[j * m + k] = factor[k * m + j];
    invert_factor(u, inverse, m);
    scatter_of(stats, scatter, m);
    for (isize j = 0; j < m; j++) {
      double difference = stats[1 + j] - count * mean[j];
      offset[j] = difference / least;
      pull[j] = difference - shrinkage * mean[j];
    }
    add_outer(scatter, offset, count, m);
    add_outer(scatter, mean, shrinkage, m);
    for (isize j = 0; j < mm; j++)
      scatter[j] += added[j];
    /* L^t S^-1 pull = L^t F^-t F^-1 pull = T^-t (F^-1 pull), with F = L T. */
    for (isize j = 0; j < m; j++)
      offset[j] = dot(inverse + j * m, pull, j + 1);
    for (isize j = m - 1; j >= 0; j--) {
      double value = offset[j];
      for (isize k = j + 1; k < m; k++)
        value -= t[k * m + j] * by_mean[k];
      by_mean[j] = value / t[j * m + j];
    }
    congruent(inverse, scatter, factor, z, m);
    for (isize j = 0; j < m; j++)
      z[j * m + j] -= divisor;
    /* Solve T^t G = Z - divisor I by rows, from the last to the first. */
    for (isize j = m - 1; j >= 0; j--) {
      double *row = z + j * m;
      for (isize k = j + 1; k < m; k++) {
        double entry = t[k * m + j];
        for (isize l = 0; l < m; l++)
          row[l] -= entry * z[k * m + l];
      }
      double scale = 1.0 / t[j * m + j];
      for (isize l = 0; l < m; l++)
        row[l] *= scale;
    }
    for (isize j = 0; j < m; j++) {
            *by_covariance++ = z[j * m + j] * t[j * m + j];
      for (isize k = j + 1; k < m; k++)
                *by_covariance++ = z[k * m + j];
    }
  }
  return done(&b, t, 1);
}

/* lbfgs_direction(gradient (n), direction (n), step (n), difference (n), product, ...): the inverse Hessian times the
   gradient, from steps, gradient differences and their products, the oldest first: the two-loop recursion. */
PyObject *py_lbfgs_direction(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  isize n_pairs = (n_args - 2) / 3;
  if (n_pairs < 0 || n_args != 2 + 3 * n_pairs || n_pairs > (MOST_BUFFERS - 2) / 2) {
    PyErr_SetString(PyExc_TypeError, "The arguments must be a gradient, a direction, and a few pairs.");
    return NULL;
  }
  PyObject *arrays[MOST_BUFFERS] = {args[0]};
  double products[MOST_BUFFERS], factors[MOST_BUFFERS];
  for (isize i = 0; i < n_pairs; i++) {
    arrays[1 + 2 * i] = args[2 + 3 * i];
    arrays[2 + 2 * i] = args[3 + 3 * i];
    products[i] = PyFloat_AsDouble(args[4 + 3 * i]);
  }
  arrays[1 + 2 * n_pairs] = args[1];
  if (PyErr_Occurred() || !take(&b, arrays, 2 + 2 * n_pairs, (int)(2 + 2 * n_pairs), 1, 0)) return NULL;
  isize n = length_of(&b, 0);
  for (int i = 1; i < b.n; i++)
    if (length_of(&b, i) != n) return mismatch(&b);
  double *q = values_of(&b, b.n - 1);
  memcpy(q, values_of(&b, 0), (size_t)n * sizeof(double));
  for (isize i = n_pairs - 1; i >= 0; i--) {
    const double *step = values_of(&b, (int)(1 + 2 * i)), *difference = values_of(&b, (int)(2 + 2 * i));
    factors[i] = dot(step, q, n) / products[i];
    for (isize j = 0; j < n; j++) q[j] -= factors[i] * difference[j];
  }
  if (n_pairs) {
    const double *difference = values_of(&b, (int)(2 * n_pairs));
    double scale = products[n_pairs - 1] / dot(difference, difference, n);
    for (isize j = 0; j < n; j++) q[j] *= scale;
  }
  for (isize i = 0; i < n_pairs; i++) {
    const double *step = values_of(&b, (int)(1 + 2 * i)), *difference = values_of(&b, (int)(2 + 2 * i));
    double factor = factors[i] - dot(difference, q, n) / products[i];
    for (isize j = 0; j < n; j++) q[j] += factor * step[j];
  }
  return done(&b, NULL, 1);
}

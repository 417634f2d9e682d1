/* The common covariance, towards which those of components are shrunk. */

#include "calls.h"

/* Write the inverse of a covariance; 0 if a matrix is below the floor, to which variances are raised. */
static int inverse_above(const Form *form, double *covariance, double least, double *work, double *inverse) {
  double log_of_det;
  if (form->kind == FULL) return invert(covariance, work, inverse, &log_of_det, form->m) > least;
  for (isize j = 0; j < form->v; j++) {
    if (covariance[j] < least) covariance[j] = least;
    inverse[j] = 1.0 / covariance[j];
  }
  return 1;
}

/* common_covariance(stats (n_mixtures, r, n_stats), added (v), targets (n_mixtures, r, v), m, kind, r, least,
   min_count, volume_rows, rounds): see `apolar.mixture.prior.common_covariance`, which says what is computed. */
PyObject *py_common_covariance(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  Form form;
  if (!take(&b, args, n_args, 3, 1, 7)) return NULL;
  isize r = number_of(args[5]), rounds = number_of(args[9]);
  double least = PyFloat_AsDouble(args[6]), min_count = PyFloat_AsDouble(args[7]);
  double volume_rows = PyFloat_AsDouble(args[8]);
  if (!is_form(args + 3, &form) || r < 1) return mismatch(&b);
  isize m = form.m, v = form.v, n = length_of(&b, 2) / (r * v);
  if (length_of(&b, 2) != n * r * v || length_of(&b, 0) != n * r * form.n_stats || length_of(&b, 1) != v)
    return mismatch(&b);
  double *scatter = workspace(&b, r * v + 6 * v + 2 * r);
  if (scatter == NULL) return NULL;
  double *common = scatter + r * v, *u = common + v, *precision = u + 2 * v;
  double *sum = precision + v, *shrunk = sum + v, *counts = shrunk + v, *volumes = counts + r;
  double unit = form.unit, n_prior = (double)form.n_quadratics / (double)m + 1.0;
  double n_joint = form.kind == FULL ? (double)m : 1.0;
  for (isize mixture = 0; mixture < n; mixture++) {
    double total = 0.0;
    for (isize k = 0; k < r; k++) {
      const double *stats = values_of(&b, 0) + (mixture * r + k) * form.n_stats;
      counts[k] = stats[0] > min_count ? stats[0] : min_count;
      total += counts[k];
      volumes[k] = 1.0;
      write_scatter(&form, stats, scatter + k * v);
    }
    for (isize round = 0; round <= rounds; round++) {
      if (round > 0) {
        /* The volumes, from the traces relative to the common covariance. */
        double mean = 0.0;
        for (isize k = 0; k < r; k++) {
          double ratio = dot(precision, scatter + k * v, v) / (double)m;
          ratio = ratio > 0.0 ? ratio : 0.0;
          volumes[k] = log((ratio + volume_rows) / (counts[k] + volume_rows));
          mean += counts[k] * volumes[k];
        }
        for (isize k = 0; k < r; k++) volumes[k] = exp(volumes[k] - mean / total);
      }
      memcpy(common, values_of(&b, 1), (size_t)v * sizeof(double));
      for (isize k = 0; k < r; k++)
        for (isize j = 0; j < v; j++) common[j] += scatter[k * v + j] / volumes[k];
      for (isize j = 0; j < v; j++) common[j] /= unit * (total + 1.0);
      if (!inverse_above(&form, common, least, u, precision)) return done(&b, scatter, 0);
    }
    /* The harmonic mean of the covariances, shrunk towards the common one. */
    memset(sum, 0, (size_t)v * sizeof(double));
    for (isize k = 0; k < r; k++) {
      double rows = unit * (counts[k] + n_prior), n_values = unit * counts[k];
      for (isize j = 0; j < v; j++)
        shrunk[j] = (scatter[k * v + j] / volumes[k] + unit * n_prior * common[j]) / rows;
      if (!inverse_above(&form, shrunk, least, u, precision)) return done(&b, scatter, 0);
      double weight = counts[k] / total * n_values / (n_values + n_joint + 1.0);
      for (isize j = 0; j < v; j++) sum[j] += weight * precision[j];
    }
    if (!inverse_above(&form, sum, 0.0, u, common)) return done(&b, scatter, 0);
    for (isize k = 0; k < r; k++)
      for (isize j = 0; j < v; j++) values_of(&b, 2)[(mixture * r + k) * v + j] = volumes[k] * common[j];
  }
  return done(&b, scatter, 1);
}

/* relative_scatter(stats (n, n_stats), covariances (n, m, m), matrices (n, m, m), log_dets (n), m):
   L^-1 scatter L^-t, whose eigenvalues are those of S^-1 scatter, and the log-determinants of S. */
PyObject *py_relative_scatter(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 4, 2, 1)) return NULL;
  isize m = matrix_size_of(args[4]), n = length_of(&b, 3), mm = m * m, n_stats = 1 + m + m * (m + 1) / 2;
  if (PyErr_Occurred() || m < 1 || length_of(&b, 0) != n * n_stats || length_of(&b, 1) != n * mm
    || length_of(&b, 2) != n * mm)
    return mismatch(&b);
  double *u = workspace(&b, 4 * mm);
  if (u == NULL) return NULL;
  double *inverse = u + mm, *scatter = u + 2 * mm, *half = u + 3 * mm;
  int is_positive = 1;
  for (isize i = 0; i < n && is_positive; i++) {
    is_positive = factorise(values_of(&b, 1) + i * mm, u, m) > 0.0;
    if (!is_positive) break;
    values_of(&b, 3)[i] = log_det(u, m);
    invert_factor(u, inverse, m);
    scatter_of(values_of(&b, 0) + i * n_stats, scatter, m);
    congruent(inverse, scatter, half, values_of(&b, 2) + i * mm, m);
  }
  return done(&b, u, is_positive);
}

/* Covariances that are shrunk towards a common one, and the evidence of how strongly. */

#include "calls.h"

/* common_covariance(stats (n_mixtures, n_components, n_stats), added (m, m), targets (.., m, m), m,
                     n_components, least, least_count, volume_rows, rounds)
   See `apolar.mixture.shrinkage.common_covariance`, which says what is computed. */
PyObject *py_common_covariance(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 3, 1, 6)) return NULL;
  isize m = matrix_size_of(args[3]), r = number_of(args[4]);
  double least = PyFloat_AsDouble(args[5]), least_count = PyFloat_AsDouble(args[6]);
  double volume_rows = PyFloat_AsDouble(args[7]);
  isize rounds = number_of(args[8]), mm = m * m, n_stats = 1 + m + m * (m + 1) / 2;
  if (PyErr_Occurred() || m < 1 || r < 1) return mismatch(&b);
  isize n = length_of(&b, 2) / (r * mm);
  if (length_of(&b, 2) != n * r * mm || length_of(&b, 0) != n * r * n_stats || length_of(&b, 1) != mm) return mismatch(&b);
  double *scatter = workspace(&b, r * mm + 6 * mm + 2 * r);
  if (scatter == NULL) return NULL;
  double *common = scatter + r * mm, *u = common + mm, *precision = u + 2 * mm, log_of_det;
  double *sum = precision + mm, *shrunk = sum + mm, *counts = shrunk + mm, *volumes = counts + r;
  const double *added = values_of(&b, 1);
  double n_prior = 0.5 * (m + 1) + 1.0;
  for (isize mixture = 0; mixture < n; mixture++) {
    double total = 0.0;
    for (isize k = 0; k < r; k++) {
      const double *stats = values_of(&b, 0) + (mixture * r + k) * n_stats;
      counts[k] = stats[0] > least_count ? stats[0] : least_count;
      total += counts[k];
      volumes[k] = 1.0;
      scatter_of(stats, scatter + k * mm, m);
    }
    for (isize round = 0; round <= rounds; round++) {
      if (round > 0) {
        /* The volumes, from the traces relative to the common covariance. */
        double mean = 0.0;
        for (isize k = 0; k < r; k++) {
          double ratio = dot(precision, scatter + k * mm, mm) / m;
          ratio = ratio > 0.0 ? ratio : 0.0;
          volumes[k] = log((ratio + volume_rows) / (counts[k] + volume_rows));
          mean += counts[k] * volumes[k];
        }
        for (isize k = 0; k < r; k++)
          volumes[k] = exp(volumes[k] - mean / total);
      }
      memcpy(common, added, (size_t)mm * sizeof(double));
      for (isize k = 0; k < r; k++) {
        double factor = 1.0 / volumes[k];
        for (isize j = 0; j < mm; j++)
          common[j] += factor * scatter[k * mm + j];
      }
      for (isize j = 0; j < mm; j++)
        common[j] /= total + 1.0;
      if (!(invert(common, u, precision, &log_of_det, m) > least)) return done(&b, scatter, 0);
    }
    /* The harmonic mean of the covariances, shrunk towards the common one. */
    memset(sum, 0, (size_t)mm * sizeof(double));
    for (isize k = 0; k < r; k++) {
      double factor = 1.0 / volumes[k], rows = counts[k] + n_prior;
      for (isize j = 0; j < mm; j++)
        shrunk[j] = (factor * scatter[k * mm + j] + n_prior * common[j]) / rows;
      if (!(invert(shrunk, u, precision, &log_of_det, m) > least)) return done(&b, scatter, 0);
      double weight = counts[k] / total * counts[k] / (counts[k] + m + 1.0);
      for (isize j = 0; j < mm; j++)
        sum[j] += weight * precision[j];
    }
    if (!(invert(sum, u, common, &log_of_det, m) > 0.0)) return done(&b, scatter, 0);
    for (isize k = 0; k < r; k++)
      for (isize j = 0; j < mm; j++)
        values_of(&b, 2)[(mixture * r + k) * mm + j] = volumes[k] * common[j];
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

/* log_marginals(counts (n), spectra (n, m), strengths (s), values (s, n), m): see `Full.log_marginal`. */
PyObject *py_log_marginals(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 4, 1, 1)) return NULL;
  isize m = matrix_size_of(args[4]), n = length_of(&b, 0), n_strengths = length_of(&b, 2);
  if (PyErr_Occurred() || m < 1 || length_of(&b, 1) != n * m || length_of(&b, 3) != n * n_strengths) return mismatch(&b);
  for (isize s = 0; s < n_strengths; s++) {
    double strength = values_of(&b, 2)[s], dof = strength + m + 1.0, log_strength = log(strength);
    double before = 0.0;
    for (isize j = 0; j < m; j++)
      before += lgamma(0.5 * (dof - j));
    for (isize i = 0; i < n; i++) {
      double n_values = values_of(&b, 0)[i] - 1.0, logs = 0.0, gammas = 0.0, product = 1.0;
      n_values = n_values > 0.0 ? n_values : 0.0;
      double after = dof + n_values;
      const double *spectrum = values_of(&b, 1) + i * m;
      for (isize j = 0; j < m; j++) {
        product *= strength + spectrum[j];
        if (product > 1e150 || product < 1e-150) {
          logs += log(product);
          product = 1.0;
        }
      }
      logs += log(product);
      /* lgamma(x - 1) = lgamma(x) - log(x - 1): two values of lgamma are enough for all steps of 1 / 2. */
      for (isize parity = 0; parity < 2 && parity < m; parity++) {
        double x = 0.5 * (after - parity), value = lgamma(x);
        gammas += value;
        for (isize j = parity + 2; j < m; j += 2) {
          x -= 1.0;
          value -= log(x);
          gammas += value;
        }
      }
      values_of(&b, 3)[s * n + i] = gammas - before + 0.5 * dof * m * log_strength - 0.5 * after * logs
        - 0.5 * n_values * m * 1.1447298858494001741;
    }
  }
  return done(&b, NULL, 1);
}

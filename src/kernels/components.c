/* The components of mixtures: inverses of covariances and natural parameters. */

#include "calls.h"

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

/* natural(weights (n), means (n, m), covariances (n / r, v), natural (n, n_stats), m, kind):
   natural parameters of components; r in succession share a covariance. */
PyObject *py_natural(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  Form form;
  if (!take(&b, args, n_args, 4, 1, 2)) return NULL;
  if (!is_form(args + 4, &form)) return mismatch(&b);
  isize m = form.m, n = length_of(&b, 0), n_covariances = length_of(&b, 2) / form.v;
  if (n < 1 || n_covariances < 1 || n % n_covariances || length_of(&b, 2) != n_covariances * form.v ||
      length_of(&b, 1) != n * m || length_of(&b, 3) != n * form.n_stats)
    return mismatch(&b);
  double *u = workspace(&b, 3 * form.v);
  if (u == NULL) return NULL;
  double *precision = u + 2 * form.v, log_of_det = 0.0;
  isize repeat = n / n_covariances;
  for (isize i = 0; i < n; i++) {
    const double *covariance = values_of(&b, 2) + i / repeat * form.v;
    if (i % repeat == 0 && !(invert_form(&form, covariance, u, precision, &log_of_det) > 0.0)) return done(&b, u, 0);
    write_natural(&form, precision, log_of_det, values_of(&b, 1) + i * m, values_of(&b, 0)[i],
                  values_of(&b, 3) + i * form.n_stats);
  }
  return done(&b, u, 1);
}

/* Write weight times log-determinant of a component; 0 if its covariance is below the floor. */
static int merging_term(const double *stats, double *work, isize m, double least, double *term) {
  double *covariance = work, *u = work + m * m, count = stats[0] > MIN_WEIGHT ? stats[0] : MIN_WEIGHT;
  scatter_of(stats, covariance, m);
  for (isize j = 0; j < m * m; j++) covariance[j] /= count;
  if (!(factorise(covariance, u, m) > least)) return 0;
  *term = count * log_det(u, m);
  return 1;
}

/* merging_terms(stats (n, n_stats), terms (n), m, least): weight times log-determinant of components. */
PyObject *py_merging_terms(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 2, 1, 2)) return NULL;
  isize m = matrix_size_of(args[2]), n = length_of(&b, 1), n_stats = 1 + m + m * (m + 1) / 2;
  double least = PyFloat_AsDouble(args[3]);
  if (PyErr_Occurred() || m < 1 || length_of(&b, 0) != n * n_stats) return mismatch(&b);
  double *work = workspace(&b, 2 * m * m);
  if (work == NULL) return NULL;
  int is_positive = 1;
  for (isize i = 0; i < n && is_positive; i++)
    is_positive = merging_term(values_of(&b, 0) + i * n_stats, work, m, least, values_of(&b, 1) + i);
  return done(&b, work, is_positive);
}

/* The M-step of any covariance family, for a batch of mixtures, as functions of Python. */

#include "calls.h"

int family_of(Buffers *b, PyObject *const *args, int frame, Sharing *sharing) {
  const char *code = PyUnicode_AsUTF8AndSize(args[0], NULL);
  isize m = number_of(args[1]), r = number_below(args[2], 1 << 20), size = length_of(b, frame);
  double least = PyFloat_AsDouble(args[3]);
  if (!PyErr_Occurred() && sharing_of(sharing, code, m, r) && sharing->form.kind == FULL) m = matrix_size_of(args[1]);
  if (PyErr_Occurred()) return 0;
  if (m < 1 || r < 1 || !sharing_of(sharing, code, m, r) || (size && size != m * m) || length_of(b, frame + 1) != size) {
    PyErr_SetString(PyExc_ValueError, "No such family, or the arrays have the wrong sizes.");
    return 0;
  }
  sharing->least = least;
  if (size) sharing->frame = values_of(b, frame), sharing->inverse_frame = values_of(b, frame + 1);
  return 1;
}

int are_prior_sums(Buffers *b, int i, isize n, const Sharing *sharing, PriorSums *prior) {
  isize n_covariances = n * sharing->n_covariances;
  if (!length_of(b, i)) return !length_of(b, i + 1);
  prior->scatter = values_of(b, i), prior->divisors = values_of(b, i + 1);
  return length_of(b, i) == n_covariances * sharing->form.v && length_of(b, i + 1) == n_covariances;
}

/* family_m_step(stats (n, r, n_stats), added (n, c, v) or none, divisors (n, c) or none, near (n, c, v) or none, frame (m, m)
   or none, its inverse, means (n, r, m), covariances (n, c, v), code, m, r, least, shrinkage, mean_divisor) */
PyObject *py_family_m_step(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  Sharing sharing;
  if (!take(&b, args, n_args, 8, 2, 6)) return NULL;
  if (!family_of(&b, args + 8, 4, &sharing)) return failed(&b);
  PriorSums prior = {.shrinkage = PyFloat_AsDouble(args[12]), .mean_divisor = PyFloat_AsDouble(args[13])};
  isize c = sharing.n_covariances, size = c * sharing.form.v, n_stats = sharing.n_components * sharing.form.n_stats;
  isize n_means = sharing.n_components * sharing.form.m, n = length_of(&b, 7) / size;
  if (PyErr_Occurred() || length_of(&b, 7) != n * size || length_of(&b, 0) != n * n_stats ||
      length_of(&b, 6) != n * n_means || (length_of(&b, 3) && length_of(&b, 3) != n * size) ||
      !are_prior_sums(&b, 1, n, &sharing, &prior))
    return mismatch(&b);
  double *work = workspace(&b, working_memory(&sharing));
  if (work == NULL) return NULL;
  int is_known = 1;
  for (isize i = 0; i < n && is_known; i++) {
    Near near = {.start = length_of(&b, 3) ? NEAR_COVARIANCES : COLD, .covariances = values_of(&b, 3) + i * size};
    is_known = m_step_of(&sharing, values_of(&b, 0) + i * n_stats, &prior, &near, values_of(&b, 6) + i * n_means,
                         values_of(&b, 7) + i * size, work) != NOT_POSITIVE;
    if (prior.scatter) prior.scatter += size, prior.divisors += c;
  }
  return done(&b, work, is_known);
}

/* Rows far from each other, as initial centres. */

#include "calls.h"

/* spread_rows(x (n, m), weights (n or 0), draws (k), seeds (k), labels (n), m): k-means++, with a uniform draw for
   each seed, and the first nearest seed of each row. Seeds and labels are of int64. */
PyObject *py_spread_rows(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 5, 2, 1)) return NULL;
  isize m = PyLong_AsSsize_t(args[5]), n = length_of(&b, 4), n_seeds = length_of(&b, 2);
  isize n_weights = length_of(&b, 1);
  if (PyErr_Occurred() || m < 1 || n < 1 || length_of(&b, 0) != n * m || length_of(&b, 3) != n_seeds ||
      (n_weights && n_weights != n))
    return mismatch(&b);
  double *work = workspace(&b, 3 * n);
  if (work == NULL) return NULL;
  const double *x = values_of(&b, 0), *weights = n_weights ? values_of(&b, 1) : NULL;
  int64_t *seeds = b.views[3].buf, *labels = b.views[4].buf;
  double *squares = work, *nearest = work + n, *cumulated = work + 2 * n;
  for (isize i = 0; i < n; i++) {
    squares[i] = dot(x + i * m, x + i * m, m);
    nearest[i] = INFINITY;
    labels[i] = 0;
  }
  for (isize k = 0; k < n_seeds; k++) {
    double sum = 0.0;
    for (isize i = 0; i < n; i++) {
      double weight = weights ? weights[i] : 1.0;
      sum += k ? nearest[i] * weight : weight;
      cumulated[i] = sum;
    }
    if (!(sum > 0.0)) {
      /* All distinct rows are seeds already: further seeds repeat any of them. */
      for (isize i = 0; i < n; i++) cumulated[i] = (double)(i + 1);
      sum = (double)n;
    }
    /* The first row whose cumulated probability exceeds the draw. */
    double draw = values_of(&b, 2)[k] * sum;
    isize low = 0, high = n;
    while (low < high) {
      isize middle = low + (high - low) / 2;
      if (cumulated[middle] > draw)
        high = middle;
      else
        low = middle + 1;
    }
    isize chosen = low < n ? low : n - 1;
    const double *centre = x + chosen * m;
    seeds[k] = chosen;
    for (isize i = 0; i < n; i++) {
      double distance = squares[i] - 2.0 * dot(x + i * m, centre, m) + squares[chosen];
      distance = distance > 0.0 ? distance : 0.0;
      if (distance < nearest[i]) {
        nearest[i] = distance;
        labels[i] = k;
      }
    }
    if (nearest[chosen] > 0.0) labels[chosen] = k;
    nearest[chosen] = 0.0;
  }
  return done(&b, work, 1);
}

/* The statistics of rows by their labels. */

#include "calls.h"

static void add_by_label(const double *restrict x, const double *restrict weights, const int64_t *restrict labels,
                         double *restrict stats, double *restrict z, isize n, isize m, isize n_quadratics) {
  for (isize i = 0; i < n; i++) {
    double weight = weights ? weights[i] : 1.0, *restrict out = stats + labels[i] * (1 + m + n_quadratics);
    out[0] += weight;
    for (isize j = 0; j < m; j++) z[j] = x[j * n + i];
    for (isize j = 0; j < m; j++) out[1 + j] += weight * z[j];
    out += 1 + m;
    for (isize j = 0; j < m; j++) {
      double factor = weight * z[j];
      if (n_quadratics == m * (m + 1) / 2) {
        for (isize k = j; k < m; k++) out[k - j] += factor * z[k];
        out += m - j;
      } else {
        out[n_quadratics == m ? j : 0] += factor * z[j];
      }
    }
  }
}

/* label_stats(x (m, n), weights (n or 0), labels (n), stats (k, n_stats), m, n_quadratics): the sums, over the rows of
   each label, of 1, x, and all products of two columns, the squares of the columns, or the sum of these. */
PyObject *py_label_stats(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 4, 1, 2)) return NULL;
  isize m = number_of(args[4]), n_quadratics = number_of(args[5]), n = length_of(&b, 2);
  isize n_stats = 1 + m + n_quadratics, n_weights = length_of(&b, 1);
  int is_full = n_quadratics == m * (m + 1) / 2;
  if (PyErr_Occurred() || m < 1 || (!is_full && n_quadratics != m && n_quadratics != 1) || length_of(&b, 0) != n * m ||
      (n_weights && n_weights != n) || length_of(&b, 3) % n_stats)
    return mismatch(&b);
  isize n_labels = length_of(&b, 3) / n_stats;
  const int64_t *labels = b.views[2].buf;
  for (isize i = 0; i < n; i++)
    if (labels[i] < 0 || labels[i] >= n_labels) return mismatch(&b);
  double *z = workspace(&b, m);
  if (z == NULL) return NULL;
  memset(values_of(&b, 3), 0, (size_t)b.views[3].len);
  add_by_label(values_of(&b, 0), n_weights ? values_of(&b, 1) : NULL, labels, values_of(&b, 3), z, n, m, n_quadratics);
  return done(&b, z, 1);
}

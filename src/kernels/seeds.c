/* Rows far from each other, as initial centres, and the statistics of rows by their labels. */

#include "calls.h"

/* Write the inner products of the columns of x, shape (m, n), with themselves or with one column. */
INLINE void add_products(const double *x, const double *column, int is_own, double *restrict products, isize n,
                         isize m) {
  memset(products, 0, (size_t)n * sizeof(double));
  for (isize j = 0; j < m; j++) {
    const double *line = x + j * n;
    double factor = column[j * n];
    for (isize i = 0; i < n; i++) products[i] += (is_own ? line[i] : factor) * line[i];
  }
}

/* spread_rows(x (m, n), weights (n or 0), draws (k), seeds (k), labels (n), m): k-means++, with a uniform draw for
   each seed, and the first nearest seed of each row. Seeds and labels are of int64. */
PyObject *py_spread_rows(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 5, 2, 1)) return NULL;
  isize m = number_of(args[5]), n = length_of(&b, 4), n_seeds = length_of(&b, 2);
  isize n_weights = length_of(&b, 1);
  if (PyErr_Occurred() || m < 1 || n < 1 || length_of(&b, 0) != n * m || length_of(&b, 3) != n_seeds ||
      (n_weights && n_weights != n))
    return mismatch(&b);
  double *work = workspace(&b, 3 * n);
  if (work == NULL) return NULL;
  const double *x = values_of(&b, 0), *weights = n_weights ? values_of(&b, 1) : NULL;
  int64_t *seeds = b.views[3].buf, *labels = b.views[4].buf;
  double *squares = work, *nearest = work + n, *cumulated = work + 2 * n;
  add_products(x, x, 1, squares, n, m);
  for (isize i = 0; i < n; i++) {
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
    seeds[k] = chosen;
    add_products(x, x + chosen, 0, cumulated, n, m);
    for (isize i = 0; i < n; i++) {
      double distance = squares[i] - 2.0 * cumulated[i] + squares[chosen];
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

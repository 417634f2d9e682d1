/* Functions of Python that compare mixtures on some rows: see comparisons.h for what is computed. */

#include "calls.h"

/* The rows of a comparison, from the buffers of these numbers; 0 if the arrays do not fit together. */
static int are_rows(Buffers *b, int row_stats, int weights, isize n_stats, ComparedRows *rows) {
  if (n_stats < 1 || length_of(b, row_stats) % n_stats) return 0;
  rows->n_stats = n_stats;
  rows->n_rows = length_of(b, row_stats) / n_stats;
  rows->row_stats = values_of(b, row_stats);
  rows->weights = length_of(b, weights) ? values_of(b, weights) : NULL;
  return rows->n_rows % ROWS_TOGETHER == 0 && (!rows->weights || length_of(b, weights) == rows->n_rows);
}

/* merge_costs(row_stats (n_stats, n), weights (n or 0), natural (p, n_stats), first (p), second (p), largest (n),
   total (n), parts (r, n), sums (p), n_stats) */
PyObject *py_merge_costs(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 9, 1, 1)) return NULL;
  ComparedRows rows;
  isize n_stats = number_of(args[9]), n = length_of(&b, 8);
  if (PyErr_Occurred() || !are_rows(&b, 0, 1, n_stats, &rows)) return mismatch(&b);
  isize n_parts = rows.n_rows ? length_of(&b, 7) / rows.n_rows : 0;
  if (length_of(&b, 2) != n * n_stats || length_of(&b, 3) != n || length_of(&b, 4) != n ||
      length_of(&b, 5) != rows.n_rows || length_of(&b, 6) != rows.n_rows || length_of(&b, 7) != n_parts * rows.n_rows)
    return mismatch(&b);
  Mergers mergers = {values_of(&b, 2), n, b.views[3].buf, b.views[4].buf,
                     values_of(&b, 5), values_of(&b, 6), values_of(&b, 7)};
  for (isize i = 0; i < n; i++)
    if (mergers.first[i] < 0 || mergers.first[i] >= n_parts || mergers.second[i] < 0 || mergers.second[i] >= n_parts)
      return mismatch(&b);
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = kernels_in_use()->merge_costs(&rows, &mergers, values_of(&b, 8));
  Py_END_ALLOW_THREADS;
  return finished(&b, status);
}

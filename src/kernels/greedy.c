/* Components that are merged in pairs, at each step the pair that costs least, until as many remain as asked for.

   The statistics of a merger are the sums of those of its components, and replace those of the first. */

#include "calls.h"

/* The pair of least cost, in a matrix of costs of which the entries of first < second are finite. */
static void cheapest(const double *costs, isize n, isize *first, isize *second) {
  isize best = 0;
  for (isize i = 1; i < n * n; i++)
    if (costs[i] < costs[best]) best = i;
  *first = best / n;
  *second = best % n;
}

/* Add the second component to the first, which is then merged with none. */
static void add_component(double *stats, double *costs, isize n, isize n_stats, isize first, isize second) {
  for (isize s = 0; s < n_stats; s++) stats[first * n_stats + s] += stats[second * n_stats + s];
  for (isize i = 0; i < n; i++) costs[second * n + i] = costs[i * n + second] = INFINITY;
}

/* Write the statistics and the covariance of a sum of components, and return its weight. */
static double add_up(const double *one, const double *other, double *sum, double *covariance, isize m) {
  for (isize s = 0; s < 1 + m + m * (m + 1) / 2; s++) sum[s] = one[s] + (other ? other[s] : 0.0);
  double count = sum[0] > MIN_WEIGHT ? sum[0] : MIN_WEIGHT;
  scatter_of(sum, covariance, m);
  for (isize j = 0; j < m * m; j++) covariance[j] /= count;
  return count;
}

/* Write weight times log-determinant of a sum of components; 0 if its covariance is below the floor. */
static int merging_term(const double *one, const double *other, double *work, isize m, double least, double *term) {
  double *covariance = work, *u = work + m * m, count = add_up(one, other, u + m * m, covariance, m);
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
  double *work = workspace(&b, 2 * m * m + n_stats);
  if (work == NULL) return NULL;
  int is_positive = 1;
  for (isize i = 0; i < n && is_positive; i++)
    is_positive = merging_term(values_of(&b, 0) + i * n_stats, NULL, work, m, least, values_of(&b, 1) + i);
  return done(&b, work, is_positive);
}

/* merge_by_terms(stats (n, n_stats), is_active (n), m, n_components, least): by weights and log-determinants, as
   `greedily_merged_stats` does. Changes the statistics, and says which components are left. */
PyObject *py_merge_by_terms(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 2, 2, 3)) return NULL;
  isize m = matrix_size_of(args[2]), n_components = number_of(args[3]), n = length_of(&b, 1);
  isize n_stats = 1 + m + m * (m + 1) / 2;
  double least = PyFloat_AsDouble(args[4]);
  if (PyErr_Occurred() || m < 1 || n_components < 1 || length_of(&b, 0) != n * n_stats) return mismatch(&b);
  double *work = workspace(&b, 2 * m * m + n_stats + n + n * n);
  if (work == NULL) return NULL;
  double *stats = values_of(&b, 0), *is_active = values_of(&b, 1);
  double *terms = work + 2 * m * m + n_stats, *costs = terms + n, term;
  for (isize i = 0; i < n; i++) {
    is_active[i] = 1.0;
    if (!merging_term(stats + i * n_stats, NULL, work, m, least, terms + i)) return done(&b, work, 0);
  }
  for (isize i = 0; i < n; i++)
    for (isize j = 0; j < n; j++) {
      costs[i * n + j] = INFINITY;
      if (j <= i) continue;
      if (!merging_term(stats + i * n_stats, stats + j * n_stats, work, m, least, &term)) return done(&b, work, 0);
      costs[i * n + j] = term - terms[i] - terms[j];
    }
  for (isize n_left = n; n_left > n_components; n_left--) {
    isize first, second;
    cheapest(costs, n, &first, &second);
    add_component(stats, costs, n, n_stats, first, second);
    is_active[second] = 0.0;
    if (n_left - 1 == n_components) break;
    if (!merging_term(stats + first * n_stats, NULL, work, m, least, terms + first)) return done(&b, work, 0);
    for (isize i = 0; i < n; i++) {
      if (!is_active[i] || i == first) continue;
      if (!merging_term(stats + first * n_stats, stats + i * n_stats, work, m, least, &term)) return done(&b, work, 0);
      costs[i < first ? i * n + first : first * n + i] = term - terms[first] - terms[i];
    }
  }
  return done(&b, work, 1);
}

/* Write the natural parameters of a sum of components in rows of a total weight; 0 if below the floor. */
static int natural_of_sum(const double *one, const double *other, double *work, isize m, double least, double weight,
                          double *natural) {
  Form form = form_of(FULL, m);
  double *covariance = work, *precision = work + m * m, *u = precision + m * m, *sum = u + 2 * m * m;
  double *mean = sum + form.n_stats, log_of_det, count = add_up(one, other, sum, covariance, m);
  for (isize j = 0; j < m; j++) mean[j] = sum[1 + j] / count;
  if (!(invert(covariance, u, precision, &log_of_det, m) > least)) return 0;
  write_natural(&form, precision, log_of_det, mean, sum[0] / weight, natural);
  return 1;
}

/* The density of a merger replaces that of the first component at each row, and the second is left out: write the sums
   of the densities of the components that are left, and return the sum of their logarithms. */
static double merge_densities(const ComparedRows *rows, const double *natural, const double *largest, double *total,
                              double *parts, const double *is_active, isize n, isize n_compared, isize first) {
  kernels_in_use()->density(rows, natural, largest, parts + first * rows->n_rows);
  memset(total, 0, (size_t)n_compared * sizeof(double));
  for (isize i = 0; i < n; i++) {
    const double *part = parts + i * rows->n_rows;
    for (isize r = 0; r < n_compared && is_active[i]; r++) total[r] += part[r];
  }
  double sum = 0.0, product = 1.0;
  for (isize r = 0; r < n_compared; r++) {
    double value = total[r] > MIN_RATIO ? total[r] : MIN_RATIO;
    if (rows->weights) {
      sum += rows->weights[r] * log(value);
    } else {
      product *= value;
      if (r % 4 == 3) {
        sum += log(product);
        product = 1.0;
      }
    }
  }
  return sum + log(product);
}

/* merge_by_costs(row_stats (n_stats, n_rows), weights (n_rows or 0), largest (n_rows), stats (n, n_stats),
   costs (n, n), total (n_rows), parts (n, n_rows), is_active (n), m, n_components, n_compared, weight, scale, least):
   by the log-likelihood that is lost on some rows, as `MergeCosts.merged_stats` does. */
PyObject *py_merge_by_costs(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 8, 5, 6)) return NULL;
  isize m = matrix_size_of(args[8]), n_components = number_of(args[9]), n = length_of(&b, 7);
  isize n_compared = number_of(args[10]), n_stats = 1 + m + m * (m + 1) / 2;
  double weight = PyFloat_AsDouble(args[11]), scale = PyFloat_AsDouble(args[12]), least = PyFloat_AsDouble(args[13]);
  ComparedRows rows;
  if (PyErr_Occurred() || m < 1 || n_components < 1 || !are_rows(&b, 0, 1, n_stats, &rows) || length_of(&b, 2) != rows.n_rows ||
      length_of(&b, 3) != n * n_stats || length_of(&b, 4) != n * n || length_of(&b, 5) != rows.n_rows ||
      length_of(&b, 6) != n * rows.n_rows || n_compared < 0 || n_compared > rows.n_rows)
    return mismatch(&b);
  double *work = workspace(&b, 4 * m * m + n_stats + m + n * n_stats + n + 2 * n);
  if (work == NULL) return NULL;
  double *natural = work + 4 * m * m + n_stats + m, *sums = natural + n * n_stats;
  int64_t *firsts = (int64_t *)(sums + n), *seconds = firsts + n;
  const double *largest = values_of(&b, 2);
  double *stats = values_of(&b, 3), *costs = values_of(&b, 4), *total = values_of(&b, 5), *parts = values_of(&b, 6);
  double *is_active = values_of(&b, 7);
  for (isize i = 0; i < n; i++) is_active[i] = 1.0;
  for (isize n_left = n; n_left > n_components; n_left--) {
    isize first, second, n_pairs = 0;
    cheapest(costs, n, &first, &second);
    add_component(stats, costs, n, n_stats, first, second);
    is_active[second] = 0.0;
    if (n_left - 1 == n_components) break;
    const double *merged = stats + first * n_stats;
    if (!natural_of_sum(merged, NULL, work, m, least, weight, natural)) return done(&b, work, 0);
    double before = merge_densities(&rows, natural, largest, total, parts, is_active, n, n_compared, first);
    for (isize i = 0; i < n; i++) {
      if (!is_active[i] || i == first) continue;
      if (!natural_of_sum(merged, stats + i * n_stats, work, m, least, weight, natural + n_pairs * n_stats))
        return done(&b, work, 0);
      firsts[n_pairs] = i < first ? i : first;
      seconds[n_pairs++] = i < first ? first : i;
    }
    Mergers mergers = {natural, n_pairs, firsts, seconds, largest, total, parts};
    if (kernels_in_use()->merge_costs(&rows, &mergers, sums)) {
      done(&b, work, 0);
      return PyErr_NoMemory();
    }
    for (isize i = 0; i < n_pairs; i++) costs[firsts[i] * n + seconds[i]] = scale * (before - sums[i]);
  }
  return done(&b, work, 1);
}

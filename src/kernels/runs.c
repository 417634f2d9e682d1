/* A whole run of EM for one mixture, without Python between its steps. */

#include "calls.h"

enum { OUT_OF_STEPS, CONVERGED, COLLAPSED, OUT_OF_MEMORY };

typedef struct {
  double *weights, *means, *covariances;
} Components;

typedef struct {
  Sharing sharing;
  PriorSums prior;
  Rows rows;
  Mixtures mixtures;
  Parts parts;
  isize n_steps;
  double relative_tol;
} Run;

/* Write the natural parameters of the components, and the logarithm of the prior; 0 if a covariance is not positive
   definite, or a number not finite. */
static int write_naturals(const Run *run, const Components *now, double *natural, double *log_prior, double *work) {
  const Sharing *of = &run->sharing;
  const Form *form = &of->form;
  const PriorSums *prior = &run->prior;
  isize m = form->m, v = form->v, r = of->n_components;
  double *precision = work + 2 * v, log_of_det = 0.0;
  *log_prior = 0.0;
  for (isize k = 0; k < r; k++) {
    const double *mean = now->means + k * m, *added = NULL;
    double divisor = prior->mean_divisor;
    int is_first = k == 0 || !of->is_tied;
    if (is_first && !(invert_form(form, now->covariances + k * v, work, precision, &log_of_det) > 0.0)) return 0;
    write_natural(form, precision, log_of_det, mean, now->weights[k], natural + k * form->n_stats);
    if (!prior->scatter) continue;
    if (is_first) {
      added = prior->scatter + k * v;
      divisor += prior->divisors[k];
    }
    *log_prior += log_prior_of(form, precision, log_of_det, mean, added, divisor, prior->shrinkage);
  }
  /* Of the weights relative to their mean. */
  for (isize k = 0; prior->rows != 0.0 && k < r; k++)
    *log_prior += prior->rows * log((double)r * (now->weights[k] < MIN_WEIGHT ? MIN_WEIGHT : now->weights[k]));
  for (isize i = 0; i < r * form->n_stats; i++)
    if (!(fabs(natural[i]) < INFINITY)) return 0;
  return 1;
}

/* One pass over the rows: the sums of all parts, added in their order, are in the first part. */
static int e_step(Run *run, double *stats, double *log_likelihood) {
  isize n = run->sharing.n_components * run->sharing.form.n_stats;
  int64_t counter = 0;
  memset(stats, 0, (size_t)(run->parts.n_parts * n) * sizeof(double));
  memset(log_likelihood, 0, (size_t)run->parts.n_parts * sizeof(double));
  run->parts.counter = &counter;
  if (kernels_in_use()->e_step(&run->rows, &run->mixtures, &run->parts, stats, log_likelihood)) return 0;
  for (int64_t part = 1; part < run->parts.n_parts; part++) {
    for (isize i = 0; i < n; i++) stats[i] += stats[part * n + i];
    log_likelihood[0] += log_likelihood[part];
  }
  return 1;
}

/* Write the weights of the components; 0 if one is empty. */
static int write_weights(const Run *run, const double *stats, double *weights) {
  isize r = run->sharing.n_components;
  double total = 0.0;
  for (isize k = 0; k < r; k++) {
    double count = stats[k * run->sharing.form.n_stats];
    weights[k] = (count < MIN_WEIGHT ? MIN_WEIGHT : count) + run->prior.rows;
    total += weights[k];
  }
  int is_none_empty = 1;
  for (isize k = 0; k < r; k++) {
    weights[k] /= total;
    is_none_empty &= weights[k] > MIN_PART;
  }
  return is_none_empty;
}

static void copy_components(const Sharing *of, const Components *from, Components *to) {
  memcpy(to->weights, from->weights, (size_t)of->n_components * sizeof(double));
  memcpy(to->means, from->means, (size_t)(of->n_components * of->form.m) * sizeof(double));
  memcpy(to->covariances, from->covariances, (size_t)(of->n_covariances * of->form.v) * sizeof(double));
}

/* Run EM from `best`, which is written to: the components of the last pass, its sums and its objective. */
static int run_em(Run *run, Components *best, double *stats_of_best, double *results) {
  const Sharing *of = &run->sharing;
  isize m = of->form.m, r = of->n_components, size = of->n_covariances * of->form.v, n = r * of->form.n_stats;
  isize n_parts = (isize)run->parts.n_parts;
  isize n_all = r + r * m + size + n + n_parts * (n + 1) + 2 * m + 4 * of->form.v + working_memory(of);
  double *memory = malloc((size_t)n_all * sizeof(double));
  if (memory == NULL) return OUT_OF_MEMORY;
  Components now = {.weights = memory, .means = memory + r, .covariances = memory + r + r * m};
  double *natural = now.covariances + size, *stats = natural + n, *log_likelihood = stats + n_parts * n;
  double *centre = log_likelihood + n_parts, *scale = centre + m, *axes = scale + m, *work = axes + of->form.v;
  for (isize j = 0; j < m; j++) centre[j] = 0.0, scale[j] = 1.0;
  run->rows.centre = centre, run->rows.scale = scale, run->mixtures.natural = natural;
  copy_components(of, best, &now);
  Near near = {.start = NEAR_COVARIANCES, .covariances = best->covariances, .axes = axes};
  double before = -INFINITY, log_prior = 0.0;
  int status = OUT_OF_STEPS;
  for (isize step = 0; step < run->n_steps; step++) {
    status = COLLAPSED;
    if (!write_naturals(run, &now, natural, &log_prior, work)) break;
    if (!e_step(run, stats, log_likelihood)) {
      status = OUT_OF_MEMORY;
      break;
    }
    double value = log_likelihood[0] + log_prior;
    if (!(fabs(value) < INFINITY)) break;
    /* The first step may bring a start to the family; later ones do not fall, unless rounding decides. */
    if (step > 1 && value < before - MAX_FALL * (1.0 + fabs(value))) break;
    copy_components(of, &now, best);
    memcpy(stats_of_best, stats, (size_t)n * sizeof(double));
    results[0] = log_likelihood[0], results[1] = value, results[2] = (double)(step + 1), results[3] = value - before;
    status = CONVERGED;
    if (fabs(value - before) <= run->relative_tol * (1.0 + fabs(value))) break;
    before = value;
    status = write_weights(run, stats, now.weights) ? OUT_OF_STEPS : COLLAPSED;
    if (status == COLLAPSED || step + 1 == run->n_steps) break;
    if (m_step_of(of, stats, &run->prior, &near, now.means, now.covariances, work) != ABOVE_FLOOR) {
      status = COLLAPSED;
      break;
    }
    near.start = NEAR_AXES;
  }
  free(memory);
  return status;
}

/* plain_run(columns (m, n), row weights (n) or none, added (c, v) or none, divisors (c) or none, frame (m, m) or none, its
   inverse, weights (r), means (r, m), covariances (c, v), stats (r, n_stats), results (4), code, m, r, least,
   shrinkage, mean_divisor, rows, part_rows, n_steps, relative_tol): see `apolar.em.run`. The components are
   those of the start, and are written to; the results are log-likelihood, objective, number of passes and the gain of
   the last one. */
PyObject *py_plain_run(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  Run run;
  memset(&run, 0, sizeof run);
  if (!take(&b, args, n_args, 11, 5, 10)) return NULL;
  if (!family_of(&b, args + 11, 4, &run.sharing)) return failed(&b);
  const Sharing *of = &run.sharing;
  run.prior.shrinkage = PyFloat_AsDouble(args[15]);
  run.prior.mean_divisor = PyFloat_AsDouble(args[16]);
  run.prior.rows = PyFloat_AsDouble(args[17]);
  isize part_rows = number_of(args[18]);
  run.n_steps = number_of(args[19]);
  run.relative_tol = PyFloat_AsDouble(args[20]);
  isize m = of->form.m, r = of->n_components, c = of->n_covariances, n_rows = length_of(&b, 0) / m;
  if (PyErr_Occurred() || n_rows < 1 || length_of(&b, 0) != n_rows * m || part_rows < 1 || run.n_steps < 1 ||
      (length_of(&b, 1) && length_of(&b, 1) != n_rows) || !are_prior_sums(&b, 2, 1, of, &run.prior) ||
      length_of(&b, 6) != r || length_of(&b, 7) != r * m ||
      length_of(&b, 8) != c * of->form.v || length_of(&b, 9) != r * of->form.n_stats || length_of(&b, 10) != 4)
    return mismatch(&b);
  isize item = (isize)sizeof(double);
  run.rows = (Rows){.values = (const char *)values_of(&b, 0), .n_rows = n_rows, .n_columns = (int)m,
                    .row_stride = item, .column_stride = n_rows * item, .n_outputs = (int)m};
  if (length_of(&b, 1)) run.rows.weights = (const char *)values_of(&b, 1), run.rows.weight_stride = item;
  run.mixtures = (Mixtures){.kind = of->form.kind, .source = SOFT, .n_mixtures = 1, .n_components = (int)r,
                            .n_stats = (int)of->form.n_stats};
  run.parts.part_rows = part_rows < n_rows ? part_rows : n_rows;
  run.parts.n_parts = (n_rows - 1) / part_rows + 1;
  Components best = {.weights = values_of(&b, 6), .means = values_of(&b, 7), .covariances = values_of(&b, 8)};
  double *stats = values_of(&b, 9), *results = values_of(&b, 10);
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = run_em(&run, &best, stats, results);
  Py_END_ALLOW_THREADS;
  release(&b);
  return status == OUT_OF_MEMORY ? PyErr_NoMemory() : PyLong_FromLong(status);
}

/* Densities of rows under mixtures that are fitted without them: see `apolar.em.left_out`, which says what is computed. */

#include <math.h>

#include "calls.h"

/* Components whose share of a row is below exp(this) do not change its density. */
#define MIN_LOG_SHARE -18.0

typedef struct {
  const double *logits, *peaks, *coefficients; /* of one mixture: (l, n), (r), (r, 6) */
  isize n_rows, n_logits, n_components;
} Mixture;

/* The logarithm of the sum of the exponentials of the logits of a row, without that of one component. */
static double log_sum(const Mixture *of, isize row, isize skipped) {
  double largest = -INFINITY, sum = 0.0;
  for (isize k = 0; k < of->n_logits; k++) {
    double logit = of->logits[k * of->n_rows + row];
    if (k != skipped && logit > largest) largest = logit;
  }
  if (largest == -INFINITY) return largest;
  for (isize k = 0; k < of->n_logits; k++) {
    double below = of->logits[k * of->n_rows + row] - largest;
    if (k != skipped && below > 2 * MIN_LOG_SHARE) sum += exp(below);
  }
  return largest + log(sum);
}

/* What a distance loses by a row that is left out: see `LeftOut._deletion`. */
static double loss(double slope, double pull, double pieces, double distance) {
  double ratio = 1.0 - slope * distance;
  if (!(ratio > MIN_LEFT)) ratio = MIN_LEFT;
  return 0.5 * (pieces * log(ratio) + distance * (pull / ratio - 1.0));
}

static double change_of(const Mixture *of, isize row, double density) {
  double change = 0.0;
  for (isize k = 0; k < of->n_components; k++) {
    double logit = of->logits[k * of->n_rows + row], log_share = logit - density;
    if (!(log_share > MIN_LOG_SHARE)) continue;
    const double *constants = of->coefficients + 6 * k;
    double distance = 2.0 * (of->peaks[k] - logit), share = exp(log_share), pieces = constants[3];
    if (!(distance > 0.0)) distance = 0.0;
    double gain = constants[0] - loss(constants[1], constants[2], pieces, distance);
    if (gain < -share) {
      double least = log_sum(of, row, k) - density;
      if (share > 0.5) least -= loss(constants[4], 1.0, pieces, constants[5] * distance);
      if (gain < least) gain = least;
    }
    change += share * gain;
  }
  return change;
}

/* left_out(logits (n_mixtures, l, n), peaks (n_mixtures, r), coefficients (n_mixtures, r, 6), without (n_mixtures, n),
   seen (n_mixtures, n), r, l): the coefficients are those of `LeftOut._deletion`. */
PyObject *py_left_out(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 5, 2, 2)) return NULL;
  Mixture of = {.n_components = number_of(args[5]), .n_logits = number_of(args[6])};
  isize r = of.n_components, l = of.n_logits;
  if (PyErr_Occurred() || r < 1 || l < r || length_of(&b, 1) % r) return mismatch(&b);
  isize n_mixtures = length_of(&b, 1) / r, n = n_mixtures ? length_of(&b, 3) / n_mixtures : 0;
  if (length_of(&b, 0) != n_mixtures * l * n || length_of(&b, 2) != 6 * n_mixtures * r ||
      length_of(&b, 3) != n_mixtures * n || length_of(&b, 4) != n_mixtures * n)
    return mismatch(&b);
  of.n_rows = n;
  for (isize i = 0; i < n_mixtures; i++) {
    of.logits = values_of(&b, 0) + i * l * n;
    of.peaks = values_of(&b, 1) + i * r;
    of.coefficients = values_of(&b, 2) + i * 6 * r;
    for (isize row = 0; row < n; row++) {
      double density = log_sum(&of, row, -1);
      values_of(&b, 4)[i * n + row] = density;
      values_of(&b, 3)[i * n + row] = density + change_of(&of, row, density);
    }
  }
  return done(&b, NULL, 1);
}

/* Inverses of covariances, with a copy of the loops for each small number of columns, which compilers unroll. */

#include "matrices.h"

INLINE double inverted(const double *covariance, double *work, double *inverse, double *log_of_det, isize m) {
  double least = factorise(covariance, work, m);
  if (!(least > 0.0)) return least;
  *log_of_det = log_det(work, m);
  invert_factor(work, work + m * m, m);
  precision_of(work + m * m, inverse, m);
  return least;
}

double invert(const double *covariance, double *work, double *inverse, double *log_of_det, isize m) {
  switch (m) {
#define CASE(n) \
  case n: return inverted(covariance, work, inverse, log_of_det, n);
    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
#undef CASE
    default: return inverted(covariance, work, inverse, log_of_det, m);
  }
}

double invert_form(const Form *form, const double *covariance, double *work, double *inverse, double *log_of_det) {
  if (form->kind == FULL) return invert(covariance, work, inverse, log_of_det, form->m);
  double least = INFINITY, sum = 0.0;
  for (isize j = 0; j < form->v; j++) {
    if (!(covariance[j] > 0.0)) return -1.0;
    least = covariance[j] < least ? covariance[j] : least;
    inverse[j] = 1.0 / covariance[j];
    sum += log(covariance[j]);
  }
  *log_of_det = sum;
  return least;
}

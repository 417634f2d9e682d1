/* Small covariances S = L L^t, one at a time: factors, inverses, determinants, scatters.

   A factor is stored as U = L^t, by rows: the inner loops then run along rows, and compilers vectorise them. */

#ifndef APOLAR_MATRICES_H
#define APOLAR_MATRICES_H

#include "kernels.h"

#define LOG_2PI 1.8378770664093454836

typedef ptrdiff_t isize;

/* How covariances are stored: as matrices, as diagonals, or as one number for all columns. */
typedef struct {
  int kind; /* SPHERICAL, DIAGONAL or FULL */
  isize m, v; /* the columns, and the numbers of a covariance */
  isize n_quadratics, n_stats; /* of a component; there are as many tangents as quadratics */
  double unit; /* the divisor of the scatter of one row */
} Form;

INLINE Form form_of(int kind, isize m) {
  Form form = {.kind = kind, .m = m, .v = kind == FULL ? m * m : kind == DIAGONAL ? m : 1};
  form.n_quadratics = kind == FULL ? m * (m + 1) / 2 : form.v;
  form.n_stats = 1 + m + form.n_quadratics;
  form.unit = kind == SPHERICAL ? (double)m : 1.0;
  return form;
}

/* Write U, with a = U^t U, and return the least squared pivot: a is positive definite if that is positive.
   Only the lower triangle of a is read. */
INLINE double factorise(const double *restrict a, double *restrict u, isize m) {
  double least = INFINITY;
  for (isize i = 0; i < m; i++)
    for (isize j = i; j < m; j++)
      u[i * m + j] = a[j * m + i];
  for (isize k = 0; k < m; k++) {
    double *row = u + k * m;
    double pivot = row[k];
    if (!(pivot > 0.0)) return -1.0;
    least = pivot < least ? pivot : least;
    double root = sqrt(pivot), inverse = 1.0 / root;
    row[k] = root;
    for (isize j = k + 1; j < m; j++)
      row[j] *= inverse;
    for (isize i = k + 1; i < m; i++) {
      double factor = row[i];
      double *restrict other = u + i * m;
      for (isize j = i; j < m; j++)
        other[j] -= factor * row[j];
    }
  }
  /* An infinite or undefined entry below the last pivot has spoilt one of the pivots. */
  return least;
}

/* One logarithm of a product instead of many; no product overflows or underflows. */
INLINE double log_det(const double *u, isize m) {
  double sum = 0.0, product = 1.0;
  for (isize i = 0; i < m; i++) {
    product *= u[i * m + i];
    if (!(product < 1e150 && product > 1e-150)) {
      sum += log(product);
      product = 1.0;
    }
  }
  return 2.0 * (sum + log(product));
}

/* Write the inverse of L = U^t, lower triangular; entries above the diagonal are not written. */
INLINE void invert_factor(const double *restrict u, double *restrict inverse, isize m) {
  for (isize i = 0; i < m; i++) {
    double *restrict row = inverse + i * m;
    double scale = 1.0 / u[i * m + i];
    for (isize j = 0; j < i; j++)
      row[j] = 0.0;
    for (isize k = 0; k < i; k++) {
      double factor = -scale * u[k * m + i];
      const double *restrict other = inverse + k * m;
      for (isize j = 0; j <= k; j++)
        row[j] += factor * other[j];
    }
    row[i] = scale;
  }
}

/* Write (L L^t)^-1, both triangles, from the inverse of L. */
INLINE void precision_of(const double *restrict inverse, double *restrict precision, isize m) {
  for (isize i = 0; i < m; i++) {
    double *restrict row = precision + i * m;
    for (isize j = 0; j <= i; j++)
      row[j] = 0.0;
    for (isize k = i; k < m; k++) {
      double factor = inverse[k * m + i];
      const double *restrict other = inverse + k * m;
      for (isize j = 0; j <= i; j++)
        row[j] += factor * other[j];
    }
  }
  for (isize i = 0; i < m; i++)
    for (isize j = i + 1; j < m; j++)
      precision[i * m + j] = precision[j * m + i];
}

INLINE double dot(const double *a, const double *b, isize m) {
  double sum = 0.0;
  for (isize i = 0; i < m; i++)
    sum += a[i] * b[i];
  return sum;
}

/* Write the scatter of a component about its mean, from its sufficient statistics (count, x, pairs of x). */
INLINE void scatter_of(const double *restrict stats, double *restrict scatter, isize m) {
  double count = stats[0] > MIN_WEIGHT ? stats[0] : MIN_WEIGHT;
  const double *first = stats + 1, *second = stats + 1 + m;
  double inverse = 1.0 / count;
  for (isize i = 0; i < m; i++) {
    double factor = inverse * first[i];
    double *restrict row = scatter + i * m;
    double rounding = SCATTER_ROUNDING * *second;
    for (isize j = i; j < m; j++)
      row[j] = *second++ - factor * first[j];
    row[i] += rounding;
  }
  for (isize i = 0; i < m; i++)
    for (isize j = i + 1; j < m; j++)
      scatter[j * m + i] = scatter[i * m + j];
}

/* The square of a vector that belongs to a variance of a component without correlations. */
INLINE double square_of(const Form *form, const double *x, isize j) {
  return form->kind == DIAGONAL ? x[j] * x[j] : dot(x, x, form->m);
}

/* Add factor times the outer product of a vector with itself. */
INLINE void add_outer(double *restrict matrix, const double *restrict vector, double factor, isize m) {
  for (isize i = 0; i < m; i++) {
    double scaled = factor * vector[i];
    for (isize j = 0; j < m; j++)
      matrix[i * m + j] += scaled * vector[j];
  }
}

/* Write the scatter of a component about its mean. */
INLINE void write_scatter(const Form *form, const double *stats, double *scatter) {
  double count = stats[0] > MIN_WEIGHT ? stats[0] : MIN_WEIGHT;
  if (form->kind == FULL) {
    scatter_of(stats, scatter, form->m);
    return;
  }
  for (isize j = 0; j < form->v; j++) {
    double second = stats[1 + form->m + j], value = second - square_of(form, stats + 1, j) / count;
    scatter[j] = (value < 0.0 ? 0.0 : value) + SCATTER_ROUNDING * second;
  }
}

/* Add factor times the square of a vector to a scatter. */
INLINE void add_square(const Form *form, double *scatter, const double *vector, double factor) {
  if (form->kind == FULL) add_outer(scatter, vector, factor, form->m);
  else
    for (isize j = 0; j < form->v; j++) scatter[j] += factor * square_of(form, vector, j);
}

/* Write B = A s A^t, with A lower triangular and s symmetric; both triangles. */
INLINE void congruent(
  const double *restrict a, const double *restrict s, double *restrict half, double *restrict b, isize m) {
  for (isize i = 0; i < m; i++) {
    double *restrict row = half + i * m;
    for (isize j = 0; j < m; j++)
      row[j] = 0.0;
    for (isize k = 0; k <= i; k++) {
      double factor = a[i * m + k];
      for (isize j = 0; j < m; j++)
        row[j] += factor * s[k * m + j];
    }
  }
  for (isize i = 0; i < m; i++)
    for (isize j = 0; j <= i; j++)
      b[i * m + j] = b[j * m + i] = dot(half + i * m, a + j * m, j + 1);
}

/* Write the natural parameters of a component, from the inverse and the log-determinant of its covariance. */
INLINE void write_natural(const Form *form, const double *precision, double log_of_det, const double *mean,
                          double weight, double *out) {
  isize m = form->m;
  double square = 0.0, *quadratic = out + 1 + m;
  for (isize j = 0; j < m; j++) {
    out[1 + j] = form->kind == FULL       ? dot(precision + j * m, mean, m)
                 : form->kind == DIAGONAL ? precision[j] * mean[j]
                                          : precision[0] * mean[j];
    square += out[1 + j] * mean[j];
  }
  weight = weight > MIN_WEIGHT ? weight : MIN_WEIGHT;
  out[0] = log(weight) - 0.5 * ((double)m * LOG_2PI + form->unit * log_of_det + square);
  for (isize j = 0; j < (form->kind == FULL ? m : form->v); j++) {
    *quadratic++ = -0.5 * precision[form->kind == FULL ? j * m + j : j];
    for (isize k = j + 1; form->kind == FULL && k < m; k++) *quadratic++ = -precision[j * m + k];
  }
}

/* The logarithm of the prior of a component, up to a constant: what it adds is `added` to the scatter, and `divisor`. */
INLINE double log_prior_of(const Form *form, const double *precision, double log_of_det, const double *mean,
                           const double *added, double divisor, double shrinkage) {
  double square = 0.0;
  for (isize j = 0; j < form->m && shrinkage > 0.0; j++)
    square += form->kind == FULL ? mean[j] * dot(precision + j * form->m, mean, form->m)
                                 : mean[j] * mean[j] * precision[form->kind == DIAGONAL ? j : 0];
  double trace = added ? dot(precision, added, form->v) : 0.0;
  return -0.5 * (divisor * log_of_det + trace + shrinkage * square);
}

/* Write the inverse of a covariance and the logarithm of its determinant, and return the least squared pivot: if that
   is not positive, nothing is written. `work` has room for two matrices. */
double invert(const double *covariance, double *work, double *inverse, double *log_of_det, isize m);

/* The same for any form: the sum of the logarithms of its v variances takes the place of a log-determinant. */
double invert_form(const Form *form, const double *covariance, double *work, double *inverse, double *log_of_det);

#endif

/* Small covariances S = L L^t, one at a time: factors, inverses, determinants, scatters.

   A factor is stored as U = L^t, by rows: the inner loops then run along rows, and compilers vectorise them. */

#ifndef APOLAR_MATRICES_H
#define APOLAR_MATRICES_H

#include "kernels.h"

/* The least weight of a component in logarithms and divisors, as in the families. */
#define LEAST_WEIGHT 1e-300
#define LOG_2PI 1.8378770664093454836
#define LOG_PI 1.1447298858494001741

typedef ptrdiff_t isize;

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

/* One logarithm of a product in place of many, of which none overflows or underflows. */
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
  double count = stats[0] > LEAST_WEIGHT ? stats[0] : LEAST_WEIGHT;
  const double *first = stats + 1, *second = stats + 1 + m;
  double inverse = 1.0 / count;
  for (isize i = 0; i < m; i++) {
    double factor = inverse * first[i];
    double *restrict row = scatter + i * m;
    for (isize j = i; j < m; j++)
      row[j] = *second++ - factor * first[j];
  }
  for (isize i = 0; i < m; i++)
    for (isize j = i + 1; j < m; j++)
      scatter[j * m + i] = scatter[i * m + j];
}

/* Components without correlations have v variances: one per column, or one for all m. The square of a vector that
   belongs to a variance: of one of its entries, or of all of them. */
INLINE double square_of(const double *x, isize j, isize m, isize v) { return v == m ? x[j] * x[j] : dot(x, x, m); }

/* Write the scatters of such a component about its mean. */
INLINE void aligned_scatter(const double *stats, double *scatter, isize m, isize v) {
  double count = stats[0] > LEAST_WEIGHT ? stats[0] : LEAST_WEIGHT;
  for (isize j = 0; j < v; j++) {
    double value = stats[1 + m + j] - square_of(stats + 1, j, m, v) / count;
    scatter[j] = value > 0.0 ? value : 0.0;
  }
}

/* Add factor times the outer product of a vector with itself. */
INLINE void add_outer(double *restrict matrix, const double *restrict vector, double factor, isize m) {
  for (isize i = 0; i < m; i++) {
    double scaled = factor * vector[i];
    for (isize j = 0; j < m; j++)
      matrix[i * m + j] += scaled * vector[j];
  }
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

/* Write the natural parameters of a component, from its precision and the log-determinant of its covariance. */
INLINE void write_natural(const double *precision, double log_of_det, const double *mean, double weight, double *out,
                          isize m) {
  double square = 0.0;
  for (isize j = 0; j < m; j++) {
    out[1 + j] = dot(precision + j * m, mean, m);
    square += out[1 + j] * mean[j];
  }
  weight = weight > LEAST_WEIGHT ? weight : LEAST_WEIGHT;
  out[0] = log(weight) - 0.5 * ((double)m * LOG_2PI + log_of_det + square);
  double *quadratic = out + 1 + m;
  for (isize j = 0; j < m; j++) {
    *quadratic++ = -0.5 * precision[j * m + j];
    for (isize k = j + 1; k < m; k++) *quadratic++ = -precision[j * m + k];
  }
}

/* The same for a component without correlations. */
INLINE void write_aligned_natural(const double *variances, const double *mean, double weight, double *out, isize m,
                                  isize v) {
  double unit = (double)(m / v), sum = (double)m * LOG_2PI;
  for (isize j = 0; j < m; j++) out[1 + j] = mean[j] / variances[v == m ? j : 0];
  for (isize j = 0; j < v; j++) {
    sum += unit * log(variances[j]) + square_of(mean, j, m, v) / variances[j];
    out[1 + m + j] = -0.5 / variances[j];
  }
  out[0] = log(weight > LEAST_WEIGHT ? weight : LEAST_WEIGHT) - 0.5 * sum;
}

/* Write the inverse of a covariance and the logarithm of its determinant, and return the least squared pivot: if that
   is not positive, nothing is written. `work` has room for two matrices. */
double invert(const double *covariance, double *work, double *inverse, double *log_of_det, isize m);

#endif

/* The M-step of the fourteen covariance families, for one mixture at a time.

   A covariance is S_k = v_k D_k A_k D_k^t: a volume v_k, a shape A_k of determinant one and an orientation D_k. The three
   letters of a code say for each whether it is [E]qual in all components, [V]ariable or the [I]dentity. */

#ifndef APOLAR_SHARING_H
#define APOLAR_SHARING_H

#include "matrices.h"

typedef struct {
  const char *code;
  Form form;
  int is_tied; /* whether there is one covariance for all components */
  isize n_components, n_covariances;
  const double *frame, *inverse_frame; /* the map to the units of the data, x -> x frame, and its inverse; or NULL */
  double least; /* the floor of variances */
} Sharing;

/* What a prior adds to the scatters and divisors of each covariance, to the divisors per component, and to the rows
   of each component in its weight. */
typedef struct {
  double shrinkage, mean_divisor, rows;
  const double *scatter, *divisors; /* NULL without a prior */
} PriorSums;

/* The axes that all components share are found by iteration, which starts nowhere, from covariances, or from axes. */
enum { COLD, NEAR_COVARIANCES, NEAR_AXES };

typedef struct {
  int start;
  const double *covariances;
  double *axes; /* m x m, by rows; written to */
} Near;

/* 0 if there is no such family. */
int sharing_of(Sharing *sharing, const char *code, isize m, isize n_components);

/* The numbers that the functions below need as working memory. */
isize working_memory(const Sharing *sharing);

/* Write the covariances S at which -1/2 (divisor log|S| + tr(S^-1 scatter)), summed, is largest. Returns 0 if a matrix
   that has to be positive definite is not. Scatters and divisors are overwritten. */
int maximise(const Sharing *sharing, double *scatter, double *divisors, Near *near, double *covariances,
             double *work);

/* Whether variances were below the floor; or a matrix was not positive definite, and there is no result. */
enum { NOT_POSITIVE, ABOVE_FLOOR, RAISED_TO_FLOOR };

/* Write the means and covariances of the M-step. */
int m_step_of(const Sharing *sharing, const double *stats, const PriorSums *prior, Near *near, double *means,
              double *covariances, double *work);

/* Write the eigenvalues of a symmetric matrix, smallest first, and its eigenvectors, by rows. The matrix is
   overwritten. Returns 0 if an entry is not finite. */
int eigen(double *a, double *values, double *vectors, isize m);

/* Make the rows of a matrix orthogonal by rotations in planes, and write their squares, smallest first. Small rows are
   as accurate as large ones, relative to their size. Returns 0 if a row vanishes. */
int orthogonalise(double *rows, double *squares, isize m);

/* Write the axes that all components share, and the variances along them, from scatters in the units of the data. */
int common_axes(const Sharing *sharing, const double *scatter, const double *divisors, Near *near, double *variances,
                double *work);

/* The least scatter of a component, relative to the largest, in logarithms and divisors. */
INLINE double min_scatter(double most) {
  double least = MIN_SCATTER * most;
  return least > 2.2250738585072014e-308 ? least : 2.2250738585072014e-308;
}

/* Raise variances above zero. */
INLINE void raise_above_zero(double *values, isize n) {
  double most = 0.0;
  for (isize i = 0; i < n; i++) most = values[i] > most ? values[i] : most;
  double least = min_scatter(most);
  for (isize i = 0; i < n; i++) values[i] = values[i] < least ? least : values[i];
}

/* The mean of logarithms, by few logarithms of products that do not overflow. */
INLINE double mean_log(const double *values, isize n) {
  double sum = 0.0, product = 1.0;
  for (isize i = 0; i < n; i++) {
    if (values[i] > 1e-150 && values[i] < 1e150) product *= values[i];
    else sum += log(values[i]);
    if (!(product < 1e150 && product > 1e-150)) {
      sum += log(product);
      product = 1.0;
    }
  }
  return (sum + log(product)) / (double)n;
}

/* Variances of one volume, from scatters (r, m) that are above zero. */
INLINE void of_one_volume(const double *scatter, const double *divisors, double *variances, double *roots, isize r,
                          isize m) {
  double sum = 0.0, total = 0.0;
  for (isize k = 0; k < r; k++) {
    roots[k] = exp(mean_log(scatter + k * m, m));
    sum += roots[k];
    total += divisors[k];
  }
  for (isize k = 0; k < r; k++) {
    double factor = sum / total / roots[k];
    for (isize j = 0; j < m; j++) variances[k * m + j] = scatter[k * m + j] * factor;
  }
}

/* Write the matrix frame^t a frame: a symmetric matrix in the units of the data. `work` has room for a matrix. */
INLINE void in_units(const Sharing *sharing, const double *restrict a, double *restrict out, double *restrict work) {
  isize m = sharing->form.m;
  const double *frame = sharing->frame;
  if (!frame) {
    memcpy(out, a, (size_t)(m * m) * sizeof(double));
    return;
  }
  memset(work, 0, (size_t)(m * m) * sizeof(double));
  memset(out, 0, (size_t)(m * m) * sizeof(double));
  for (isize i = 0; i < m; i++)
    for (isize k = 0; k < m; k++)
      for (isize j = 0; j < m; j++) work[i * m + j] += a[i * m + k] * frame[k * m + j];
  for (isize k = 0; k < m; k++)
    for (isize i = 0; i < m; i++)
      for (isize j = 0; j < m; j++) out[i * m + j] += frame[k * m + i] * work[k * m + j];
}

#endif

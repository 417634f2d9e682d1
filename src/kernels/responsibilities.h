/* From features to logits, and from logits to responsibilities. Included by body.h. */

/* n lines of logits, from n lines of natural parameters: products with lines of features. */
#define LINEAR_TILE(N)                                                                                           \
  for (int v = 0; v < length; v += 2 * LANES) {                                                                  \
    VEC acc[N][2];                                                                                               \
    for (int a = 0; a < N; a++) acc[a][0] = acc[a][1] = SPLAT(natural[(ptrdiff_t)a * n_stats]);                  \
    for (int f = 1; f < n_used; f++) {                                                                           \
      const double *line = features + (ptrdiff_t)f * stride + v;                                                 \
      VEC x = LOAD(line), y = LOAD(line + LANES);                                                                \
      KEEP(x);                                                                                                   \
      KEEP(y);                                                                                                   \
      for (int a = 0; a < N; a++) {                                                                              \
        VEC c = SPLAT(natural[(ptrdiff_t)a * n_stats + f]);                                                      \
        acc[a][0] += c * x;                                                                                      \
        acc[a][1] += c * y;                                                                                      \
      }                                                                                                          \
    }                                                                                                            \
    for (int a = 0; a < N; a++) {                                                                                \
      STORE(logits + (ptrdiff_t)a * stride + v, acc[a][0]);                                                      \
      STORE(logits + (ptrdiff_t)a * stride + v + LANES, acc[a][1]);                                              \
    }                                                                                                            \
  }

INLINE void NAME(linear_logits)(const double *features, const double *natural, double *logits, int n, int n_used,
                                int n_stats, int stride, int length) {
  while (n >= 4) {
    LINEAR_TILE(4)
    n -= 4, natural += 4 * (ptrdiff_t)n_stats, logits += 4 * (ptrdiff_t)stride;
  }
  if (n >= 2) {
    LINEAR_TILE(2)
    n -= 2, natural += 2 * (ptrdiff_t)n_stats, logits += 2 * (ptrdiff_t)stride;
  }
  if (n) {
    LINEAR_TILE(1)
  }
}

/* The same for all products of two features: sum_i a_i sum_j>=i natural_ij a_j, with a_0 = 1. */
#define FULL_TILE(N)                                                                                             \
  for (int v = 0; v < length; v += GROUP * LANES) {                                                              \
    VEC acc[N][GROUP], sum[N][GROUP];                                                                            \
    const double *p = natural;                                                                                   \
    for (int a = 0; a < N; a++)                                                                                  \
      for (int g = 0; g < GROUP; g++) acc[a][g] = SPLAT(p[(ptrdiff_t)a * n_stats]);                              \
    p++;                                                                                                         \
    for (int j = 1; j < dim; j++, p++) {                                                                         \
      const double *line = features + (ptrdiff_t)j * stride + v;                                                 \
      for (int a = 0; a < N; a++) {                                                                              \
        VEC c = SPLAT(p[(ptrdiff_t)a * n_stats]);                                                                \
        for (int g = 0; g < GROUP; g++) acc[a][g] += c * LOAD(line + g * LANES);                                 \
      }                                                                                                          \
    }                                                                                                            \
    for (int i = 1; i < dim; i++) {                                                                              \
      for (int a = 0; a < N; a++)                                                                                \
        for (int g = 0; g < GROUP; g++) sum[a][g] = SPLAT(0.0);                                                  \
      for (int j = i; j < dim; j++, p++) {                                                                       \
        const double *line = features + (ptrdiff_t)j * stride + v;                                               \
        VEC x[GROUP];                                                                                            \
        for (int g = 0; g < GROUP; g++) {                                                                        \
          x[g] = LOAD(line + g * LANES);                                                                         \
          KEEP(x[g]);                                                                                            \
        }                                                                                                        \
        for (int a = 0; a < N; a++) {                                                                            \
          VEC c = SPLAT(p[(ptrdiff_t)a * n_stats]);                                                              \
          for (int g = 0; g < GROUP; g++) sum[a][g] += c * x[g];                                                 \
        }                                                                                                        \
      }                                                                                                          \
      const double *line = features + (ptrdiff_t)i * stride + v;                                                 \
      for (int a = 0; a < N; a++)                                                                                \
        for (int g = 0; g < GROUP; g++) acc[a][g] += sum[a][g] * LOAD(line + g * LANES);                         \
    }                                                                                                            \
    for (int a = 0; a < N; a++)                                                                                  \
      for (int g = 0; g < GROUP; g++) STORE(logits + (ptrdiff_t)a * stride + v + g * LANES, acc[a][g]);          \
  }

INLINE void NAME(full_logits)(const double *features, const double *natural, double *logits, int n, int dim,
                              int n_stats, int stride, int length) {
  for (; n >= 2; n -= 2, natural += 2 * (ptrdiff_t)n_stats, logits += 2 * (ptrdiff_t)stride) {
    FULL_TILE(2)
  }
  if (n) {
    FULL_TILE(1)
  }
}

INLINE void NAME(write_logits)(const Mixtures *mixtures, NAME(Block) *block, int m) {
  int n = mixtures->n_mixtures * mixtures->n_components;
  if (mixtures->kind == FULL && !mixtures->is_linear) {
    NAME(full_logits)(block->features, mixtures->natural, block->logits, n, 1 + m, mixtures->n_stats, block->stride,
                      block->length);
  } else {
    int n_used = mixtures->is_linear ? 1 + m : mixtures->n_stats;
    NAME(linear_logits)(block->features, mixtures->natural, block->logits, n, n_used, mixtures->n_stats,
                        block->stride, block->length);
  }
}

/* Replace the logits of Gaussian components by those of t distributions of the same means and scale matrices. The
   lines that follow them, if they are asked for, become the factors of the rows, and then log(1 + D / dof). */
INLINE void NAME(with_tails)(const double *tails, double *logits, int n, int has_factors, int stride, int length) {
  for (int k = 0; k < n; k++, tails += 4) {
    double *line = logits + (ptrdiff_t)k * stride;
    double *factors = line + (ptrdiff_t)n * stride, *logs = factors + (ptrdiff_t)n * stride;
    VEC peak = SPLAT(tails[0]), top = SPLAT(tails[1]), dof = SPLAT(tails[2]), half = SPLAT(tails[3]);
    VEC per_dof = SPLAT(1.0) / dof;
    for (int v = 0; v < length; v += LANES) {
      VEC distance = peak - LOAD(line + v);
      distance = MAXIMUM(distance + distance, SPLAT(0.0));
      VEC log = NAME(logarithm)(SPLAT(1.0) + distance * per_dof);
      STORE(line + v, top - half * log);
      if (!has_factors) continue;
      STORE(factors + v, (half + half) / (dof + distance));
      STORE(logs + v, log);
    }
  }
}

/* Add the sums of responsibilities, and of these times the logarithms, and multiply them by the factors. */
INLINE void NAME(take_factors)(double *responsibilities, int n, double *sums, int stride, int length) {
  for (int k = 0; k < n; k++) {
    double *line = responsibilities + (ptrdiff_t)k * stride;
    const double *factors = line + (ptrdiff_t)n * stride, *logs = factors + (ptrdiff_t)n * stride;
    VEC total = SPLAT(0.0), of_logs = SPLAT(0.0);
    for (int v = 0; v < length; v += LANES) {
      VEC share = LOAD(line + v);
      total += share;
      of_logs += share * LOAD(logs + v);
      STORE(line + v, share * LOAD(factors + v));
    }
    sums[k] += NAME(sum_of)(total);
    sums[n + k] += NAME(sum_of)(of_logs);
  }
}

/* The largest of n lines, at one vector of rows. */
INLINE VEC NAME(largest)(const double *lines, int n, int stride) {
  VEC largest = LOAD(lines);
  for (int k = 1; k < n; k++) {
    VEC x = LOAD(lines + (ptrdiff_t)k * stride);
    largest = MAXIMUM(x, largest);
  }
  return largest;
}

/* Replace logits by their exponentials relative to the largest; return the sum of these. */
INLINE VEC NAME(exponentials)(double *logits, VEC largest, int n, int stride) {
  VEC sum = SPLAT(0.0);
  for (int k = 0; k < n; k++) {
    double *entry = logits + (ptrdiff_t)k * stride;
    VEC x = LOAD(entry) - largest;
    VEC e = NAME(exponential)(MAXIMUM(x, SPLAT(MIN_LOGIT)));
    STORE(entry, e);
    sum += e;
  }
  return sum;
}

/* Multiply n lines by a factor per row. */
INLINE void NAME(scale)(double *lines, VEC factor, int n, int stride) {
  for (int k = 0; k < n; k++) {
    double *entry = lines + (ptrdiff_t)k * stride;
    STORE(entry, LOAD(entry) * factor);
  }
}

/* Replace the logits of one mixture by responsibilities times weights; return the sum of log-densities. */
INLINE double NAME(soft)(double *logits, int n_components, const double *weights, int is_weighted, int stride,
                         int length, const char *next_rows, ptrdiff_t row_stride) {
  VEC total = SPLAT(0.0), product = SPLAT(1.0);
  for (int v = 0; v < length; v += LANES) {
    double *l = logits + v;
    NAME(prefetch)(next_rows, row_stride, v);
    VEC weight = LOAD(weights + v), largest = NAME(largest)(l, n_components, stride);
    VEC sum = NAME(exponentials)(l, largest, n_components, stride);
    NAME(scale)(l, weight / sum, n_components, stride);
    total += weight * largest;
    if (is_weighted) {
      total += weight * NAME(logarithm)(sum);
    } else {
      /* One logarithm of a product is cheaper than many. Sums are from 1 to n_components, so that products of 32
         do not overflow. In the padding the factor is 1. */
      product *= sum * weight + (SPLAT(1.0) - weight);
      if (LANES == 1 || v % (32 * LANES) == 31 * LANES) {
        total += NAME(logarithm)(product);
        product = SPLAT(1.0);
      }
    }
  }
  if (!is_weighted) total += NAME(logarithm)(product);
  return NAME(sum_of)(total);
}

/* Replace the logits of one mixture by the weight at the first of the largest, and zero elsewhere. */
INLINE void NAME(hard)(double *logits, int n_components, const double *weights, int stride, int length) {
  for (int v = 0; v < length; v += LANES) {
    double *l = logits + v;
    VEC weight = LOAD(weights + v), largest = NAME(largest)(l, n_components, stride);
    for (int k = 0; k < n_components; k++) {
      double *entry = l + (ptrdiff_t)k * stride;
      VEC part = SELECT(LOAD(entry) == largest, weight, SPLAT(0.0));
      STORE(entry, part);
      weight -= part;
    }
  }
}

/* Mixtures compared on some rows, for one instruction set: included after body.h.

   Logits are natural parameters times the statistics of rows; two components and VECTORS vectors of rows are
   computed together, in registers. */

#define VECTORS 4
#if LANES > 1
#define READ_AT(p) LOAD_UNALIGNED(p)
#define WRITE_AT(p, v) (*(UVEC *)(p) = (v))
#else
#define READ_AT(p) LOAD(p)
#define WRITE_AT(p, v) STORE(p, v)
#endif

#define MINIMUM(a, b) SELECT((a) < (b), a, b)

/* exp(x) as in vector.h, to 2e-10, which is enough to compare. */
INLINE VEC NAME(rough_exponential)(VEC x) {
  VEC shifted = x * SPLAT(1.4426950408889634074) + SPLAT(ROUNDER);
  VEC f = x - (shifted - SPLAT(ROUNDER)) * SPLAT(0.69314718055994530942);
  VEC p = SPLAT(1.0 / 40320);
  p = p * f + SPLAT(1.0 / 5040);
  p = p * f + SPLAT(1.0 / 720);
  p = p * f + SPLAT(1.0 / 120);
  p = p * f + SPLAT(1.0 / 24);
  p = p * f + SPLAT(1.0 / 6);
  p = p * f + SPLAT(0.5);
  p = p * f + SPLAT(1.0);
  p = p * f + SPLAT(1.0);
  return FROM_BITS(BITS(p) + (BITS(shifted) << 52));
}

/* The logits of two components at VECTORS vectors of rows. */
INLINE void NAME(two_logits)(const ComparedRows *rows, const double *one, const double *other, int64_t start,
                             VEC logits[2][VECTORS]) {
  for (int v = 0; v < VECTORS; v++) logits[0][v] = logits[1][v] = SPLAT(0.0);
  const double *line = rows->row_stats + start;
  for (int64_t s = 0; s < rows->n_stats; s++, line += rows->n_rows) {
    VEC a = SPLAT(one[s]), b = SPLAT(other[s]);
    for (int v = 0; v < VECTORS; v++) {
      VEC x = READ_AT(line + v * LANES);
      logits[0][v] += a * x;
      logits[1][v] += b * x;
    }
  }
}

/* The sums over the rows of the logarithm of the density after each merger. */
static int NAME(merge_costs)(const ComparedRows *rows, const Mergers *mergers, double *sums) {
  int64_t n = mergers->n_pairs, n_stats = rows->n_stats;
  double *partial = calloc((size_t)(n * LANES + LANES), sizeof(double));
  if (!partial) return -1;
  for (int64_t start = 0; start < rows->n_rows; start += VECTORS * LANES) {
    for (int64_t pair = 0; pair < n; pair += 2) {
      int n_here = pair + 1 < n ? 2 : 1;
      const double *natural = mergers->natural + pair * n_stats;
      VEC logits[2][VECTORS];
      NAME(two_logits)(rows, natural, natural + (n_here - 1) * n_stats, start, logits);
      for (int i = 0; i < n_here; i++) {
        const double *first = mergers->parts + mergers->first[pair + i] * rows->n_rows + start;
        const double *second = mergers->parts + mergers->second[pair + i] * rows->n_rows + start;
        VEC sum = READ_AT(partial + (pair + i) * LANES), product = SPLAT(1.0);
        for (int v = 0; v < VECTORS; v++) {
          int64_t at = start + v * LANES;
          /* A merged component may be far denser than the densest one before; exp must not overflow. */
          VEC x = MAXIMUM(logits[i][v] - READ_AT(mergers->largest + at), SPLAT(-MAX_LOG_RATIO));
          x = MINIMUM(x, SPLAT(MAX_LOG_RATIO));
          VEC rest = READ_AT(mergers->total + at) - READ_AT(first + v * LANES) - READ_AT(second + v * LANES);
          /* Rounding may leave a negative difference. */
          VEC density = MAXIMUM(rest, SPLAT(0.0)) + NAME(rough_exponential)(x);
          if (rows->weights)
            sum += READ_AT(rows->weights + at) * NAME(logarithm)(density);
          else
            product *= density; /* one logarithm of a product instead of many */
        }
        if (!rows->weights) sum += NAME(logarithm)(product);
        WRITE_AT(partial + (pair + i) * LANES, sum);
      }
    }
  }
  for (int64_t pair = 0; pair < n; pair++) sums[pair] = NAME(sum_of)(READ_AT(partial + pair * LANES));
  free(partial);
  return 0;
}

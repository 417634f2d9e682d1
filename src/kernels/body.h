/* Sums over rows for one instruction set. TARGET names it, LANES is the length of its vectors, and GROUP the
   number of vectors that a loop holds in registers.

   Rows are read in blocks and turned to columns: a feature is one line of BLOCK numbers, one per row, so that
   all arithmetic is on vectors of rows, and a block stays in the first cache. A block of fewer rows is padded by
   rows of zeros with weight zero. */

#include "vector.h"

#include "block.h"
#include "responsibilities.h"
#include "tiles.h"

static int NAME(n_lines)(int kind, int m) {
  return kind == SPHERICAL ? m + 2 : kind == DIAGONAL ? 2 * m + 1 : m + 1;
}

static int NAME(e_step)(const Rows *rows, const Mixtures *mixtures, const Parts *parts, double *stats,
                        double *log_likelihood) {
  int n_mixtures = mixtures->n_mixtures, n_components = mixtures->n_components, n_stats = mixtures->n_stats;
  int n = n_mixtures * n_components, m = rows->n_outputs, n_lines = NAME(n_lines)(mixtures->kind, m);
  /* The lines (1, z) are even in number, for tiles of two, or those of z are. */
  int is_full = mixtures->kind == FULL, is_apart = is_full && m % 2 == 0;
  int64_t n_tiled = is_full ? n * NAME(n_triangle)(is_apart ? m : m + 1) : 0;
  if (!is_full || is_apart) n_tiled += NAME(n_linear)(n, n_lines);
  NAME(Block) block;
  if (NAME(block_of)(&block, rows, n_lines, mixtures->tails ? 3 * n : n, n_tiled)) return -1;
  int length = block.length, stride = block.stride;
  for (int64_t part; (part = next_part(parts->counter)) < parts->n_parts;) {
    double *out = stats + part * n * n_stats, *likelihood = log_likelihood + part * n_mixtures;
    int64_t stop = (part + 1) * parts->part_rows;
    if (stop > rows->n_rows) stop = rows->n_rows;
    for (int64_t start = part * parts->part_rows; start < stop; start += length) {
      int n_rows = stop - start < length ? (int)(stop - start) : length;
      NAME(write_features)(rows, mixtures->kind, &block, start, n_rows, mixtures->source == SOFT);
      if (mixtures->source == SOFT || mixtures->source == HARD) NAME(write_logits)(mixtures, &block, m);
      if (mixtures->tails) NAME(with_tails)(mixtures->tails, block.logits, n, 1, stride, length);
      if (mixtures->source == SOFT) {
        for (int h = 0; h < n_mixtures; h++) {
          double *logits = block.logits + (ptrdiff_t)h * n_components * stride;
          likelihood[h] += NAME(soft)(logits, n_components, block.weights, rows->weights != NULL, stride, length,
                                      h ? NULL : block.next_rows, rows->row_stride);
        }
        if (mixtures->tails)
          NAME(take_factors)(block.logits, n, mixtures->tail_sums + part * 2 * n, stride, length);
      } else if (mixtures->source == HARD) {
        NAME(hard)(block.logits, n, block.weights, stride, length);
      } else if (mixtures->source == GIVEN) {
        for (int k = 0; k < n; k++) {
          const double *given = mixtures->responsibilities + k * mixtures->component_stride;
          double *line = block.logits + (ptrdiff_t)k * stride;
          for (int i = 0; i < n_rows; i++)
            line[i] = given[(start + i) * mixtures->responsibility_stride] * block.weights[i];
          for (int i = n_rows; i < length; i++) line[i] = 0.0;
        }
      } else {
        memcpy(block.logits, block.weights, (size_t)length * sizeof(double));
      }
      double *tile = block.tiles;
      if (!is_full || is_apart)
        tile = NAME(add_linear)(block.logits, block.features, tile, n, n_lines, stride, length);
      for (int k = 0; is_full && k < n; k++)
        tile = NAME(add_triangle)(block.logits + (ptrdiff_t)k * stride, block.features + (is_apart ? stride : 0),
                                  block.weighted, tile, is_apart ? m : m + 1, stride, length);
    }
    double *tile = block.tiles;
    if (!is_full || is_apart) tile = NAME(take_linear)(tile, out, n, n_lines, n_stats);
    for (int k = 0; is_full && k < n; k++)
      tile = NAME(take_triangle)(tile, out + (ptrdiff_t)k * n_stats + (is_apart ? 1 + m : 0), is_apart ? m : m + 1);
  }
  free(block.memory);
  return 0;
}

static int NAME(rows)(const Rows *rows, const Mixtures *mixtures, const Parts *parts, const RowResults *results) {
  int n = mixtures->n_components, m = rows->n_outputs;
  NAME(Block) block;
  if (NAME(block_of)(&block, rows, NAME(n_lines)(mixtures->kind, m), n, 0)) return -1;
  int length = block.length, stride = block.stride;
  for (int64_t part; (part = next_part(parts->counter)) < parts->n_parts;) {
    int64_t stop = (part + 1) * parts->part_rows;
    if (stop > rows->n_rows) stop = rows->n_rows;
    for (int64_t start = part * parts->part_rows; start < stop; start += length) {
      int n_rows = stop - start < length ? (int)(stop - start) : length;
      NAME(write_features)(rows, mixtures->kind, &block, start, n_rows, 0);
      NAME(write_logits)(mixtures, &block, m);
      if (mixtures->tails) NAME(with_tails)(mixtures->tails, block.logits, n, 0, stride, length);
      if (results->logits) {
        for (int k = 0; k < n; k++)
          memcpy(results->logits + k * rows->n_rows + start, block.logits + (ptrdiff_t)k * stride,
                 (size_t)n_rows * sizeof(double));
        continue;
      }
      /* Here a line of working memory holds logarithms of sums, another the largest logits. */
      double *largest_of = block.weighted, *log_sums = block.weighted + stride;
      for (int v = 0; v < length; v += LANES) {
        double *l = block.logits + v;
        VEC largest = NAME(largest)(l, n, stride), sum = NAME(exponentials)(l, largest, n, stride);
        /* Labels too are of what is given as responsibilities, so that both agree where two are equal. */
        if (results->responsibilities || results->labels) NAME(scale)(l, SPLAT(1.0) / sum, n, stride);
        STORE(largest_of + v, largest);
        STORE(log_sums + v, NAME(logarithm)(sum));
      }
      if (results->responsibilities) {
        double *out = results->responsibilities + start * n;
        for (int i = 0; i < n_rows; i++)
          for (int k = 0; k < n; k++) out[(ptrdiff_t)i * n + k] = block.logits[(ptrdiff_t)k * stride + i];
      }
      if (results->labels) {
        for (int i = 0; i < n_rows; i++) {
          int best = 0;
          for (int k = 1; k < n; k++)
            if (block.logits[(ptrdiff_t)k * stride + i] > block.logits[(ptrdiff_t)best * stride + i]) best = k;
          results->labels[start + i] = best;
        }
      }
      if (results->density)
        for (int i = 0; i < n_rows; i++) results->density[start + i] = largest_of[i] + log_sums[i];
      if (results->sums) {
        VEC density = SPLAT(0.0), certainty = SPLAT(0.0), weight = SPLAT(0.0);
        for (int v = 0; v < length; v += LANES) {
          VEC w = LOAD(block.weights + v), log_sum = LOAD(log_sums + v);
          density += w * (LOAD(largest_of + v) + log_sum);
          certainty -= w * log_sum;
          weight += w;
        }
        double *sums = results->sums + 3 * part;
        sums[0] += NAME(sum_of)(density), sums[1] += NAME(sum_of)(certainty), sums[2] += NAME(sum_of)(weight);
      }
    }
  }
  free(block.memory);
  return 0;
}

/* sums of each part: of |x|^2 x, with x = (x - centre) scale, then of z_i z_j z_k for i <= j <= k, weighted. */
static int NAME(third)(const Rows *rows, const Parts *parts, double *all_sums) {
  int m = rows->n_columns, dim = rows->n_outputs;
  int64_t n_sums = m + (int64_t)dim * (dim + 1) * (dim + 2) / 6;
  NAME(Block) block;
  int64_t n_tiled = NAME(n_linear)(1, m);
  for (int i = 0; i < dim; i++) n_tiled += NAME(n_triangle)(dim - i);
  if (NAME(block_of)(&block, rows, dim + 1, 2, n_tiled)) return -1;
  int length = block.length, stride = block.stride;
  double *z = block.features + stride, *squares = block.logits, *weight = block.logits + stride;
  const double *x = rows->matrix ? block.centred : z;
  for (int64_t part; (part = next_part(parts->counter)) < parts->n_parts;) {
    double *sums = all_sums + part * n_sums;
    int64_t stop = (part + 1) * parts->part_rows;
    if (stop > rows->n_rows) stop = rows->n_rows;
    for (int64_t start = part * parts->part_rows; start < stop; start += length) {
      int n_rows = stop - start < length ? (int)(stop - start) : length;
      NAME(write_features)(rows, FULL, &block, start, n_rows, 0);
      for (int v = 0; v < length; v += LANES) {
        VEC sum = SPLAT(0.0);
        for (int j = 0; j < m; j++) {
          VEC value = LOAD(x + (ptrdiff_t)j * stride + v);
          sum += value * value;
        }
        STORE(squares + v, sum * LOAD(block.weights + v));
      }
      double *tile = NAME(add_linear)(squares, x, block.tiles, 1, m, stride, length);
      for (int i = 0; i < dim; i++) {
        const double *line = z + (ptrdiff_t)i * stride;
        for (int v = 0; v < length; v += LANES) STORE(weight + v, LOAD(line + v) * LOAD(block.weights + v));
        tile = NAME(add_triangle)(weight, line, block.weighted, tile, dim - i, stride, length);
      }
    }
    double *tile = NAME(take_linear)(block.tiles, sums, 1, m, m), *out = sums + m;
    for (int i = 0; i < dim; i++) {
      tile = NAME(take_triangle)(tile, out, dim - i);
      out += (ptrdiff_t)(dim - i) * (dim - i + 1) / 2;
    }
  }
  free(block.memory);
  return 0;
}

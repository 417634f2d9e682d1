/* Trees of groups of rows that are merged in pairs: the compiled form of `apolar.search.hierarchical._Groups`, with the
   least cost of each group and a bound on its other costs instead of the matrix of all costs.

   The cost of a pair must be the same to the last bit whichever of the two groups it is computed for, and rounding must
   decide as it does there. So each product is rounded before it is added: one loop stores products, and the next adds
   them, as in a single loop a compiler would fuse the two where the processor can. */

#include "calls.h"

/* Rows are few enough for products of sizes; the caller allows far fewer. */
#define MAX_ROWS ((isize)1 << 28)
/* Groups whose costs are computed together, in arrays on the stack. */
#define GROUP_BLOCK 128

/* The groups that are left, in positions 0 to count - 1. Under one variance for all groups ("EII") the costs of all
   pairs are stored; under differing variances ("VII") the groups, from which costs are computed. */
typedef struct {
  isize n, m, count;
  double *sizes;
  int64_t *names;
  double *all_costs;                          /* (n, n), or NULL under differing variances */
  double *sums, *scatters, *terms, spread;    /* sums: (m, n), divided by the square roots of sizes */
  double *costs;                              /* (n): of one group with all others; under one variance, scratch */
} Groups;

/* For each position: its least cost with those before it, a lower bound on its other costs, and whom the least cost is
   with, or -1 if only the bound remains. */
typedef struct {
  double *least, *others;
  int64_t *partners;
} Nearest;

static double term_of(double size, double scatter, double spread) { return log((scatter + spread) / size) * size; }

/* Write the sizes and scatters of the unions of a group with n others, from a position on. */
static void unions(const Groups *groups, isize position, isize start, isize n, double *restrict sizes,
                   double *restrict scatters) {
  double factors[GROUP_BLOCK], other_factors[GROUP_BLOCK], products[GROUP_BLOCK], other_products[GROUP_BLOCK];
  const double *other_sizes = groups->sizes + start, *other_scatters = groups->scatters + start;
  double size = groups->sizes[position], scatter = groups->scatters[position];
  for (isize i = 0; i < n; i++) {
    sizes[i] = other_sizes[i] + size;
    factors[i] = sqrt(size / sizes[i]);
    other_factors[i] = sqrt(other_sizes[i] / sizes[i]);
    scatters[i] = 0.0;
  }
  for (isize j = 0; j < groups->m; j++) {
    const double *column = groups->sums + j * groups->n;
    double value = column[position];
    column += start;
    for (isize i = 0; i < n; i++) {
      products[i] = column[i] * factors[i];
      other_products[i] = value * other_factors[i];
    }
    for (isize i = 0; i < n; i++) products[i] -= other_products[i];
    for (isize i = 0; i < n; i++) products[i] *= products[i];
    for (isize i = 0; i < n; i++) scatters[i] += products[i];
  }
  for (isize i = 0; i < n; i++) scatters[i] += other_scatters[i] + scatter;
}

/* The costs of a group with those in positions 0 to stop - 1; that of the group with itself has no meaning. */
static const double *costs_of(const Groups *groups, isize position, isize stop) {
  if (groups->all_costs) return groups->all_costs + position * groups->n;
  double sizes[GROUP_BLOCK], scatters[GROUP_BLOCK], term = groups->terms[position];
  for (isize start = 0; start < stop; start += GROUP_BLOCK) {
    isize n = stop - start < GROUP_BLOCK ? stop - start : GROUP_BLOCK;
    unions(groups, position, start, n, sizes, scatters);
    for (isize i = 0; i < n; i++) scatters[i] = (scatters[i] + groups->spread) / sizes[i];
    for (isize i = 0; i < n; i++) scatters[i] = log(scatters[i]) * sizes[i];
    for (isize i = 0; i < n; i++) groups->costs[start + i] = scatters[i] - (groups->terms[start + i] + term);
  }
  return groups->costs;
}

/* Write the costs of all pairs of rows under one variance. */
static void write_all_costs(Groups *groups, const double *x) {
  isize n = groups->n, m = groups->m;
  double half = sqrt(0.5);
  const double *sizes = groups->sizes;
  double *columns = groups->sums, *squares = groups->costs;
  for (isize j = 0; j < m; j++)
    for (isize i = 0; i < n; i++) columns[j * n + i] = half * x[i * m + j];
  for (isize position = 0; position < n; position++) {
    double *restrict costs = groups->all_costs + position * n, size = sizes[position];
    memset(costs, 0, (size_t)n * sizeof(double));
    for (isize j = 0; j < m; j++) {
      const double *column = columns + j * n;
      double value = column[position];
      for (isize i = 0; i < n; i++) squares[i] = (column[i] - value) * (column[i] - value);
      for (isize i = 0; i < n; i++) costs[i] += squares[i];
    }
    for (isize i = 0; i < n; i++) costs[i] *= 2.0 * size * sizes[i] / (size + sizes[i]);
  }
}

static void write_sums(Groups *groups, const double *x) {
  for (isize i = 0; i < groups->n; i++) {
    double root = sqrt(groups->sizes[i]);
    for (isize j = 0; j < groups->m; j++) groups->sums[j * groups->n + i] = x[i * groups->m + j] * root;
    groups->scatters[i] = 0.0;
    groups->terms[i] = term_of(groups->sizes[i], 0.0, groups->spread);
  }
}

/* Replace the costs of the first group by those of the union, by the recurrence of Lance and Williams; then move the
   last group to the position of the second. */
static void merge_costs(Groups *groups, isize first, isize second) {
  isize n = groups->n, last = groups->count - 1;
  const double *sizes = groups->sizes;
  double *costs = groups->all_costs, *of_first = costs + first * n, *of_second = costs + second * n;
  double size = sizes[first], other_size = sizes[second], between = of_first[second], *products = groups->costs;
  for (isize i = 0; i <= last; i++) {
    of_first[i] *= sizes[i] + size;
    of_second[i] *= sizes[i] + other_size;
    products[i] = sizes[i] * between;
  }
  for (isize i = 0; i <= last; i++)
    of_first[i] = (of_first[i] + of_second[i] - products[i]) / (sizes[i] + (size + other_size));
  for (isize i = 0; i <= last; i++) costs[i * n + first] = of_first[i];
  if (second == last) return;
  memcpy(of_second, costs + last * n, (size_t)last * sizeof(double));
  for (isize i = 0; i < last; i++) costs[i * n + second] = of_second[i];
}

/* The same for the groups themselves. */
static void merge_sums(Groups *groups, isize first, isize second) {
  isize n = groups->n, last = groups->count - 1;
  double size, scatter;
  unions(groups, second, first, 1, &size, &scatter);
  double factor = sqrt(groups->sizes[first] / size), other_factor = sqrt(groups->sizes[second] / size);
  for (isize j = 0; j < groups->m; j++) {
    double *column = groups->sums + j * n;
    volatile double product = column[first] * factor, other_product = column[second] * other_factor;
    column[first] = product + other_product;
    column[second] = column[last];
  }
  groups->scatters[first] = scatter;
  groups->terms[first] = term_of(size, scatter, groups->spread);
  groups->scatters[second] = groups->scatters[last];
  groups->terms[second] = groups->terms[last];
}

/* Merge two groups, and write their names, the smaller first. */
static void merge(Groups *groups, isize first, isize second, int64_t *merged) {
  isize last = groups->count - 1;
  int64_t name = groups->names[first], other = groups->names[second];
  (groups->all_costs ? merge_costs : merge_sums)(groups, first, second);
  merged[0] = groups->names[first] = name < other ? name : other;
  merged[1] = name < other ? other : name;
  groups->sizes[first] += groups->sizes[second];
  groups->sizes[second] = groups->sizes[last];
  groups->names[second] = groups->names[last];
  groups->count = last;
}

/* Set what is known about a position, from its costs with all positions before it; of equal costs the last is least. */
static void set_nearest(Nearest *nearest, isize position, const double *costs) {
  double least = INFINITY, others = INFINITY;
  isize partner = 0;
  for (isize i = 0; i < position; i++) {
    if (costs[i] > others) continue;
    if (costs[i] <= least) {
      others = least;
      least = costs[i];
      partner = i;
    } else {
      others = costs[i];
    }
  }
  nearest->least[position] = least, nearest->others[position] = others, nearest->partners[position] = partner;
}

/* Write the pair of least cost, the last in the order of (second, first), and return the cost. */
static double nearest_pair(Nearest *nearest, const Groups *groups, isize *first, isize *second) {
  for (;;) {
    isize found = 1;
    for (isize i = 2; i < groups->count; i++)
      if (nearest->least[i] <= nearest->least[found]) found = i;
    if (nearest->partners[found] >= 0) {
      *first = (isize)nearest->partners[found], *second = found;
      return nearest->least[found];
    }
    set_nearest(nearest, found, costs_of(groups, found, found));
  }
}

/* Update what is known about all positions for the new group in one of them. */
static void update_position(Nearest *nearest, const Groups *groups, isize position) {
  const double *costs = costs_of(groups, position, groups->count);
  double *least = nearest->least, *others = nearest->others;
  int64_t *partners = nearest->partners;
  if (position > 0) set_nearest(nearest, position, costs);
  for (isize i = position + 1; i < groups->count; i++) {
    double cost = costs[i];
    if (cost > others[i]) continue;
    others[i] = cost > least[i] ? cost : least[i];
    if (cost < least[i]) {
      least[i] = cost;
      partners[i] = position;
    } else if (cost == least[i] && partners[i] >= 0 && partners[i] < position) {
      /* A tie with a bound does not tell which position the bound is of. */
      partners[i] = position;
    }
  }
}

static void update_nearest(Nearest *nearest, const Groups *groups, isize first, isize second) {
  for (isize i = 0; i < groups->count; i++)
    if (nearest->partners[i] == first || nearest->partners[i] == second) {
      nearest->partners[i] = -1;
      nearest->least[i] = nearest->others[i];
    }
  update_position(nearest, groups, first);
  if (second < groups->count) update_position(nearest, groups, second);
}

static void write_tree(Groups *groups, Nearest *nearest, const double *x, int64_t *merges, double *costs) {
  isize n = groups->n;
  for (isize i = 0; i < n; i++) groups->names[i] = i;
  (groups->all_costs ? write_all_costs : write_sums)(groups, x);
  nearest->least[0] = nearest->others[0] = INFINITY;
  nearest->partners[0] = -1;
  for (isize i = 1; i < n; i++) set_nearest(nearest, i, costs_of(groups, i, i));
  for (isize step = 0; step < n - 1; step++) {
    isize first, second;
    costs[step] = nearest_pair(nearest, groups, &first, &second);
    merge(groups, first, second, merges + 2 * step);
    update_nearest(nearest, groups, first, second);
  }
}

/* merge_tree(x (n, m), sizes (n or 0), merges (n - 1, 2), costs (n - 1), m, spread): the merges, of int64, and their
   costs, as in `MergeTree`: under "VII" with the mean variance of the data as spread, and under "EII" if that is 0. */
PyObject *py_merge_tree(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
  Buffers b;
  if (!take(&b, args, n_args, 4, 2, 2)) return NULL;
  isize m = number_of(args[4]), n = length_of(&b, 3) + 1;
  double spread = PyFloat_AsDouble(args[5]);
  if (PyErr_Occurred() || m < 0 || n > MAX_ROWS || length_of(&b, 0) != n * m ||
      (length_of(&b, 1) && length_of(&b, 1) != n) || length_of(&b, 2) != 2 * (n - 1) || !(spread >= 0.0))
    return mismatch(&b);
  int is_stored = spread == 0.0;
  double *work = workspace(&b, (m + 8) * n + (is_stored ? n * n : 0));
  if (work == NULL) return NULL;
  Groups groups = {.n = n, .m = m, .count = n, .spread = spread};
  Nearest nearest;
  double **arrays[] = {&groups.sizes, &groups.scatters, &groups.terms, &groups.costs, &nearest.least, &nearest.others};
  for (int i = 0; i < 6; i++) *arrays[i] = work + i * n;
  groups.names = (int64_t *)(work + 6 * n), nearest.partners = groups.names + n;
  groups.sums = work + 8 * n;
  groups.all_costs = is_stored ? groups.sums + m * n : NULL;
  for (isize i = 0; i < n; i++) groups.sizes[i] = length_of(&b, 1) ? values_of(&b, 1)[i] : 1.0;
  const double *x = values_of(&b, 0);
  int64_t *merges = b.views[2].buf;
  double *costs = values_of(&b, 3);
  Py_BEGIN_ALLOW_THREADS;
  write_tree(&groups, &nearest, x, merges, costs);
  Py_END_ALLOW_THREADS;
  return done(&b, work, 1);
}

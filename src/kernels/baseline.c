/* For every processor: two numbers at a time where the compiler has vectors (SSE2, NEON), else one.

   APOLAR_PLAIN_C asks for one in any case: what a compiler without vectors gets, for tests. */

#include "kernels.h"

#define TARGET baseline
#if (defined(__GNUC__) || defined(__clang__)) && !defined(APOLAR_PLAIN_C)
#define LANES 2
#else
#define LANES 1
#endif
#define GROUP 2
#include "body.h"
#include "comparisons.h"

static int always(void) { return 1; }

const Kernels baseline_kernels = {"baseline", always, NAME(e_step), NAME(rows), NAME(third),
                              NAME(merge_costs)};

/* For x86-64 processors with AVX2 and FMA: four numbers at a time. */

#include "kernels.h"

#ifdef HAS_X86_TARGETS

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#define TARGET avx2
#define LANES 4
#define GROUP 2
#include "body.h"
#include "comparisons.h"

#ifdef __clang__
#pragma clang attribute pop
#endif

static int is_supported(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

const Kernels avx2_kernels = {"avx2", is_supported, NAME(e_step), NAME(rows), NAME(third),
                              NAME(merge_costs)};

#else
typedef int not_empty; /* a file must declare something */
#endif

/* For x86-64 processors with AVX-512: eight numbers at a time. */

#include "kernels.h"

#ifdef HAS_X86_TARGETS

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,avx512f,avx512dq,avx512vl")
#endif

#define TARGET avx512
#define LANES 8
#define GROUP 4
#include "body.h"
#include "comparisons.h"

#ifdef __clang__
#pragma clang attribute pop
#endif

static int is_supported(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const Kernels avx512_kernels = {"avx512", is_supported, NAME(e_step), NAME(rows), NAME(third),
                              NAME(merge_costs)};

#else
typedef int not_empty; /* a file must declare something */
#endif

/* What the compiler needs to know to make the most of a processor, and Cython cannot say.
 *
 * cloned_void    A loop that is compiled twice, for every processor and for those with AVX2;
 *                the faster one that runs is chosen when the module is loaded.
 * inlined_void   What a cloned loop calls: compiled along with it, constant arguments known; likewise
 *                inlined_double.
 * quad           QUAD neighbouring doubles, added and multiplied as one: four, or one with
 *                a compiler that knows no vectors. To Cython a quad is a double. */
#ifndef MARGINOUT_SIMD_H
#define MARGINOUT_SIMD_H

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define cloned_void __attribute__((target_clones("avx2", "default"))) void
#else
#define cloned_void void
#endif

#if defined(__GNUC__)
#define QUAD 4
#define INLINED __attribute__((always_inline))
typedef double quad __attribute__((vector_size(32), aligned(8), may_alias));
/* The first `lanes` of four doubles, a number that the compiler knows; zero beyond. */
#define load_quad(p, lanes)                                                                \
  ((lanes) == 4   ? *(const quad *)(p)                                                     \
   : (lanes) == 3 ? (quad){(p)[0], (p)[1], (p)[2], 0}                                      \
                  : (quad){(p)[0], (p)[1], 0, 0})
#define store_quad(p, lanes, q)                                                            \
  do {                                                                                     \
    if ((lanes) == 4) {                                                                    \
      *(quad *)(p) = (q);                                                                  \
    } else {                                                                               \
      (p)[0] = (q)[0];                                                                     \
      (p)[1] = (q)[1];                                                                     \
      if ((lanes) == 3) (p)[2] = (q)[2];                                                   \
    }                                                                                      \
  } while (0)
#else
#define QUAD 1
#define INLINED
typedef double quad;
#define load_quad(p, lanes) (*(p))
#define store_quad(p, lanes, q) (*(p) = (q))
#endif
#define inlined_void INLINED void

#endif

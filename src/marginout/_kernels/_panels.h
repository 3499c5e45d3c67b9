/* Products of small dense panels that stay in the cache: C += A B.
 *
 *     C[i, j] += sum over l of A[i, l] * B[l, j]        (rows x columns, depth)
 *
 * A is read by two strides, so it may be a transpose; B and C are stored by rows. The numbers of
 * rows and columns are multiples of PANEL: whoever calls pads. A tile of PANEL rows and up to TILE
 * quads of columns is kept in registers, twelve sums of the sixteen that a processor has. */
#ifndef MARGINOUT_PANELS_H
#define MARGINOUT_PANELS_H

#include <stddef.h>

#include "_simd.h"

#define PANEL 4
#define TILE 3

static inline inlined_void panel_tile(
    const int quads, ptrdiff_t depth, const double *A, ptrdiff_t A_row, ptrdiff_t A_deep, const double *B,
    ptrdiff_t B_row, double *C, ptrdiff_t C_row) {
  quad sums[PANEL][TILE];
  for (int i = 0; i < PANEL; i++)
    for (int j = 0; j < quads; j++) sums[i][j] = *(const quad *)(C + i * C_row + j * QUAD);
  for (ptrdiff_t l = 0; l < depth; l++, A += A_deep, B += B_row)
    for (int i = 0; i < PANEL; i++)
      for (int j = 0; j < quads; j++) sums[i][j] += A[i * A_row] * *(const quad *)(B + j * QUAD);
  for (int i = 0; i < PANEL; i++)
    for (int j = 0; j < quads; j++) *(quad *)(C + i * C_row + j * QUAD) = sums[i][j];
}

static cloned_void panel_product(
    ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, const double *A, ptrdiff_t A_row, ptrdiff_t A_deep,
    const double *B, ptrdiff_t B_row, double *C, ptrdiff_t C_row) {
  for (ptrdiff_t j = 0; j < columns; j += TILE * QUAD)
    for (ptrdiff_t i = 0; i < rows; i += PANEL) {
      const double *a = A + i * A_row;
      double *c = C + i * C_row + j;
      if (columns - j >= 3 * QUAD)
        panel_tile(3, depth, a, A_row, A_deep, B + j, B_row, c, C_row);
      else if (columns - j >= 2 * QUAD)
        panel_tile(2, depth, a, A_row, A_deep, B + j, B_row, c, C_row);
      else
        panel_tile(1, depth, a, A_row, A_deep, B + j, B_row, c, C_row);
    }
}

#endif

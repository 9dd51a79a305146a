/* The kernels of a bilinear grid_sample in two dims: places of the grid as neighbours with weights, and an image's
 * values there. */
#ifndef TPI_GRID_POINTS_H
#define TPI_GRID_POINTS_H
#include <stdbool.h>
#include <stdint.h>
#include "device/cpu/isa.h"
#include "device/device.h"

enum { TPI_GRID_BLOCK = 128 }; /* places at a time */

typedef struct tpi_grid_points {   /* of four neighbours each */
    int32_t at[4][TPI_GRID_BLOCK]; /* where in a plane; somewhere in it if the neighbour is outside, */
    int32_t in[4][TPI_GRID_BLOCK]; /* where this is 0, else all ones */
    float weight[4][TPI_GRID_BLOCK];
    float right[TPI_GRID_BLOCK], below[TPI_GRID_BLOCK]; /* how far the place is from its first neighbour */
} tpi_grid_points;

/* n pairs (x, y) of the grid in a plane of that height and width; border: what is outside is moved to the edge. */
TPI_ISA_DECLARE(void, tpi_grid_find,
                (int64_t n, const float *grid, int64_t height, int64_t width, bool align, bool border,
                 tpi_grid_points *p));
/* A plane's values there. */
TPI_ISA_DECLARE(void, tpi_grid_read, (int64_t n, const float *plane, const tpi_grid_points *p, float *to));
/* Backward: adds a plane's gradient at the places to those of its neighbours, and the gradient times the neighbours'
 * values to `dots`. */
TPI_ISA_DECLARE(void, tpi_grid_spread,
                (int64_t n, const float *plane, const float *grad, const tpi_grid_points *p, float *back,
                 float dots[4][TPI_GRID_BLOCK]));
/* The gradient of the grid's pairs from the dots over all channels; the arguments are those of tpi_grid_find. */
TPI_ISA_DECLARE(void, tpi_grid_slopes,
                (int64_t n, const float *grid, int64_t height, int64_t width, bool align, bool border,
                 const tpi_grid_points *p, float dots[4][TPI_GRID_BLOCK], float *to));
#endif

/* Convolution directly from padded images, float32: no matrix of patches. It serves every kernel size, stride, dilation
 * and number of groups, in one to three dims.
 *
 * The images that are read are copied, with zeros around them and split by the stride: elements that are a stride apart
 * stand side by side. Then every product has the same form, whatever the stride and the dilation,
 *
 *     out[o][position] = sum over p of filters[o][p] * in[offsets[p] + position]
 *
 * and positions can be counted through the ends of rows, which gives full vectors for small images too. The results of
 * positions between two rows are not used. */
#ifndef TPI_CONV_DIRECT_H
#define TPI_CONV_DIRECT_H
#include "device/cpu/isa.h"
#include "ops/conv/conv.h"

/* How one channel of an image lies in its copy. The copy has parts[0] * parts[1] * parts[2] parts, one per remainder r
 * of the coordinates by the step that is read, of extent[0] * extent[1] * extent[2] elements: element i of a part is
 * the one at i * step + r + origin, 0 outside of the image and from `count` on. */
typedef struct tpi_direct_copy {
    int64_t size[3]; /* of the image */
    int64_t step[3], parts[3], origin[3], extent[3], count[3];
    int64_t tail;          /* zeros behind the last row: the ones behind other rows are the ones before the next */
    const uint16_t *lanes; /* AVX-512: which lanes of the vectors from a row's start on have an element of the image, if
                              its rows are copied whole; NULL: row by row */
} tpi_direct_copy;

/* Positions: count[0] * count[1] runs of `length` positions one after the other, whose starts are pitch[0] and pitch[1]
 * apart. */
typedef struct tpi_direct_runs {
    int64_t count[2], pitch[2], length;
} tpi_direct_runs;

/* Makes `rows` rows of results. */
typedef struct tpi_direct_strip {
    tpi_direct_runs runs;
    int64_t rows;           /* at most tpi_direct_height */
    int64_t patch, block;   /* elements of a patch, and of those that are multiplied together */
    const int64_t *offsets; /* of the patch's elements in the copy */
    const float *filters;   /* (patch, rows) */
    const float *bias;      /* a value per row, or NULL */
    int64_t out_row;        /* from one row of results to the next */
} tpi_direct_strip;

/* The rows of a strip at most, and how far past a run's end kernels may read and write. */
TPI_ISA_DECLARE(int64_t, tpi_direct_height, (void));
enum { TPI_DIRECT_SLACK = 128 };

TPI_ISA_DECLARE(void, tpi_direct_copy_in, (const tpi_direct_copy *c, const float *image, float *to));
/* The reverse for the parts that share part[0] and part[1]: step[2] parts, `apart` from one another. */
TPI_ISA_DECLARE(void, tpi_direct_copy_out,
                (const tpi_direct_copy *c, const int64_t part[2], const float *from, int64_t apart, float *image));
TPI_ISA_DECLARE(void, tpi_direct_strip_run, (const tpi_direct_strip *s, const float *in, float *out));

/* The filters' gradient: grads[o][p] += the sum over positions of out[o][position] * in[offsets[p] + position], over
 * several images. Outputs hold zeros between rows and past runs' ends. */
typedef struct tpi_direct_grads {
    tpi_direct_runs runs;
    int64_t rows, patch;
    const int64_t *offsets;
    int64_t images, in_image, out_image; /* from one image to the next */
    int64_t out_row;
} tpi_direct_grads;
TPI_ISA_DECLARE(void, tpi_direct_grads_run,
                (const tpi_direct_grads *g, const float *in, const float *out, float *grads));
#endif

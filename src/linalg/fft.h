/* Discrete Fourier transforms of lines: plans with their tables, and the kernels that run them.
 *
 * A kernel transforms several lines ("lanes") at once. Real and imaginary parts lie apart, element k of lane l at [k *
 * lanes + l], so that every loop runs over contiguous numbers. The inverse is the same with real and imaginary parts
 * exchanged. */
#ifndef TPI_FFT_H
#define TPI_FFT_H
#include "device/cpu/isa.h"
#include <stdatomic.h>
#include <taper/base.h>

/* SLACK: numbers behind each work array that kernels may read and write. */
enum { TPI_FFT_STAGES = 64, TPI_FFT_LARGEST_RADIX = 16, TPI_FFT_LARGEST_ODD = 13, TPI_FFT_SLACK = 16 };

typedef struct tpi_fft_stage {
    int radix;
    int64_t twiddles; /* where this stage's factors start in `tables`, in complex numbers: radix - 1 for each of m = n /
                         radix */
    int64_t roots;    /* where the radix's own roots of unity start (radixes 11 and 13) */
} tpi_fft_stage;

typedef struct tpi_fft_plan {
    int64_t n;
    bool single;  /* float32 tables, else float64 */
    bool in_line; /* was a plan for single lines asked for? */
    int first;    /* 0, or the radix of the first stage of a plan for single lines, whose factors are laid out for
                     vectors: for each k >= 1 the real parts, then the imaginary ones, of all m */
    int together; /* how many lines such a plan transforms at once: 1, 2 or 4 */
    int stages;   /* 0: by Bluestein's chirp */
    tpi_fft_stage stage[TPI_FFT_STAGES];
    int64_t half;               /* where exp(-i pi k / n), k <= n, starts: for real lines of 2n */
    int64_t chirp, chirp_fft;   /* Bluestein: exp(-i pi k^2 / n), k < n, and the transform of its conjugate, divided by
                                   the inner size */
    struct tpi_fft_plan *inner; /* Bluestein: a power of two of at least 2n - 1; owned */
    void *tables;
    size_t table_bytes;
    atomic_int refs;
} tpi_fft_plan;

/* The plan for n >= 1, from a small shared table or made; NULL and an error without memory. in_line: for
 * tpi_fft_line, if this length has one (`first` is not 0 then), else for tpi_fft_run. Give it back with
 * tpi_fft_release. */
tpi_fft_plan *tpi_fft_plan_of(int64_t n, bool single, bool in_line);
void tpi_fft_release(tpi_fft_plan *plan);
/* How many numbers each of the four work arrays must hold for that many lanes. */
int64_t tpi_fft_work_size(const tpi_fft_plan *plan, int64_t lanes);

/* Where lines lie in memory, as complex numbers: side by side, with a step in numbers from one element to the next.
 * NULL: in work[0] (real) and work[1] (imaginary), not scaled. `swapped`: real and imaginary parts
 * are exchanged on both ends, which is the inverse. */
typedef struct tpi_fft_ends {
    const void *from;
    void *to;
    int64_t from_step, to_step;
    double scale;
    bool swapped;
} tpi_fft_ends;

/* Transforms `lanes` lines; between arrays alone if they are fewer than a vector's lanes, or the plan is Bluestein's.
 * Where memory is both read and written, it may be the same, if the plan has two stages or more. work[2] and work[3]
 * are scratch. Arrays may be exchanged: afterwards work[0] and work[1] are where the results are. */
TPI_ISA_DECLARE(void, tpi_fft_run_f32,
                (const tpi_fft_plan *plan, int64_t lanes, const tpi_fft_ends *ends, float **work));
TPI_ISA_DECLARE(void, tpi_fft_run_f64,
                (const tpi_fft_plan *plan, int64_t lanes, const tpi_fft_ends *ends, double **work));

/* Transforms plan->together lines of complex numbers, by a plan for single lines; `swapped` as above. work[0] to
 * work[3] hold that many lines' numbers, work[4] twice as many. A line may be named more than once. */
TPI_ISA_DECLARE(void, tpi_fft_line_f32,
                (const tpi_fft_plan *plan, const float *const *from, float *const *to, float scale, bool swapped,
                 float **work));
TPI_ISA_DECLARE(void, tpi_fft_line_f64,
                (const tpi_fft_plan *plan, const double *const *from, double *const *to, double scale, bool swapped,
                 double **work));
/* The lanes of a vector, and the largest radix that is a power of two. */
TPI_ISA_DECLARE(int, tpi_fft_vector_lanes, (bool single));
TPI_ISA_DECLARE(int, tpi_fft_largest_power, (void));

/* Between complex numbers in memory and a kernel's arrays. Lines whose elements follow each other, 4 or more of them,
 * by eights: */
TPI_ISA_DECLARE(void, tpi_fft_load_lines, (int64_t n, int64_t lanes, const float *const *line, float *re, float *im));
TPI_ISA_DECLARE(void, tpi_fft_store_lines,
                (int64_t n, int64_t lanes, const float *re, const float *im, float scale, float *const *line));
/* Lines that lie beside each other, their elements `step` numbers apart: */
TPI_ISA_DECLARE(void, tpi_fft_load_across_f32,
                (int64_t n, int64_t lanes, const float *from, int64_t step, float *re, float *im));
TPI_ISA_DECLARE(void, tpi_fft_load_across_f64,
                (int64_t n, int64_t lanes, const double *from, int64_t step, double *re, double *im));
TPI_ISA_DECLARE(void, tpi_fft_store_across_f32,
                (int64_t n, int64_t lanes, const float *re, const float *im, float scale, float *to, int64_t step));
TPI_ISA_DECLARE(void, tpi_fft_store_across_f64,
                (int64_t n, int64_t lanes, const double *re, const double *im, double scale, double *to, int64_t step));
/* Between the transform of a real line's even and odd elements, as one complex line of half the length h, and the half
 * of the real line's own: elements [first, last) of all lanes. `half` has exp(-i pi k / h). */
TPI_ISA_DECLARE(void, tpi_fft_make_half_f32,
                (int64_t first, int64_t last, int64_t h, const float *half, int64_t lanes, const float *re,
                 const float *im, float *xr, float *xi));
TPI_ISA_DECLARE(void, tpi_fft_make_half_f64,
                (int64_t first, int64_t last, int64_t h, const double *half, int64_t lanes, const double *re,
                 const double *im, double *xr, double *xi));
TPI_ISA_DECLARE(void, tpi_fft_load_half_f32,
                (int64_t first, int64_t last, const float *half, int64_t lanes, const float *xr, const float *xi,
                 const float *yr, const float *yi, float *re, float *im));
TPI_ISA_DECLARE(void, tpi_fft_load_half_f64,
                (int64_t first, int64_t last, const double *half, int64_t lanes, const double *xr, const double *xi,
                 const double *yr, const double *yi, double *re, double *im));
/* The same for one line, between complex numbers in memory. */
TPI_ISA_DECLARE(void, tpi_fft_make_half_line_f32,
                (int64_t h, const float *half, const float *z, float scale, float *x));
TPI_ISA_DECLARE(void, tpi_fft_make_half_line_f64,
                (int64_t h, const double *half, const double *z, double scale, double *x));
TPI_ISA_DECLARE(void, tpi_fft_load_half_line_f32, (int64_t h, const float *half, const float *x, float *z));
TPI_ISA_DECLARE(void, tpi_fft_load_half_line_f64, (int64_t h, const double *half, const double *x, double *z));
#endif

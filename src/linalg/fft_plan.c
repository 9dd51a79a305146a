/* FFT plans: how a length is cut into stages, the factors each stage needs, and a small table of plans that threads
 * share. */
#include "base/error.h"
#include "base/memory.h"
#include "device/device.h"
#include "linalg/fft.h"
#include <math.h>
#include <pthread.h>
#include <string.h>

/* ---- Making plans ---- */

/* exp(-2 pi i k / n), from the eighth of the circle where cosine and sine are most exact. */
static void root_of_unity(int64_t k, int64_t n, double *re, double *im) {
    k %= n;
    int64_t eighth = 8 * k / n;         /* 0 .. 7 */
    int64_t quarter = (eighth + 1) / 2; /* the nearest multiple of a quarter turn */
    double angle = 2 * 3.14159265358979323846 * (double)(4 * k - quarter * n) / (4 * (double)n);
    double c = cos(angle), s = sin(angle);
    double rotated[4][2] = {{c, s}, {-s, c}, {-c, -s}, {s, -c}};
    *re = rotated[quarter % 4][0];
    *im = -rotated[quarter % 4][1];
}

static void put_entry(const tpi_fft_plan *p, int64_t at, double re, double im) {
    if (p->single) {
        ((float *)p->tables)[2 * at] = (float)re;
        ((float *)p->tables)[2 * at + 1] = (float)im;
    } else {
        ((double *)p->tables)[2 * at] = re;
        ((double *)p->tables)[2 * at + 1] = im;
    }
}

static void put_root(const tpi_fft_plan *p, int64_t at, int64_t k, int64_t n) {
    double re, im;
    root_of_unity(k, n, &re, &im);
    put_entry(p, at, re, im);
}

/* The factor for element q of m and result k, in a table of real parts and imaginary parts apart. */
static void put_apart(const tpi_fft_plan *p, int64_t table, int64_t m, int64_t q, int k, int64_t n) {
    double part[2];
    root_of_unity(q * k, n, part, part + 1);
    for (int i = 0; i < 2; i++) {
        const int64_t at = 2 * table + (2 * k - 2 + i) * m + q;
        if (p->single)
            ((float *)p->tables)[at] = (float)part[i];
        else
            ((double *)p->tables)[at] = part[i];
    }
}

/* Does the stage of such a radix read a table of roots of its own? */
static bool has_roots(int radix) { return radix == 11 || radix == 13; }

static void add_stages(tpi_fft_plan *p, int radix, int count) {
    while (count-- > 0) p->stage[p->stages++].radix = radix;
}

/* 2^twos in as few stages as there can be, each of which goes over all elements once. A two alone is for n = 2. */
static void add_powers(tpi_fft_plan *p, int twos) {
    const int most = TPI_ISA_PICK(tpi_fft_largest_power)() == 16 ? 4 : 3;
    const int stages = (twos + most - 1) / most, missing = stages * most - twos;
    const bool short_one = missing > stages; /* 2, 4, or 4 behind 8 where 16 is the largest */
    if (short_one) {
        add_stages(p, 8, stages - 1);
        add_stages(p, twos == 1 ? 2 : 4, 1);
        return;
    }
    add_stages(p, 1 << most, stages - missing);
    add_stages(p, 1 << (most - 1), missing);
}

/* The radix of a single line's first stage: a vector's lanes, or half or a quarter of them, if that leaves as many
 * elements between those that it takes together; else 0. Halves of real lines need two vectors. */
static int choose_first(int64_t n, int lanes) {
    for (int radix = lanes; radix >= lanes / 4 && radix > 1 && n >= 2 * lanes; radix /= 2)
        if (n % radix == 0 && n / radix >= radix) return radix;
    return 0;
}

/* Powers of two, then odd factors, which come last so that their strides are long; false if a prime factor is too
 * large. */
static bool choose_stages(tpi_fft_plan *p) {
    static const int radixes[] = {3, 5, 7, 11, 13};
    const int lanes = TPI_ISA_PICK(tpi_fft_vector_lanes)(p->single);
    p->first = p->in_line ? choose_first(p->n, lanes) : 0;
    p->together = p->first ? lanes / p->first : 1;
    add_stages(p, p->first, p->first != 0);
    const int64_t rest = p->first ? p->n / p->first : p->n;
    const int twos = __builtin_ctzll((unsigned long long)rest);
    int64_t left = rest >> twos;
    if (twos) add_powers(p, twos);
    for (size_t i = 0; i < sizeof radixes / sizeof *radixes; i++)
        while (left % radixes[i] == 0 && p->stages < TPI_FFT_STAGES) {
            add_stages(p, radixes[i], 1);
            left /= radixes[i];
        }
    if (left == 1) return true;
    p->stages = p->first = 0;
    return false;
}

/* Where everything goes in the tables; returns how many complex numbers they hold. */
static int64_t lay_out(tpi_fft_plan *p) {
    int64_t at = 0, n = p->n;
    for (int i = 0; i < p->stages; i++) {
        int radix = p->stage[i].radix;
        p->stage[i].twiddles = at;
        at += (radix - 1) * (n / radix);
        p->stage[i].roots = at;
        at += has_roots(radix) ? radix : 0;
        n /= radix;
    }
    p->half = at;
    at += p->n + 1;
    if (p->inner) {
        p->chirp = at;
        at += p->n;
        p->chirp_fft = at;
        at += p->inner->n;
    }
    return at;
}

static void fill_stages(const tpi_fft_plan *p) {
    int64_t n = p->n;
    for (int i = 0; i < p->stages; i++) {
        const tpi_fft_stage *s = &p->stage[i];
        for (int64_t q = 0; q < n / s->radix; q++)
            for (int k = 1; k < s->radix; k++)
                if (i == 0 && p->first)
                    put_apart(p, s->twiddles, n / s->radix, q, k, n);
                else
                    put_root(p, s->twiddles + q * (s->radix - 1) + k - 1, q * k, n);
        for (int j = 0; has_roots(s->radix) && j < s->radix; j++) put_root(p, s->roots + j, j, s->radix);
        n /= s->radix;
    }
}

/* The chirp, and the transform of its conjugate laid around a circle of the inner size. Needs scratch for two work
 * arrays twice over. */
static bool fill_chirp(const tpi_fft_plan *p) {
    int64_t n = p->n, size = p->inner->n;
    tpi_fft_plan *exact = tpi_fft_plan_of(size, false, false);
    const int64_t room = tpi_fft_work_size(p->inner, 1);
    size_t bytes = (size_t)room * 4 * sizeof(double);
    double *scratch = exact ? tpi_alloc(bytes) : NULL;
    if (!scratch) {
        tpi_fft_release(exact);
        return false;
    }
    double *work[4] = {scratch, scratch + room, scratch + 2 * room, scratch + 3 * room};
    memset(scratch, 0, bytes);
    for (int64_t k = 0, square = 0; k < n; k++) { /* square = k^2 mod 2n */
        double re, im;
        root_of_unity(square, 2 * n, &re, &im);
        put_entry(p, p->chirp + k, re, im);
        int64_t other = k ? size - k : 0;
        work[0][k] = work[0][other] = re;
        work[1][k] = work[1][other] = -im;
        square = (square + 2 * k + 1) % (2 * n);
    }
    TPI_ISA_PICK(tpi_fft_run_f64)(exact, 1, &(tpi_fft_ends){0}, work);
    for (int64_t k = 0; k < size; k++)
        put_entry(p, p->chirp_fft + k, work[0][k] / (double)size, work[1][k] / (double)size);
    tpi_free(scratch, bytes);
    tpi_fft_release(exact);
    return true;
}

static void free_plan(tpi_fft_plan *p) {
    if (p->tables) tpi_free(p->tables, p->table_bytes);
    tpi_fft_release(p->inner);
    tpi_delete(p, sizeof *p);
}

static tpi_fft_plan *make_plan(int64_t n, bool single, bool in_line) {
    tpi_fft_plan *p = tpi_new0(sizeof *p);
    if (!p) return NULL;
    p->n = n;
    p->single = single;
    p->in_line = in_line;
    atomic_init(&p->refs, 1);
    if (!choose_stages(p)) {
        int64_t size = 1;
        while (size < 2 * n - 1) size *= 2;
        p->inner = tpi_fft_plan_of(size, single, false);
        if (!p->inner) {
            free_plan(p);
            return NULL;
        }
    }
    p->table_bytes = (size_t)lay_out(p) * (single ? 8 : 16);
    p->tables = tpi_alloc(p->table_bytes);
    if (!p->tables) {
        free_plan(p);
        return NULL;
    }
    fill_stages(p);
    for (int64_t k = 0; k <= n; k++) put_root(p, p->half + k, k, 2 * n);
    if (p->inner && !fill_chirp(p)) {
        free_plan(p);
        return NULL;
    }
    return p;
}

/* ---- The shared table ---- */

enum { KEPT = 32 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tpi_fft_plan *kept[KEPT];
static int next_out; /* the slot that a new plan takes, in turn */

static tpi_fft_plan *find_kept(int64_t n, bool single, bool in_line) {
    for (int i = 0; i < KEPT; i++)
        if (kept[i] && kept[i]->n == n && kept[i]->single == single && kept[i]->in_line == in_line) {
            atomic_fetch_add(&kept[i]->refs, 1);
            return kept[i];
        }
    return NULL;
}

tpi_fft_plan *tpi_fft_plan_of(int64_t n, bool single, bool in_line) {
    pthread_mutex_lock(&lock);
    tpi_fft_plan *p = find_kept(n, single, in_line);
    pthread_mutex_unlock(&lock);
    if (p) return p;
    /* Outside of the lock: another thread may make the same one, and one of the two is dropped later. */
    p = make_plan(n, single, in_line);
    if (!p) return NULL;
    atomic_fetch_add(&p->refs, 1);
    pthread_mutex_lock(&lock);
    tpi_fft_plan *out = kept[next_out];
    kept[next_out] = p;
    next_out = (next_out + 1) % KEPT;
    pthread_mutex_unlock(&lock);
    tpi_fft_release(out);
    return p;
}

void tpi_fft_release(tpi_fft_plan *plan) {
    if (plan && atomic_fetch_sub(&plan->refs, 1) == 1) free_plan(plan);
}

int64_t tpi_fft_work_size(const tpi_fft_plan *plan, int64_t lanes) {
    return (plan->inner ? plan->inner->n : plan->n) * lanes + TPI_FFT_SLACK;
}

/* The samples of the operator tables, and what every test that loops over them shares: arguments of a sample for a
 * dtype and a memory layout, made anew for each call; calls through the operator's boxed form; comparison; failures
 * collected and shown with their place.
 *
 * TAPER_TEST_OP=softmax runs one operator alone, TAPER_TEST_PART=2/8 the operators of the second of eight parts,
 * TAPER_TEST_FAILURES=1000 shows more failures than the first 60. */
#ifndef TAPER_SAMPLES_H
#define TAPER_SAMPLES_H
#include <taper/taper.h>

typedef enum sample_kind {
    SAMPLE_TENSOR,
    SAMPLE_LIST,
    SAMPLE_INTS,
    SAMPLE_FLOATS,
    SAMPLE_INT,
    SAMPLE_FLOAT,
    SAMPLE_STRING,
    SAMPLE_BOOL,
    SAMPLE_NONE,
    SAMPLE_DTYPE /* or another bare word: a device, a layout */
} sample_kind;

typedef enum sample_maker {
    MAKE_T,
    MAKE_POS,
    MAKE_UNIT,
    MAKE_PROB,
    MAKE_BIG,
    MAKE_AWAY,
    MAKE_DISTINCT,
    MAKE_SPD,
    MAKE_WELLCOND,
    MAKE_BEGINS,
    MAKE_INTS,
    MAKE_INT32S,
    MAKE_BOOLS,
    MAKE_COMPLEX
} sample_maker;

typedef struct sample_value {
    sample_kind kind;
    const char *name; /* NULL: by position */
    sample_maker maker;
    int ndim, shape[6], low, high;
    int n;
    const int64_t *ints;
    const double *floats;
    const struct sample_value *items;
    long long i;
    double f;
    const char *s;
} sample_value;

typedef struct operator_sample {
    const char *op, *file;
    int line;
    const char *text;
    int types;          /* TPI_CAT_* that the operator takes */
    bool no_half;       /* but none of the 16-bit floating types */
    const char *dtypes; /* the only dtypes this sample is for, or NULL */
    bool nograd, nograd2;
    unsigned nondiff;  /* bit i: argument i has no derivative */
    const char *error; /* an error sample: words of the message */
    int nargs;
    const sample_value *args;
} operator_sample;

extern const operator_sample operator_samples[];
extern const int operator_sample_count;

/* ---- Arguments ---- */
typedef enum variant { /* how a tensor argument lies in memory; what it holds is the same in all but the last two */
                       PLAIN,
                       TRANSPOSED, /* dims stored in the opposite order */
                       STEPPED,    /* every other element of a larger block */
                       OFFSET,     /* some elements into its storage */
                       EXPANDED,   /* the largest dim has stride 0 */
                       REPEATED,   /* EXPANDED's values, laid out plainly */
                       VARIANTS
} variant;
extern const char *const variant_names[VARIANTS];

enum { MAX_ARGUMENTS = 24, MAX_TENSORS = 16 };
typedef struct arguments {
    const tp_operator *op;
    tp_value values[MAX_ARGUMENTS]; /* one per argument of the operator */
    int ntensors;
    tp_tensor *tensors[MAX_TENSORS];   /* all tensors among them, in order */
    int argument[MAX_TENSORS];         /* which argument each belongs to */
    tp_tensor *lists[MAX_TENSORS + 1]; /* where list arguments point */
    tp_scalar numbers[8];              /* where lists of numbers that were not written as such point */
    double floats[8];
    int nnumbers;
    bool varied; /* did the variant change how any of them lies? */
} arguments;

typedef struct shape_override { /* every tensor argument gets this shape instead of its own */
    int ndim;
    int64_t shape[2];
} shape_override;

/* The arguments of a sample, always of the same values. False, with a failure reported, when they cannot be made. */
bool make_arguments(const operator_sample *sample, tp_dtype dtype, variant how, const shape_override *shape,
                    arguments *out);
/* The same tensors converted to float64, complex128 or int64, whichever holds the values of all of them. */
bool widen_arguments(const arguments *from, arguments *out);
/* The same tensors, lying in memory as they do, on another device; what the operator makes goes there too. */
bool move_arguments(const arguments *from, tp_device device, arguments *out);
void drop_arguments(arguments *args);
/* The tensors that have derivatives now require grad; returns how many (their positions in `which`). */
int want_gradients(const operator_sample *sample, arguments *args, int *which);

bool sample_allows(const operator_sample *sample, tp_dtype dtype);
tp_dtype first_dtype(const operator_sample *sample); /* float32 where allowed, else the first that is */

/* ---- Calls ---- */
typedef struct results {
    int n;
    tp_tensor *tensors[32]; /* owned; lists flattened */
    double plain;           /* the result of operators that return a number or a truth */
} results;
/* Seeds the default generator, calls, and flattens the results. False: an error is pending. */
bool call(const arguments *args, results *out);
void drop_results(results *r);
bool call_was_random(void);               /* did the last call draw random numbers? */
bool leaves_memory_unset(const char *op); /* empty and its kin: values mean nothing */
bool depends_on_strides(
    const char *op); /* as_strided, view: their meaning, or whether they work, hangs on the memory layout */

/* ---- Calls with gradients: of one real loss, Re(sum(conj(w) * result)) over all floating results ---- */
typedef struct evaluation {
    arguments args;
    results results;
    int n, which[MAX_TENSORS];     /* the tensors that get gradients */
    tp_tensor *weights[32];        /* of the results, NULL where not weighted; owned */
    tp_tensor *grads[MAX_TENSORS]; /* one per `which`, NULL where none flows; owned */
} evaluation;
typedef enum weighting {
    WEIGHTS_ALL,      /* normal values, weights_like(result, its number + 1) */
    WEIGHTS_EXPANDED, /* one value, with stride 0 in every dim */
    WEIGHTS_REPEATED  /* the same, laid out plainly */
} weighting;
/* Makes the arguments, and asks for gradients; e->results is for call() to fill. */
bool prepare(const operator_sample *sample, tp_dtype dtype, variant how, evaluation *e);
bool differentiate(evaluation *e, bool create_graph, weighting how); /* false: an error is pending */
void drop_evaluation(evaluation *e);
bool is_weighted(const tp_tensor *result);
tp_tensor *weights_like(const tp_tensor *t, uint64_t seed); /* the same for the same seed; owned */

/* ---- Comparing; the difference is described in difference() ---- */
bool same_kind(const tp_tensor *got, const tp_tensor *want); /* shape and dtype */
bool same_bits(const tp_tensor *got,
               const tp_tensor *want); /* shape, dtype, and every bit of the elements (all NaNs are one) */
/* |got - want| <= tolerance * (|want| + the largest finite |want|) for every element, whatever the dtypes. */
bool near(const tp_tensor *got, const tp_tensor *want, double tolerance);
bool vanishes(const tp_tensor *t, double bound); /* no element is larger */
double tolerance_of(tp_dtype dtype);
const char *difference(void);

/* Elements as pairs of doubles (real, imaginary), row-major, in a block for free(). NULL and a failure on error. */
double *numbers_of(const tp_tensor *t);

/* ---- Failures ---- */
/* What the loop is at: it stands before each failure's message. */
void at(const operator_sample *sample, tp_dtype dtype, const char *what);
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));
void report_error(const char *doing); /* with the pending error, which it clears */
void fail_if_reported(void);          /* the end of a cmocka test: shows the failures and fails if there were any */

/* Runs `body` for each sample (error samples when `errors`). What it leaves behind in errors, modes and memory is
 * cleared, and a crash in it counts as one failure. */
void for_each_sample(bool errors, void (*body)(const operator_sample *sample, const tp_operator *op));
#endif

/* Tensors themselves: making and releasing, views, geometry, the iteration plan, scopes, reading values, DLPack. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <taper/dlpack.h>
#include "tensor/plan.h"
#include "tensor/storage.h"

static const tp_device cpu = {TP_CPU, 0};

static tp_tensor *empty(tp_ints shape) {
    tp_tensor *t = tpi_empty(shape, TP_FLOAT32, cpu);
    assert_non_null(t);
    return t;
}

/* 0, 1, 2, ... */
static tp_tensor *counting(tp_ints shape) {
    tp_tensor *t = empty(shape);
    for (int64_t i = 0; i < t->numel; i++) ((float *)t->data)[i] = (float)i;
    return t;
}

static void assert_ints(tp_ints got, tp_ints want) {
    assert_int_equal(got.n, want.n);
    for (int64_t i = 0; i < got.n; i++) assert_int_equal(got.v[i], want.v[i]);
}

static void assert_error(tp_code code, const char *words) {
    assert_non_null(tp_error());
    assert_int_equal(tp_error_code(), code);
    if (!strstr(tp_error(), words)) fail_msg("expected '%s' in '%s'", words, tp_error());
    tp_error_clear();
}

/* Nothing that a test made is left. */
static int64_t live_before;
static int remember_live(void **state) {
    (void)state;
    tp_scope scope = tp_scope_open(); /* the thread's scopes are made once and stay */
    tpi_to_scope(tpi_empty(tp_no_ints(), TP_FLOAT32, cpu));
    tp_scope_close(&scope);
    live_before = tpi_alloc_live();
    return 0;
}
static int nothing_left(void **state) {
    (void)state;
    return tp_ok() && tpi_alloc_live() == live_before ? 0 : -1;
}

/* ---- Making ---- */

static void an_empty_tensor_is_contiguous(void **state) {
    (void)state;
    tp_tensor *t = tpi_empty(TP_INTS(2, 3, 4), TP_FLOAT64, cpu);
    assert_int_equal(tp_ndim(t), 3);
    assert_int_equal(tp_numel(t), 24);
    assert_ints(tp_shape(t), TP_INTS(2, 3, 4));
    assert_ints(tp_strides(t), TP_INTS(12, 4, 1));
    assert_int_equal(tp_storage_bytes(t), 192);
    assert_int_equal((uintptr_t)tp_data(t) % TPI_ALIGN, 0);
    assert_true(tp_is_contiguous(t));
    assert_false(tp_is_view(t));
    tp_release(t);
}

static void sizes_of_zero_and_many_dims(void **state) {
    (void)state;
    tp_tensor *none = empty(TP_INTS(2, 0, 3)), *scalar = empty(tp_no_ints()),
              *deep = empty(TP_INTS(1, 2, 1, 2, 1, 2, 3));
    assert_int_equal(none->numel, 0);
    assert_ints(tpi_strides(none), TP_INTS(3, 3, 1));
    assert_int_equal(scalar->numel, 1);
    assert_ints(tpi_strides(deep), TP_INTS(24, 12, 12, 6, 6, 3, 1));
    tp_release(none);
    tp_release(scalar);
    tp_release(deep);
}

static void impossible_shapes_are_refused(void **state) {
    (void)state;
    assert_null(tpi_empty(TP_INTS(2, -1), TP_FLOAT32, cpu));
    assert_error(TP_ERR_RUNTIME, "[2, -1]");
    assert_null(tpi_empty(TP_INTS(INT64_MAX, 2), TP_FLOAT32, cpu));
    assert_error(TP_ERR_RUNTIME, "overflow");
    assert_null(tpi_empty(TP_INTS(INT64_MAX / 2), TP_FLOAT32, cpu));
    assert_error(TP_ERR_RUNTIME, "overflow");
    assert_null(tpi_empty(TP_INTS(2), (tp_dtype)99, cpu));
    assert_error(TP_ERR_TYPE, "99");
    int64_t many[TP_MAX_DIMS + 1] = {0};
    assert_null(tpi_empty(tp_ints_view(many, TP_MAX_DIMS + 1), TP_FLOAT32, cpu));
    assert_error(TP_ERR_RUNTIME, "at most 32");
}

static void data_is_copied_in_and_out(void **state) {
    (void)state;
    int32_t in[6] = {1, 2, 3, 4, 5, 6}, out[6] = {0};
    tp_tensor *t = tp_from_data(in, TP_INT32, TP_INTS(2, 3));
    in[0] = 99;
    tp_tensor *transposed = tpi_alias(t, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, 0);
    assert_true(tp_copy_out(transposed, out, sizeof out));
    assert_memory_equal(out, ((int32_t[]){1, 4, 2, 5, 3, 6}), sizeof out);
    assert_false(tp_copy_out(t, out, 20));
    assert_error(TP_ERR_VALUE, "24 bytes");
    tp_release(t);
    tp_release(transposed);
    assert_null(tp_from_data(NULL, TP_INT32, TP_INTS(2)));
    assert_error(TP_ERR_VALUE, "tp_from_data: argument 'data'");
}

static int released;
static void count_release(void *context) { released += *(int *)context; }

static void foreign_memory_is_given_back_once(void **state) {
    (void)state;
    float memory[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    int one = 1;
    released = 0;
    tp_tensor *t = tp_over_data(memory, TP_FLOAT32, TP_INTS(2, 3), TP_INTS(4, 1), count_release, &one);
    tp_tensor *view = tpi_alias(t, 1, (int64_t[]){3}, (int64_t[]){1}, 4);
    tp_release(t);
    assert_int_equal(released, 0);
    assert_true(tp_data(view) == memory + 4);
    tp_release(view);
    assert_int_equal(released, 1);

    assert_null(tp_over_data(memory, TP_FLOAT32, TP_INTS(2), TP_INTS(-1), count_release, &one));
    assert_error(TP_ERR_VALUE, "[-1]");
    assert_null(tp_over_data(memory, TP_FLOAT32, TP_INTS(2, 2), TP_INTS(1), count_release, &one));
    assert_error(TP_ERR_VALUE, "expected 2 strides");
    assert_null(tp_over_data((char *)memory + 1, TP_FLOAT32, TP_INTS(1), tp_no_ints(), count_release, &one));
    assert_error(TP_ERR_VALUE, "multiple of 4");
    assert_int_equal(released, 1); /* what is refused stays the caller's */
}

static void numbers_become_tensors(void **state) {
    (void)state;
    tp_tensor *b = tp_scalar_tensor_of(tp_truth(true), TP_NO_DTYPE), *i = tp_scalar_tensor_of(tp_int(-7), TP_NO_DTYPE);
    tp_tensor *f = tp_scalar_tensor_of(tp_float(2.5), TP_NO_DTYPE),
              *c = tp_scalar_tensor_of(tp_cplx(1, 2), TP_NO_DTYPE);
    tp_tensor *h = tp_scalar_tensor_of(tp_float(0.5), TP_BFLOAT16), *weak = tpi_of_scalar(tp_int(3), TP_NO_DTYPE, cpu);
    assert_int_equal(tp_dtype_of(b), TP_BOOL);
    assert_int_equal(tp_dtype_of(i), TP_INT64);
    assert_int_equal(tp_dtype_of(f), TP_FLOAT32);
    assert_int_equal(tp_dtype_of(c), TP_COMPLEX64);
    assert_int_equal(tp_item_int(i), -7);
    assert_true(tp_item(f) == 2.5);
    assert_true(tp_item(h) == 0.5);
    assert_true(tp_item(b) == 1);
    assert_true(tp_item_scalar(c).as.d[1] == 2);
    assert_true(isnan(tp_item(c)));
    assert_error(TP_ERR_RUNTIME, "imaginary");
    assert_true((weak->flags & TPI_WRAPPED));
    assert_true(!(f->flags & TPI_WRAPPED));
    tp_tensors all = TP_LIST(b, i, f, c, h, weak);
    for (int64_t k = 0; k < all.n; k++) tp_release(all.v[k]);

    tp_tensor *two = empty(TP_INTS(2));
    assert_true(isnan(tp_item(two)));
    assert_error(TP_ERR_RUNTIME, "2 elements cannot be converted to Scalar");
    tp_release(two);
}

static void null_is_taken_and_passed_on(void **state) {
    (void)state;
    assert_int_equal(tp_ndim(NULL), -1);
    assert_error(TP_ERR_TYPE, "NULL");
    assert_true(isnan(tp_item(NULL)));
    assert_error(TP_ERR_TYPE, "NULL");
    assert_null(tp_keep(NULL));
    assert_null(tp_retain(NULL));
    tp_release(NULL);
}

/* ---- Views ---- */

static void a_view_of_a_view_has_the_root_as_base(void **state) {
    (void)state;
    tp_tensor *t = counting(TP_INTS(4, 6));
    tp_tensor *rows = tpi_alias(t, 2, (int64_t[]){2, 6}, (int64_t[]){12, 1}, 6); /* t[1::2] */
    tp_tensor *column = tpi_alias(rows, 1, (int64_t[]){2}, (int64_t[]){12}, 8);  /* t[1::2, 2] */
    assert_true(rows->base == t);
    assert_true(column->base == t);
    assert_true(((float *)column->data)[0] == 8);
    assert_true(((float *)column->data)[12] == 20);
    assert_int_equal(tp_storage_offset(column), 8);
    assert_true(tp_shares_storage(column, t));
    tpi_touch(column);
    assert_int_equal(tp_tensor_version(t), 1);
    tp_tensor *apart = tpi_detached(column);
    assert_false(tp_is_view(apart));
    assert_int_equal(tp_tensor_version(apart), 1);
    assert_null(tpi_alias(t, 1, (int64_t[]){5}, (int64_t[]){6}, 0));
    assert_error(TP_ERR_RUNTIME, "out of bounds for storage");
    tp_release(t);
    tp_release(rows);
    tp_release(column);
    assert_true(((float *)apart->data)[12] == 20); /* whoever is last keeps the memory */
    tp_release(apart);
}

static int bindings_gone;
static void binding_is_gone(void *binding) { bindings_gone += *(int *)binding; }

static void a_binding_hears_of_the_end(void **state) {
    (void)state;
    int one = 1;
    tp_tensor *t = empty(TP_INTS(2));
    t->binding = &one;
    t->binding_gone = binding_is_gone;
    tp_retain(t);
    tp_release(t);
    assert_int_equal(bindings_gone, 0);
    tp_release(t);
    assert_int_equal(bindings_gone, 1);
    assert_int_equal(tp_references(t), 1); /* the last reference was handed over */
    tp_release(t);
    assert_int_equal(bindings_gone, 1);
}

static void resizing_grows_the_storage_and_keeps_what_was_there(void **state) {
    (void)state;
    tp_tensor *t = counting(TP_INTS(4));
    assert_true(tpi_resize(
        t, TP_INTS(2, 1, 1, 1, 1, 1, 50))); /* out of the storage's own block, and more dims than the header holds */
    assert_int_equal(t->numel, 100);
    assert_ints(tpi_strides(t), TP_INTS(50, 50, 50, 50, 50, 50, 1));
    for (int i = 0; i < 4; i++) assert_true(((float *)t->data)[i] == (float)i);
    memset(t->data, 0, 400);
    assert_true(tpi_resize(t, TP_INTS(3)));
    assert_int_equal(tp_storage_bytes(t), 400);
    tp_tensor *view = tpi_alias(t, 1, (int64_t[]){3}, (int64_t[]){1}, 0);
    assert_false(tpi_resize(t, TP_INTS(1000)));
    assert_error(TP_ERR_RUNTIME, "share");
    assert_ints(tpi_shape(t), TP_INTS(3));
    tp_release(view);
    tp_release(t);
}

static int64_t resident_bytes(void) {
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2);
    fclose(file);
    return resident * (int64_t)sysconf(_SC_PAGESIZE);
}

/* Parameters in parts (FSDP) take their memory back and forth this way. */
static void a_storage_that_shrinks_gives_its_pages_back(void **state) {
    (void)state;
    const int64_t mega = 1 << 20;
    tp_tensor *t = tpi_empty(TP_INTS(64 * mega), TP_UINT8, (tp_device){TP_CPU, 0});
    tp_tensor *view = tpi_alias(t, 1, (int64_t[]){3}, (int64_t[]){1}, 0);
    memset(t->data, 7, (size_t)(64 * mega));
    int64_t before = resident_bytes();
    tp_storage *storage = tp_storage_of(t);
    assert_true(tp_storage_resize(storage, 0));
    assert_true(before - resident_bytes() > 60 * mega);
    assert_true(tp_storage_resize(storage, 64 * mega)); /* at the same place, which the view remembers */
    memset(t->data, 5, (size_t)(64 * mega));
    assert_int_equal(*(uint8_t *)view->data, 5);
    tp_storage_release(storage);
    tp_release(view);
    tp_release(t);
}

/* ---- Geometry ---- */

static void dims_wrap(void **state) {
    (void)state;
    assert_int_equal(tpi_wrap_dim(-1, 3), 2);
    assert_int_equal(tpi_wrap_dim(-1, 0), 0);
    assert_int_equal(tpi_wrap_dim(3, 3), -1);
    assert_error(TP_ERR_INDEX, "expected to be in range of [-3, 2], but got 3");
    bool mask[TP_MAX_DIMS];
    assert_true(tpi_wrap_dims(TP_INTS(0, -1), 3, mask));
    assert_true(mask[0]);
    assert_true(!mask[1]);
    assert_true(mask[2]);
    assert_true(tpi_wrap_dims(tp_no_ints(), 2, mask));
    assert_true(mask[0]);
    assert_true(mask[1]);
    assert_true(!mask[2]);
    assert_false(tpi_wrap_dims(TP_INTS(1, -2), 3, mask));
    assert_error(TP_ERR_RUNTIME, "dim 1 appears multiple times");
}

static void shapes_broadcast(void **state) {
    (void)state;
    int64_t out[TP_MAX_DIMS] = {4};
    int ndim;
    assert_true(tpi_broadcast(TP_INTS(3, 1), TP_INTS(2, 1, 4), out, &ndim));
    assert_ints(tp_ints_view(out, ndim), TP_INTS(2, 3, 4));
    out[0] = 4;
    assert_true(tpi_broadcast(tp_ints_view(out, 1), TP_INTS(2, 3, 1), out, &ndim)); /* in place */
    assert_ints(tp_ints_view(out, ndim), TP_INTS(2, 3, 4));
    assert_true(tpi_broadcast(TP_INTS(0), TP_INTS(1), out, &ndim));
    assert_true(out[0] == 0);
    assert_false(tpi_broadcast(TP_INTS(2, 3), TP_INTS(4), out, &ndim));
    assert_error(TP_ERR_RUNTIME,
                 "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1");
}

static void one_size_can_be_inferred(void **state) {
    (void)state;
    int64_t out[TP_MAX_DIMS];
    assert_true(tpi_infer_size(TP_INTS(2, -1), 6, out));
    assert_true(out[1] == 3);
    assert_true(tpi_infer_size(TP_INTS(2, -1), 0, out));
    assert_true(out[1] == 0);
    assert_false(tpi_infer_size(TP_INTS(4, -1), 6, out));
    assert_error(TP_ERR_RUNTIME, "shape '[4, -1]' is invalid for input of size 6");
    assert_false(tpi_infer_size(TP_INTS(-1, -1), 6, out));
    assert_error(TP_ERR_RUNTIME, "only one dimension can be inferred");
    assert_false(tpi_infer_size(TP_INTS(0, -1), 0, out));
    assert_error(TP_ERR_RUNTIME, "ambiguous");
    assert_false(tpi_infer_size(TP_INTS(-2), 0, out));
    assert_error(TP_ERR_RUNTIME, "invalid shape dimension -2");
}

static void views_without_a_copy(void **state) {
    (void)state;
    int64_t strides[TP_MAX_DIMS];
    tp_tensor *t = empty(TP_INTS(4, 6));
    tp_tensor *transposed = tpi_alias(t, 2, (int64_t[]){6, 4}, (int64_t[]){1, 6}, 0),
              *half = tpi_alias(t, 2, (int64_t[]){4, 3}, (int64_t[]){6, 1}, 0);
    assert_true(tpi_view_strides(t, TP_INTS(2, 2, 3, 2), strides));
    assert_ints(tp_ints_view(strides, 4), TP_INTS(12, 6, 2, 1));
    assert_false(tpi_view_strides(transposed, TP_INTS(24), strides));
    assert_true(tpi_view_strides(transposed, TP_INTS(2, 3, 4), strides));
    assert_ints(tp_ints_view(strides, 3), TP_INTS(3, 1, 6));
    assert_true(tpi_view_strides(half, TP_INTS(2, 2, 1, 3), strides));
    assert_ints(tp_ints_view(strides, 4), TP_INTS(12, 6, 3, 1));
    assert_false(tpi_view_strides(half, TP_INTS(12), strides));
    tp_release(t);
    tp_release(transposed);
    tp_release(half);
}

static void channels_last_and_sizes_of_one(void **state) {
    (void)state;
    tp_tensor *t = tpi_empty_layout(TP_INTS(2, 3, 4, 5), TP_FLOAT32, cpu, TP_CHANNELS_LAST);
    assert_ints(tpi_strides(t), TP_INTS(60, 1, 15, 3));
    assert_true(tp_is_contiguous_as(t, TP_CHANNELS_LAST));
    assert_true(!tp_is_contiguous(t));
    assert_true(tpi_is_dense(t));
    tp_tensor *like = tpi_empty_like(t, TP_FLOAT16);
    assert_ints(tpi_strides(like), TP_INTS(60, 1, 15, 3));
    assert_int_equal(like->dtype, TP_FLOAT16);
    tp_tensor *one = empty(TP_INTS(2, 1, 4, 5)); /* with one channel it is both */
    assert_true(tp_is_contiguous_as(one, TP_CHANNELS_LAST));
    assert_true(tp_is_contiguous(one));
    tp_tensor *cube = tpi_empty_layout(TP_INTS(2, 3, 4, 5, 6), TP_FLOAT32, cpu, TP_CHANNELS_LAST_3D);
    assert_true(tp_is_contiguous_as(cube, TP_CHANNELS_LAST_3D));
    assert_null(tpi_empty_layout(TP_INTS(2, 3), TP_FLOAT32, cpu, TP_CHANNELS_LAST));
    assert_error(TP_ERR_RUNTIME, "rank 4");
    tp_release(t);
    tp_release(like);
    tp_release(one);
    tp_release(cube);
}

static void like_a_tensor_with_holes_keeps_the_order(void **state) {
    (void)state;
    tp_tensor *t = empty(TP_INTS(4, 6, 2));
    tp_tensor *holes = tpi_alias(t, 3, (int64_t[]){2, 6, 2}, (int64_t[]){1, 2, 24}, 0); /* t[::2].permute(2, 1, 0) */
    tp_tensor *like = tpi_empty_like(holes, TP_NO_DTYPE);
    assert_ints(tpi_strides(like), TP_INTS(1, 2, 12));
    tp_tensor *wide = tpi_alias(t, 2, (int64_t[]){3, 2}, (int64_t[]){0, 1}, 0);
    assert_true(tpi_overlaps_itself(wide));
    assert_true(!tpi_is_dense(wide));
    assert_true(!tpi_overlaps_itself(holes));
    tp_release(t);
    tp_release(holes);
    tp_release(like);
    tp_release(wide);
}

/* ---- Plans ---- */

static void contiguous_operands_are_one_run(void **state) {
    (void)state;
    tp_tensor *out = empty(TP_INTS(2, 3, 4)), *a = counting(TP_INTS(2, 3, 4)),
              *number = tpi_of_scalar(tp_float(1), TP_FLOAT64, cpu);
    tpi_plan p;
    assert_true(tpi_plan_make(&p, TP_INTS(2, 3, 4), 1, 3, (tp_tensor *[]){out, a, number}));
    assert_int_equal(p.ndim, 1);
    assert_int_equal(p.shape[0], 24);
    assert_int_equal(p.stride[1][0], 4);
    assert_int_equal(p.stride[2][0], 0);
    assert_int_equal(p.dtype[2], TP_FLOAT64);
    char *data[3];
    assert_int_equal(tpi_plan_seek(&p, 20, data), 4);
    assert_true(data[1] == a->data + 80);
    assert_true(data[2] == number->data);
    assert_true(tpi_plan_make(&p, tp_no_ints(), 0, 1, (tp_tensor *[]){number}));
    assert_int_equal(p.ndim, 0);
    assert_int_equal(tpi_plan_seek(&p, 0, data), 1);
    tp_release(out);
    tp_release(a);
    tp_release(number);
}

static void dims_are_ordered_and_merged(void **state) {
    (void)state;
    tp_tensor *t = counting(TP_INTS(2, 3, 4)), *row = counting(TP_INTS(4)), *column = counting(TP_INTS(3, 1));
    tp_tensor *transposed = tpi_alias(t, 3, (int64_t[]){4, 2, 3}, (int64_t[]){1, 12, 4}, 0);
    tpi_plan p;
    assert_true(tpi_plan_make(&p, TP_INTS(4, 2, 3), 1, 2, (tp_tensor *[]){transposed, transposed}));
    assert_int_equal(p.ndim, 1); /* both walk the same memory in order */
    assert_true(tpi_plan_make(&p, TP_INTS(2, 3, 4), 1, 2, (tp_tensor *[]){t, row}));
    assert_int_equal(p.ndim, 2);
    assert_int_equal(p.shape[1], 6);
    assert_int_equal(p.stride[1][1], 0);
    assert_true(tpi_plan_make(&p, TP_INTS(2, 3, 4), 1, 3, (tp_tensor *[]){t, row, column}));
    assert_int_equal(p.ndim, 3);
    char *data[3];
    assert_int_equal(tpi_plan_seek(&p, 4 + 3, data), 1); /* element [0, 1, 3] */
    assert_true(*(float *)data[0] == 7);
    assert_true(*(float *)data[1] == 3);
    assert_true(*(float *)data[2] == 1);
    assert_false(tpi_plan_make(&p, TP_INTS(2, 3, 4), 1, 2, (tp_tensor *[]){t, transposed}));
    assert_error(TP_ERR_RUNTIME, "cannot be broadcast to shape [2, 3, 4]");
    assert_false(tpi_plan_make(&p, TP_INTS(2, 3, 4), 1, 2, (tp_tensor *[]){row, t}));
    assert_error(TP_ERR_RUNTIME, "output 0: expected shape [2, 3, 4], got [4]");
    tp_release(t);
    tp_release(row);
    tp_release(column);
    tp_release(transposed);
}

static void plans_over_nothing(void **state) {
    (void)state;
    tp_tensor *none = empty(TP_INTS(0, 3)), *row = counting(TP_INTS(3));
    tpi_plan p;
    char *data[2];
    assert_true(tpi_plan_make(&p, TP_INTS(0, 3), 1, 2, (tp_tensor *[]){none, row}));
    assert_int_equal(p.numel, 0);
    assert_int_equal(tpi_plan_seek(&p, 0, data), 0);
    tp_release(none);
    tp_release(row);
}

static uint32_t draw(uint32_t *seed, uint32_t below) {
    return (*seed = *seed * 1664525u + 1013904223u) / 65536u % below;
}

/* A view of t's elements with its dims in random order, some of them cut short or not there at all (broadcast). */
static tp_tensor *random_view(tp_tensor *t, const int64_t *shape, int ndim, bool output, uint32_t *seed) {
    int64_t sizes[5], strides[5], step = 1;
    int order[5] = {0, 1, 2, 3, 4};
    for (int i = ndim - 1; i > 0; i--) {
        int j = (int)draw(seed, (uint32_t)i + 1), moved = order[i];
        order[i] = order[j];
        order[j] = moved;
    }
    for (int i = 0; i < ndim; i++) {
        int d = order[i];
        sizes[d] = output || draw(seed, 3) ? shape[d] : 1;
        strides[d] = step;
        step *= shape[d] + draw(seed, 4) / 3; /* now and then with a gap */
    }
    int drop = output ? 0 : (int)draw(seed, 2);
    while (drop < ndim && drop > 0 && sizes[drop - 1] != 1) drop--;
    tp_tensor *view = tpi_alias(t, ndim - drop, sizes + drop, strides + drop, 0);
    assert_non_null(view);
    return view;
}

/* Where the element at `index` of the plan's shape lies in t. */
static char *element_at(const tp_tensor *t, const int64_t *index, int ndim) {
    char *p = t->data;
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] != 1) p += index[ndim - t->ndim + i] * t->strides[i] * (int64_t)tpi_itemsize(t);
    return p;
}

/* Every element of the output comes up once, each time with the inputs' elements that broadcasting pairs it with. */
static void plans_pair_the_right_elements(void **state) {
    (void)state;
    enum { CAPACITY = 4096 };
    static char *partner[CAPACITY][2];
    tp_tensor *memory[3];
    uint32_t seed = 5;
    for (int k = 0; k < 3; k++) memory[k] = empty(TP_INTS(CAPACITY));
    for (int round = 0; round < 500; round++) {
        int64_t shape[5], index[5] = {0}, ndim = 1 + draw(&seed, 5), visited = 0;
        for (int i = 0; i < ndim; i++) shape[i] = 1 + draw(&seed, 4);
        tp_tensor *t[3];
        for (int k = 0; k < 3; k++) t[k] = random_view(memory[k], shape, (int)ndim, k == 0, &seed);
        memset(partner, 0, sizeof partner);
        for (int64_t i = 0; i < t[0]->numel; i++) { /* row-major over the shape */
            float *out = (float *)element_at(t[0], index, (int)ndim);
            for (int k = 0; k < 2; k++)
                partner[out - (float *)memory[0]->data][k] = element_at(t[k + 1], index, (int)ndim);
            for (int64_t d = ndim - 1; d >= 0 && ++index[d] == shape[d]; d--) index[d] = 0;
        }
        tpi_plan p;
        assert_true(tpi_plan_make(&p, tp_ints_view(shape, ndim), 1, 3, t));
        for (int64_t at = 0, run; at < p.numel; at += run) {
            char *data[3];
            run = tpi_plan_seek(&p, at, data);
            assert_true(run > 0);
            for (int64_t i = 0; i < run; i++, visited++) {
                char **pair = partner[(float *)(data[0] + i * p.stride[0][0]) - (float *)memory[0]->data];
                for (int k = 0; k < 2; k++) assert_ptr_equal(pair[k], data[k + 1] + i * p.stride[k + 1][0]);
                pair[0] = NULL; /* a second visit would fail */
            }
            if (p.ndim == 0) break;
        }
        assert_int_equal(visited, t[0]->numel);
        for (int k = 0; k < 3; k++) tp_release(t[k]);
    }
    for (int k = 0; k < 3; k++) tp_release(memory[k]);
}

/* ---- Scopes ---- */

static tp_tensor *made_in_scope(void) { return tp_new(TP_INTS(2), TP_FLOAT32); }

static tp_tensor *leaves_by_return(void) {
    TP_SCOPE {
        made_in_scope();
        return tp_keep(made_in_scope());
    }
    return NULL;
}

static void scopes_release_what_is_not_kept(void **state) {
    (void)state;
    tp_tensor *kept = NULL, *inner = NULL;
    TP_SCOPE {
        made_in_scope();
        TP_SCOPE {
            made_in_scope();
            inner = tp_keep(made_in_scope()); /* now the outer scope's */
            made_in_scope();
        }
        assert_int_equal(atomic_load(&inner->refs), 1);
        kept = tp_keep(made_in_scope());
        TP_SCOPE {
            assert_true(tp_keep(kept) == kept); /* the caller's already */
            continue;
        }
    }
    tp_release(kept);
    tp_release(leaves_by_return());
}

static void keeping_takes_out_one_registration(void **state) {
    (void)state;
    tp_tensor *t = empty(TP_INTS(2));
    TP_SCOPE {
        tpi_to_scope(tp_retain(t));
        tpi_to_scope(tp_retain(t));
        tp_keep(t);
    }
    assert_int_equal(atomic_load(&t->refs), 2);
    tp_release(t);
    tp_release(t);
}

static void closing_a_scope_closes_those_inside(void **state) {
    (void)state;
    tp_scope outer = tp_scope_open();
    made_in_scope();
    tp_scope_open();
    made_in_scope();
    tp_scope_close(&outer);
    tp_tensor *mine = made_in_scope(); /* no scope is open: the caller's */
    tp_release(mine);
}

static void lists_go_to_scopes_with_their_array(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensors list = {tpi_malloc(2 * sizeof(tp_tensor *)), 2};
        list.v[0] = empty(TP_INTS(2));
        list.v[1] = empty(TP_INTS(3));
        list = tpi_list_to_scope(list);
        assert_int_equal(tp_numel(list.v[1]), 3);
    }
}

static void *ends_inside_a_scope(void *unused) {
    (void)unused;
    tp_scope_open();
    for (int i = 0; i < 100; i++) made_in_scope();
    return NULL;
}

static void a_thread_that_ends_in_a_scope_leaves_nothing(void **state) {
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ends_inside_a_scope, NULL), 0);
    pthread_join(thread, NULL);
}

/* ---- DLPack ---- */

static void dlpack_there_and_back(void **state) {
    (void)state;
    tp_tensor *t = counting(TP_INTS(2, 3));
    tp_tensor *transposed = tpi_alias(t, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, 0);
    DLManagedTensor *managed = tp_to_dlpack(transposed);
    tp_release(transposed);
    assert_int_equal(managed->dl_tensor.dtype.code, kDLFloat);
    assert_int_equal(managed->dl_tensor.dtype.bits, 32);
    assert_int_equal(managed->dl_tensor.strides[1], 3);
    tp_tensor *back = tp_from_dlpack(managed);
    tp_release(t);
    assert_ints(tpi_shape(back), TP_INTS(3, 2));
    assert_true(((float *)back->data)[5] == 5);
    tp_release(back);

    int64_t size = 4;
    DLManagedTensor strange = {
        .dl_tensor = {.device = {kDLCPU, 0}, .ndim = 1, .shape = &size, .dtype = {kDLUInt, 24, 1}}};
    assert_null(tp_from_dlpack(&strange));
    assert_error(TP_ERR_MISSING, "24 bits");
}

/* ---- Without memory ---- */

static bool make_many_things(void) {
    bool ok = true;
    tp_tensor *deep = tpi_empty(TP_INTS(1, 2, 1, 2, 1, 2, 30), TP_FLOAT32, cpu);
    tp_tensor *view = deep ? tpi_alias(deep, 1, (int64_t[]){4}, (int64_t[]){2}, 0) : NULL;
    tp_tensor *apart = view ? tpi_detached(view) : NULL;
    tp_tensor *small = tpi_empty(TP_INTS(1), TP_FLOAT32, cpu);
    ok = apart && small && tpi_resize(small, TP_INTS(1, 1, 1, 1, 1, 1, 200));
    DLManagedTensor *managed = ok ? tp_to_dlpack(small) : NULL;
    tp_tensor *back = managed ? tp_from_dlpack(managed) : NULL;
    if (managed && !back) managed->deleter(managed);
    TP_SCOPE {
        for (int i = 0; i < 40; i++) ok = made_in_scope() && ok;
        TP_SCOPE {
            ok = tp_keep(made_in_scope()) && ok;
        }
    }
    ok = ok && back;
    tp_release(deep);
    tp_release(view);
    tp_release(apart);
    tp_release(small);
    tp_release(back);
    return ok;
}

static void *fail_at_every_allocation(void *out) { /* in a thread of its own, whose scopes have to be made */
    for (int64_t nth = 1;; nth++) {
        tpi_alloc_fail_at(nth, false);
        bool ok = make_many_things();
        tpi_alloc_fail_at(0, false);
        if (ok != tp_ok()) break;
        if (ok) {
            *(int64_t *)out = nth;
            return NULL;
        }
        if (tp_error_code() != TP_ERR_MEMORY) break;
        tp_error_clear();
    }
    *(int64_t *)out = -1;
    return NULL;
}

static void nothing_leaks_when_memory_runs_out(void **state) {
    (void)state;
    pthread_t thread;
    int64_t allocations = 0;
    assert_int_equal(pthread_create(&thread, NULL, fail_at_every_allocation, &allocations), 0);
    pthread_join(thread, NULL);
    assert_true(allocations > 60);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, remember_live, nothing_left)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_empty_tensor_is_contiguous),
        TEST(sizes_of_zero_and_many_dims),
        TEST(impossible_shapes_are_refused),
        TEST(data_is_copied_in_and_out),
        TEST(foreign_memory_is_given_back_once),
        TEST(numbers_become_tensors),
        TEST(null_is_taken_and_passed_on),
        TEST(a_view_of_a_view_has_the_root_as_base),
        TEST(a_binding_hears_of_the_end),
        TEST(resizing_grows_the_storage_and_keeps_what_was_there),
        TEST(a_storage_that_shrinks_gives_its_pages_back),
        TEST(dims_wrap),
        TEST(shapes_broadcast),
        TEST(one_size_can_be_inferred),
        TEST(views_without_a_copy),
        TEST(channels_last_and_sizes_of_one),
        TEST(like_a_tensor_with_holes_keeps_the_order),
        TEST(contiguous_operands_are_one_run),
        TEST(dims_are_ordered_and_merged),
        TEST(plans_over_nothing),
        TEST(plans_pair_the_right_elements),
        TEST(scopes_release_what_is_not_kept),
        TEST(keeping_takes_out_one_registration),
        TEST(closing_a_scope_closes_those_inside),
        TEST(lists_go_to_scopes_with_their_array),
        TEST(a_thread_that_ends_in_a_scope_leaves_nothing),
        TEST(dlpack_there_and_back),
        TEST(nothing_leaks_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

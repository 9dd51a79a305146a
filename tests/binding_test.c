/* The C API as a language binding meets it: objects that stand for tensors, references, storages and what a tensor
 * looks at, generators and switches. Numbers are PyTorch's for the same programs. */
#include "tape_fixture.h"

static void count_up(void *count) { ++*(int *)count; }
static void take_last(void *left) { *(tp_tensor **)left = NULL; }

/* ---- Objects that stand for tensors ---- */

static void tensors_remember_their_objects(void **state) {
    (void)state;
    int other = 0;
    tp_tensor *t = VECTOR(1, 2), *left = NULL;
    assert_null(tp_binding(t));
    assert_int_equal(tp_references(t), 1);
    assert_true(tp_set_binding(t, &other, count_up));
    assert_true(tp_set_binding(t, &left, take_last));
    assert_ptr_equal(tp_binding(t), &left);
    tp_retain(t);
    assert_int_equal(tp_references(t), 2);
    tp_release(t);
    left = t;
    tp_release(t); /* the last reference is take_last's: the tensor is still there */
    assert_int_equal(tp_references(t), 1);
    ASSERT_VALUES(t, 1, 2);
    assert_null(left);
    tp_release(t);
    assert_int_equal(other, 0);
    t = VECTOR(1);
    tp_set_binding(t, &other, count_up);
    tp_set_binding(t, NULL, NULL);
    tp_release(t);
    assert_int_equal(other, 0);
    assert_int_equal(tp_references(NULL), -1);
    assert_error("expected a tensor, got NULL");
}

static int added, detached, begun;
static tp_tensor *answer(const char *what, tp_tensor *a, tp_tensor *b) {
    bool adds = strcmp(what, "add") == 0, begins = strcmp(what, "ones_like") == 0;
    added += adds;
    begun += begins;
    detached += !adds && !begins;
    return tp_own(adds ? tp_add(a, b) : begins ? tp_ones_like(a) : tp_detach(a));
}

static void the_tape_asks_for_opaque_tensors(void **state) {
    (void)state;
    tp_set_opaque_handler(answer);
    tp_tensor *x = VECTOR(2, 3);
    tp_set_requires_grad(x, true);
    TP_SCOPE {
        tp_tensor *y = tp_sum(tp_add(tp_mul(x, x), x));
        assert_true(tp_set_opaque(y, true));
        tp_backward(y);
    }
    assert_int_equal(begun, 1);
    assert_int_equal(added + detached, 0); /* only the root is opaque */
    tp_zero_grad(x);
    tp_tensor *gradient = VECTOR(1, 1);
    tp_set_opaque(gradient, true);
    for (int i = 0; i < 2; i++)
        assert_true(tp_backward(x, .gradient = gradient)); /* the leaf's first gradient, and one that is added to it */
    assert_int_equal(detached, 1);
    assert_int_equal(added, 1);
    ASSERT_VALUES(tp_grad(x), 2, 2);
    tp_set_opaque_handler(NULL);
    assert_false(tp_set_opaque(NULL, true));
    assert_error("expected a tensor, got NULL");
    tp_release(gradient);
    tp_release(x);
}

static void results_can_be_owned_inside_of_scopes(void **state) {
    (void)state;
    tp_tensor *mine = NULL;
    TP_SCOPE {
        tp_tensor *x = VECTOR(1, 2);
        TP_SCOPE {
            mine = tp_own(tp_mul(x, 2));
        }
    }
    ASSERT_VALUES(mine, 2, 4);
    assert_int_equal(tp_references(mine), 1);
    tp_release(tp_own(mine)); /* without a scope it is the caller's already */
    assert_null(tp_own(NULL));
}

/* ---- Storage ---- */

static void data_has_a_version_of_its_own(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *data = tp_data_alias(x), *detached = tp_detach(x);
        tp_tensor *y = tp_mul(x, x);
        assert_true(tp_shares_storage(x, data));
        assert_true(!tp_requires_grad(data));
        assert_true(!tp_is_view(data));
        tp_mul_(data, 3);
        assert_int_equal(tp_tensor_version(x), 0);
        assert_int_equal(tp_tensor_version(data), 1);
        assert_int_equal(tp_tensor_version(tp_select(data, 0, 1)), 1);
        assert_true(tp_backward(tp_sum(y))); /* unseen: with the new values */
        ASSERT_VALUES(tp_grad(x), 6, 12);
        y = tp_mul(x, x);
        tp_mul_(detached, 2);
        assert_int_equal(tp_tensor_version(x), 1);
        assert_false(tp_backward(tp_sum(y)));
        assert_error("modified by an inplace operation");
        y = tp_mul(x, x);
        ((float *)tp_data(x))[0] = 5;
        assert_true(tp_mark_written(x));
        assert_false(tp_backward(tp_sum(y)));
        assert_error("modified by an inplace operation");
        tp_tensor *w = tp_set_requires_grad(data, true); /* and it is watched itself */
        y = tp_mul(w, w);
        TP_NO_GRAD {
            tp_add_(w, 1);
        }
        assert_false(tp_backward(tp_sum(y)));
        assert_error("modified by an inplace operation");
    }
}

static void data_can_be_exchanged(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *flat = tp_arange(tp_float(6)), *y = tp_sum(tp_mul(x, 2));
        tp_tensor *old = tp_own(VECTOR(9));
        tp_release(old);
        assert_true(tp_backward(y));
        assert_true(tp_set_data(x, tp_narrow(flat, 0, 2, 2)));
        ASSERT_VALUES(x, 2, 3);
        ASSERT_VALUES(tp_grad(x), 2, 2);
        assert_true(tp_is_leaf(x));
        assert_true(tp_requires_grad(x));
        assert_true(tp_shares_storage(x, flat));
        assert_true(!tp_is_view(x));
        assert_int_equal(tp_storage_offset(x), 2);
        y = tp_mul(x, x);
        tp_mul_(flat, 2); /* another tensor's version */
        assert_int_equal(tp_tensor_version(x), 0);
        assert_true(tp_backward(tp_sum(y)));
        ASSERT_VALUES(tp_grad(x), 2 + 8, 2 + 12);
        tp_zero_grad(x);
        assert_true(tp_set_data(x, tp_ones(TP_INTS(2, 1, 1, 1, 1, 3),
                                           .dtype = TP_FLOAT64))); /* another shape, dtype and room for its dims */
        assert_int_equal(tp_dtype_of(x), TP_FLOAT64);
        assert_int_equal(tp_ndim(x), 6);
        assert_true(tp_backward(tp_sum(tp_mul(x, 3))));
        assert_int_equal(tp_numel(tp_grad(x)), 6);
        assert_int_equal(tp_dtype_of(tp_grad(x)), TP_FLOAT64);
        assert_true(tp_set_data(x, VECTOR(5)));
        assert_int_equal(tp_ndim(x), 1);
        assert_false(tp_set_data(x, tp_arange(tp_int(3))));
        assert_error("data set to a tensor that requires gradients must be floating point or complex dtype, got int64");
        ASSERT_VALUES(x, 5);
    }
}

static void a_gradient_of_the_old_shape_is_refused(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *y = tp_sum(tp_mul(x, 2));
        assert_true(tp_set_data(x, VECTOR(1, 2, 3)));
        assert_false(tp_backward(y));
        assert_error("a gradient of shape [2] came for a leaf whose shape is [3] now");
    }
}

static void storages_are_shared_and_counted(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = VECTOR(1, 2, 3, 4), *row = tp_narrow(x, 0, 1, 2);
        tp_storage *s = tp_storage_of(row);
        assert_ptr_equal(tp_storage_data(s), tp_data(x));
        assert_int_equal(tp_storage_size(s), 16);
        assert_int_equal(tp_storage_device(s).type, TP_CPU);
        assert_int_equal(tp_storage_references(s), 3);
        assert_ptr_equal(tp_base(row), x);
        assert_null(tp_base(x));
        assert_int_equal(tp_item_bytes(row), 4);
        tp_tensor *t = VECTOR(0);
        assert_true(tp_set_storage(t, s, 1, TP_INTS(2), TP_INTS(2)));
        ASSERT_VALUES(t, 2, 4);
        assert_int_equal(tp_tensor_version(t), 1);
        assert_false(tp_set_storage(t, s, 2, TP_INTS(2), TP_INTS(2)));
        assert_error("are out of bounds for storage of size 16");
        assert_false(tp_set_storage(t, s, INT64_MAX / 2, TP_INTS(2), tp_no_ints()));
        assert_error("are out of bounds for storage of size 16");
        ASSERT_VALUES(t, 2, 4);
        assert_false(tp_set_storage(LEAF(1), s, 0, TP_INTS(1), tp_no_ints()));
        assert_error("a leaf Variable that requires grad");
        tp_storage_release(s);
        int gone = 0;
        float mine[2] = {7, 8};
        assert_non_null(s = tp_storage_over(mine, sizeof mine, count_up, &gone));
        assert_true(tp_set_storage(t, s, 0, TP_INTS(2), tp_no_ints()));
        tp_storage_release(s);
        ASSERT_VALUES(t, 7, 8);
        assert_int_equal(gone, 0);
        assert_true(tp_set_data(t, x));
        assert_int_equal(gone, 1);
    }
}

static void storages_shrink_and_grow(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = tp_arange(tp_float(1000)), *view = tp_narrow(x, 0, 998, 2);
        tp_storage *s = tp_storage_of(x);
        assert_true(tp_storage_resize(s, 0));
        assert_int_equal(tp_storage_bytes(x), 0);
        assert_true(tp_storage_resize(s, 4000)); /* within what it had */
        ASSERT_VALUES(view, 998, 999);
        assert_false(tp_storage_resize(s, 8000));
        assert_error("cannot grow memory that tensors use");
        tp_storage_release(s);
        assert_non_null(s = tp_storage_new(8, (tp_device){0, 0}));
        ((float *)tp_storage_data(s))[1] = 5;
        assert_true(tp_storage_resize(s, 100000)); /* nobody looks */
        assert_true(((float *)tp_storage_data(s))[1] == 5);
        tp_tensor *t = VECTOR(0);
        assert_true(tp_set_storage(t, s, 1, TP_INTS(1), tp_no_ints()));
        ASSERT_VALUES(t, 5);
        tp_storage_release(s);
        tp_tensor *small = VECTOR(1, 2, 3);
        assert_true(tp_resize(small, TP_INTS(2)));
        assert_true(tp_resize(small, TP_INTS(5000)));
        assert_int_equal(tp_tensor_version(small), 2);
        ASSERT_VALUES(tp_narrow(small, 0, 0, 3), 1, 2, 3);
        assert_false(tp_resize(LEAF(1), TP_INTS(2)));
        assert_error("cannot resize variables that require grad");
        assert_false(tp_storage_resize(NULL, 3));
        assert_error("expected a storage, got NULL");
    }
}

static void overlaps_are_told(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = tp_arange(tp_float(6)), *left = tp_narrow(x, 0, 0, 3), *right = tp_narrow(x, 0, 3, 3);
        assert_true(tp_overlaps(x, left));
        assert_true(tp_overlaps(right, x));
        assert_true(!tp_overlaps(left, right));
        assert_true(!tp_overlaps(x, VECTOR(1)));
        assert_false(tp_overlaps(x, tp_narrow(x, 0, 0, 0)));
        assert_true(tp_overlaps_itself(tp_expand(VECTOR(1), TP_INTS(3))));
        assert_true(!tp_overlaps_itself(x));
    }
}

/* ---- Generators, devices, switches ---- */

static void generators_are_cloned_and_seeded_anew(void **state) {
    (void)state;
    TP_SCOPE {
        tp_generator *g = tp_generator_new(7);
        assert_non_null(tp_randn(TP_INTS(3), .generator = g));
        tp_generator *copy = tp_generator_clone(g);
        assert_int_equal(tp_generator_initial_seed(copy), 7);
        float want[3];
        assert_true(tp_copy_out(tp_randn(TP_INTS(3), .generator = g), want, sizeof want));
        assert_values(tp_randn(TP_INTS(3), .generator = copy), 3, want);
        uint64_t one = 0, two = 0;
        assert_true(tp_generator_seed_anew(g, &one));
        assert_true(tp_generator_seed_anew(g, &two));
        assert_true(one != two);
        assert_true(tp_generator_initial_seed(g) == two);
        tp_generator_free(g);
        tp_generator_free(copy);
    }
}

static void devices_and_switches(void **state) {
    (void)state;
    assert_int_equal(tp_default_device().type, TP_CPU);
    assert_true(tp_set_default_device((tp_device){TP_CPU, 0}));
    assert_true(tp_set_default_device((tp_device){TP_DEVICE_NONE, 0}));
    assert_false(tp_set_default_device((tp_device){TP_XPU, 3}));
    assert_error("device 'xpu:3' is not available here");
    assert_int_equal(tp_default_device().type, TP_CPU);
    assert_int_equal(tp_deterministic(), TP_DETERMINISTIC_OFF);
    assert_true(tp_set_deterministic(TP_DETERMINISTIC_ERROR));
    assert_int_equal(tp_deterministic(), TP_DETERMINISTIC_ERROR);
    assert_true(tp_set_deterministic(TP_DETERMINISTIC_OFF));
    assert_false(tp_set_deterministic((tp_determinism)3));
    assert_error("expected a tp_determinism");
    assert_int_equal(tp_num_interop_threads(), tp_num_threads());
    tp_set_num_interop_threads(5);
    assert_int_equal(tp_num_interop_threads(), 5);
    tp_set_num_interop_threads(0);
}

/* ---- Without memory ---- */

static void scopes_can_be_put_aside(void **state) {
    (void)state;
    int64_t live = tpi_alloc_live();
    tp_tensor *mine = NULL;
    TP_SCOPE {
        int64_t before = tp_scopes_aside();
        mine = tp_new(TP_INTS(2), TP_FLOAT32);
        TP_SCOPE {
            tp_new(TP_INTS(3), TP_FLOAT32); /* a scope inside works as ever */
        }
        tp_scopes_back(before);
        tp_new(TP_INTS(4), TP_FLOAT32);
    }
    assert_int_equal(tp_references(mine), 1);
    tp_release(mine);
    assert_int_equal(tpi_alloc_live(), live);
}

static void a_bit_of_everything(void) {
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2), *data = x ? tp_data_alias(x) : NULL,
                  *t = data ? tp_ones(TP_INTS(1, 1, 1, 1, 1, 3)) : NULL;
        if (!t || !tp_set_data(x, t) || !tp_resize(tp_clone(t), TP_INTS(2000)) || !tp_backward(tp_sum(tp_mul(x, x))))
            continue;
        tp_storage *s = tp_storage_new(10, (tp_device){0, 0});
        if (s && tp_storage_resize(s, 5000)) tp_set_storage(data, s, 3, TP_INTS(2), tp_no_ints());
        tp_storage_release(s);
    }
    tp_generator_free(tp_generator_clone(NULL));
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    fail_each_allocation(a_bit_of_everything);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(tensors_remember_their_objects),
        CASE(the_tape_asks_for_opaque_tensors),
        CASE(results_can_be_owned_inside_of_scopes),
        CASE(scopes_can_be_put_aside),
        CASE(data_has_a_version_of_its_own),
        CASE(data_can_be_exchanged),
        CASE(a_gradient_of_the_old_shape_is_refused),
        CASE(storages_are_shared_and_counted),
        CASE(storages_shrink_and_grow),
        CASE(overlaps_are_told),
        CASE(generators_are_cloned_and_seeded_anew),
        CASE(devices_and_switches),
        CASE(any_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("binding", tests, NULL, NULL);
}

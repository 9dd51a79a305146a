/* Operators by name: look-up, boxed calls with arguments by position and by name. */
#include "dispatch/call.h"
#include "tensor/check_arguments.h"
#include "tensor/upcalls.h"
#include <string.h>

static const char *const kind_texts[] = {
    "None",    "a tensor", "a list of tensors", "a number", "a list of integers",         "a text",
    "a dtype", "a device", "a generator",       "a layout", "a list of floating numbers", "a list of numbers"};

static bool wrong(const tp_value *v, const char *name, const char *wanted) {
    return tpi_refuse(TP_ERR_TYPE, "argument '%s': expected %s, got %s", name, wanted,
                      v->kind >= 0 && v->kind <= TP_K_SCALARS ? kind_texts[v->kind] : "something unknown");
}
static bool absent(const char *name, bool required) {
    return !required || tpi_refuse(TP_ERR_TYPE, "argument '%s' is missing", name);
}

bool tpi_unbox_tensor(const tp_value *v, const char *name, bool required, tp_tensor **out) {
    if (v->kind == TP_K_NONE) return absent(name, required);
    if (v->kind != TP_K_TENSOR) return wrong(v, name, "a tensor");
    *out = v->as.tensor;
    return tpi_sound_tensor(*out, name);
}

bool tpi_unbox_tensors(const tp_value *v, const char *name, bool required, tp_tensors *out) {
    if (v->kind == TP_K_NONE) return absent(name, required);
    if (v->kind != TP_K_TENSORS) return wrong(v, name, "a list of tensors");
    *out = v->as.tensors;
    return tpi_sound_tensors(*out, name);
}

bool tpi_unbox_operand(const tp_value *v, const char *name, bool required, tp_operand *out) {
    if (v->kind == TP_K_NONE) return absent(name, required);
    if (v->kind == TP_K_TENSOR)
        *out = tp_operand_tensor(v->as.tensor);
    else if (v->kind == TP_K_SCALAR)
        *out = tp_operand_scalar(v->as.scalar);
    else
        return wrong(v, name, "a tensor or a number");
    return tpi_sound_tensor(out->tensor, name);
}

bool tpi_unbox_scalar(const tp_value *v, const char *name, bool required, tp_scalar *out) {
    if (v->kind == TP_K_NONE) return absent(name, required);
    if (v->kind == TP_K_TENSOR && !tpi_sound_tensor(v->as.tensor, name)) return false;
    if (v->kind == TP_K_TENSOR && v->as.tensor && v->as.tensor->numel == 1 && !v->as.tensor->requires_grad)
        *out = tp_item_scalar(v->as.tensor);
    else if (v->kind == TP_K_SCALAR)
        *out = v->as.scalar;
    else
        return wrong(v, name, "a number");
    return tpi_sound_scalar(*out, !required, name);
}

bool tpi_unbox_int(const tp_value *v, const char *name, bool required, int64_t *out) {
    if (v->kind == TP_K_NONE) return absent(name, required);
    if (v->kind != TP_K_SCALAR || v->as.scalar.kind > TP_SCALAR_INT) return wrong(v, name, "an integer");
    *out = v->as.scalar.as.i;
    return true;
}

bool tpi_unbox_ints(const tp_value *v, const char *name, bool required, tp_ints *out) {
    if (v->kind == TP_K_NONE) return absent(name, required);
    if (v->kind == TP_K_INTS)
        *out = v->as.ints;
    else if (v->kind == TP_K_SCALAR && v->as.scalar.kind <= TP_SCALAR_INT)
        *out = tp_ints_view(&v->as.scalar.as.i, 1);
    else
        return wrong(v, name, "a list of integers");
    return tpi_sound_list(out->v, out->n, name);
}

bool tpi_unbox_float(const tp_value *v, const char *name, bool required, double *out) {
    if (v->kind == TP_K_NONE) return absent(name, required);
    if (v->kind != TP_K_SCALAR || v->as.scalar.kind == TP_SCALAR_COMPLEX) return wrong(v, name, "a real number");
    *out = tp_scalar_to_double(v->as.scalar);
    return true;
}

bool tpi_unbox_bool(const tp_value *v, const char *name, bool required, bool *out) {
    if (v->kind == TP_K_NONE) return absent(name, required);
    if (v->kind != TP_K_SCALAR || v->as.scalar.kind > TP_SCALAR_INT) return wrong(v, name, "true or false");
    *out = v->as.scalar.as.i != 0;
    return true;
}

/* A truth that may be missing: 0, 1 or TP_NONE. */
bool tpi_unbox_truth(const tp_value *v, const char *name, bool required, int64_t *out) {
    bool truth = false;
    if (!tpi_unbox_bool(v, name, required, &truth)) return false;
    if (v->kind != TP_K_NONE) *out = truth;
    return true;
}

bool tpi_unbox_floats(const tp_value *v, const char *name, bool required, tp_floats *out) {
    if (v->kind == TP_K_NONE) return absent(name, required);
    if (v->kind == TP_K_FLOATS)
        *out = v->as.floats;
    else if (v->kind == TP_K_SCALAR && v->as.scalar.kind == TP_SCALAR_FLOAT)
        *out = (tp_floats){v->as.scalar.as.d, 1};
    else
        return wrong(v, name, "a list of floating numbers");
    return tpi_sound_list(out->v, out->n, name);
}

bool tpi_unbox_scalars(const tp_value *v, const char *name, bool required, tp_scalars *out) {
    if (v->kind == TP_K_NONE) return absent(name, required);
    if (v->kind == TP_K_SCALARS)
        *out = v->as.scalars;
    else if (v->kind == TP_K_SCALAR)
        *out = (tp_scalars){&v->as.scalar, 1};
    else
        return wrong(v, name, "a list of numbers");
    return tpi_sound_list(out->v, out->n, name);
}

#define UNBOX(what, type, tag, field, wanted, sound)                                       \
    bool tpi_unbox_##what(const tp_value *v, const char *name, bool required, type *out) { \
        if (v->kind == TP_K_NONE) return absent(name, required);                           \
        if (v->kind != tag) return wrong(v, name, wanted);                                 \
        *out = v->as.field;                                                                \
        return sound;                                                                      \
    }
UNBOX(string, const char *, TP_K_STRING, string, "a text", tpi_sound_text(*out, name))
UNBOX(dtype, tp_dtype, TP_K_DTYPE, dtype, "a dtype", tpi_sound_dtype(*out, !required, name))
UNBOX(device, tp_device, TP_K_DEVICE, device, "a device", tpi_sound_device(*out, name))
UNBOX(layout, tp_layout, TP_K_LAYOUT, layout, "a layout",
      tpi_sound_choice(*out, TP_CHANNELS_LAST_3D + 1, name, "a layout"))
UNBOX(generator, tp_generator *, TP_K_GENERATOR, generator, "a generator", true)

static bool has_mask(const tp_tensors *list) { /* it gives as many elements as it has ones */
    for (int64_t i = 0; i < list->n; i++)
        if (list->v[i] && (list->v[i]->dtype == TP_BOOL || list->v[i]->dtype == TP_UINT8)) return true;
    return false;
}

bool tpi_has_dynamic_shape(const tp_operator *op, void *const *args) {
    const void *arg = args[op->dynamic_argument];
    switch ((tp_dynamic_shape)op->dynamic_shape) {
    case TP_DYNAMIC_NEVER: return false;
    case TP_DYNAMIC_ALWAYS: return true;
    case TP_DYNAMIC_UNLESS: return *(const int64_t *)arg < 0;
    case TP_DYNAMIC_MASKS: return has_mask(arg);
    }
    return true;
}

static const tp_operator *find(const char *name, size_t length) {
    int64_t low = 0, high = *tpi_above.noperators;
    while (low < high) {
        int64_t mid = (low + high) / 2;
        const char *here = tpi_above.operators[mid]->name;
        int order = strncmp(name, here, length);
        if (order == 0 && here[length]) order = -1;
        if (order == 0) return tpi_above.operators[mid];
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

const tp_operator *tp_find_operator(const char *name) { return name ? find(name, strlen(name)) : NULL; }
int64_t tp_operator_count(void) { return *tpi_above.noperators; }
const tp_operator *tp_operator_at(int64_t i) {
    return i >= 0 && i < *tpi_above.noperators ? tpi_above.operators[i] : NULL;
}

#define MAX_ARGS 24
/* Sorts the given values into one per argument of the operator. */
static bool order_arguments(const tp_operator *op, int64_t nargs, const tp_value *args, tp_value *ordered) {
    int64_t position = 0;
    memset(ordered, 0, sizeof(tp_value) * (size_t)op->nargs);
    for (int64_t i = 0; i < nargs; i++) {
        int64_t k = args[i].name ? 0 : position++;
        while (args[i].name && k < op->nargs && strcmp(op->args[k].name, args[i].name)) k++;
        if (k >= op->nargs) {
            if (args[i].name)
                return tpi_refuse(TP_ERR_TYPE, "no argument '%s'; the signature is %s", args[i].name, op->signature);
            return tpi_refuse(TP_ERR_TYPE, "%lld arguments given; the signature is %s", (long long)nargs,
                              op->signature);
        }
        if (ordered[k].kind != TP_K_NONE)
            return tpi_refuse(TP_ERR_TYPE, "argument '%s' is given twice", op->args[k].name);
        ordered[k] = args[i];
    }
    return true;
}

static bool results_to_scope(int64_t n, tp_value *results) {
    bool fine = true;
    for (int64_t i = 0; i < n; i++) {
        if (results[i].kind == TP_K_TENSOR) fine = (results[i].as.tensor = tpi_to_scope(results[i].as.tensor)) && fine;
        if (results[i].kind == TP_K_TENSORS)
            fine = (results[i].as.tensors = tpi_list_to_scope(results[i].as.tensors)).v && fine;
    }
    return fine;
}

/* How many letters must be put in, taken out or changed to make one name of the other; names longer than LONGEST are
 * far.
 */
static int distance(const char *a, const char *b) {
    enum { LONGEST = 48 };
    const size_t n = strlen(a), m = strlen(b);
    if (n >= LONGEST || m >= LONGEST) return LONGEST;
    int row[LONGEST];
    for (size_t j = 0; j <= m; j++) row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int before = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int least = before + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < least) least = row[j] + 1;
            if (row[j - 1] + 1 < least) least = row[j - 1] + 1;
            before = row[j];
            row[j] = least;
        }
    }
    return row[m];
}

static bool refuse_name(const char *name) {
    const char *nearest = NULL;
    int least = 3;
    for (int64_t i = 0; i < *tpi_above.noperators; i++) {
        const char *here = tpi_above.operators[i]->name;
        const int far = distance(name, here);
        if (far >= least || (size_t)far >= strlen(name)) continue;
        least = far;
        nearest = here;
    }
    return nearest ? tpi_refuse(TP_ERR_MISSING, "no operator is called '%s': did you mean '%s'?", name, nearest)
                   : tpi_refuse(TP_ERR_MISSING, "no operator is called '%s'", name);
}

bool tp_call_values(const char *name, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    if (!name) return tpi_refuse(TP_ERR_VALUE, "call: argument 'name' is NULL");
    size_t length = strlen(name);
    const tp_operator *op = find(name, length);
    bool inplace = !op && length && name[length - 1] == '_';
    if (inplace) op = find(name, length - 1);
    if (!op || (inplace && !op->invoke_inplace)) return refuse_name(name);
    if (!tpi_sound_list(args, nargs, "args") || !tpi_sound_list(results, nresults, "results")) return false;
    if (inplace) TPI_STOP_ON_ERROR(false);
    tp_value ordered[MAX_ARGS], out[8];
    const char *before = tpi_op_enter(op->name);
    bool fine = order_arguments(op, nargs, args, ordered) && (inplace ? op->invoke_inplace : op->invoke)(ordered, out);
    if (fine && inplace)
        tp_release(out[0].as.tensor); /* self, which the caller has already */
    else if (fine)
        fine = results_to_scope(op->nresults, out);
    tpi_op_leave(before);
    for (int64_t i = 0; fine && i < nresults; i++) {
        results[i] = i < op->nresults ? out[i] : (tp_value){0};
    }
    return fine;
}

tp_tensor *tp_call_one(const char *name, int64_t nargs, const tp_value *args) {
    tp_value result = {0};
    if (!tp_call_values(name, nargs, args, 1, &result)) return NULL;
    if (result.kind != TP_K_TENSOR) return tpi_fail(TP_ERR_TYPE, "%s does not give a tensor; use tp_call_values", name);
    return result.as.tensor;
}

/* The driver of block programs (device/block_program.h). Chunks and blocks are those of maps: operands that lie
 * contiguously in a block and hold the value's dtype are used in place, others are gathered; a block whose end is no
 * whole group of lanes goes through padded copies. */
#include "device/cpu/block_program.h"
#include <math.h>
#include <stddef.h>
#include <string.h>
#include "base/scratch.h"
#include "base/threads.h"
#include "device/cpu/convert.h"
#include "device/cpu/cpu.h"
#include "device/cpu/register_program.h"
#include "device/launch.h"

enum {
    LONG_RUN = 256,        /* as in map.c: runs at least this long are blocks of their own */
    MOST_BLOCK = 512,      /* elements of a block at most: all that a program works with stays in the nearest cache */
    REGISTER_BLOCK = 1024, /* of programs that run in registers */
    STRAIGHT_BLOCK =
        256, /* and where nothing is gathered: what a step wrote is still on its way there when the next one reads it */
    AHEAD = 2, /* blocks from the one that is computed to the one that memory is asked for */
    LINE = 64
};

typedef tpi_program_job program_job;
typedef tpi_program_scratch program_scratch;

/* One block of positions: `n` of them from `at` on, of which `run` are in the current run, whose pointers are `data`;
 * `lanes` is n rounded up. */
typedef struct program_block {
    int64_t at, n, run, lanes;
    char *data[TPI_MAX_OPERANDS];
} program_block;

static int value_size(const tpi_program_value *v) { return tpi_dtype_bytes[v->dtype]; }

/* Missing lanes repeat the first, so that no kernel sees what is not there. */
static void pad(char *block, int64_t n, int64_t lanes, int size) {
    for (int64_t i = n; i < lanes; i++) memcpy(block + i * size, block, (size_t)size);
}

static bool lies_flat(const program_job *job, const program_block *b, const tpi_program_value *v) {
    const tpi_plan *p = job->plan;
    if (b->n != b->lanes) return false;
    return job->packed[v->operand] || (b->n <= b->run && p->ndim && p->stride[v->operand][0] == value_size(v));
}

/* The operand's first element. */
static char *base(const program_job *job, const program_scratch *s, int operand) {
    return operand == job->aside ? s->aside : job->plan->data[operand];
}

static char *flat_address(const program_job *job, const program_scratch *s, const program_block *b,
                          const tpi_program_value *v) {
    return job->packed[v->operand] ? base(job, s, v->operand) + b->at * value_size(v) : b->data[v->operand];
}

static char *load(const program_job *job, program_scratch *s, const program_block *b, const tpi_program_value *v) {
    const tpi_plan *p = job->plan;
    int k = v->operand, size = value_size(v);
    char *block = s->block[v->block];
    if (lies_flat(job, b, v)) return flat_address(job, s, b, v);
    int64_t stride = p->ndim ? p->stride[k][0] : 0;
    if (job->constant[k] || (b->n <= b->run && stride == 0)) {
        if (s->filled[k] != b->data[k]) tpi_load_run(job->block, b->data[k], 0, v->dtype, block, v->dtype);
        s->filled[k] = b->data[k];
        return block;
    }
    if (job->repeats[k] && s->filled[k] == b->data[k] && s->have[k] >= b->lanes) return block;
    s->filled[k] = job->repeats[k] ? b->data[k] : NULL;
    s->have[k] = b->lanes;
    if (b->n <= b->run)
        tpi_load_run(b->n, b->data[k], stride, v->dtype, block, v->dtype);
    else
        tpi_load_walk(&(tpi_walk){p->ndim, p->shape, p->stride[k]}, b->at, b->n, p->data[k], v->dtype, block, v->dtype);
    pad(block, b->n, b->lanes, size);
    return block;
}

static void store(const program_job *job, const program_scratch *s, const program_block *b, const tpi_program_value *v,
                  const char *block) {
    const tpi_plan *p = job->plan;
    int k = v->operand;
    if (b->n <= b->run)
        tpi_store_run(b->n, block, v->dtype, b->data[k], p->ndim ? p->stride[k][0] : 0, v->dtype);
    else
        tpi_store_walk(&(tpi_walk){p->ndim, p->shape, p->stride[k]}, b->at, b->n, block, v->dtype, base(job, s, k),
                       v->dtype);
}

static void run_step(const program_job *job, program_scratch *s, const program_block *b, int i) {
    const tpi_program *program = job->program;
    const tpi_program_step *step = &program->steps[i];
    const tpi_program_value *out = &program->values[step->out];
    char *arg[TPI_PROGRAM_IN + 1];
    for (int k = 0; k < step->op->nin; k++) {
        const tpi_program_arg *a = &step->in[k];
        if (a->value < 0) {
            arg[k + 1] = s->block[a->block];
            continue;
        }
        const tpi_program_value *v = &program->values[a->value];
        arg[k + 1] = s->at[a->value];
        if (v->dtype == a->type) continue;
        tpi_load_run(b->lanes, arg[k + 1], value_size(v), v->dtype, s->converted[k], a->type);
        arg[k + 1] = s->converted[k];
    }
    bool direct = out->operand >= 0 && lies_flat(job, b, out);
    char *address = direct ? flat_address(job, s, b, out) : s->block[out->block];
    arg[0] = step->type == out->dtype ? address : s->converted[TPI_PROGRAM_IN];
    job->fn[i](b->lanes, arg, step->params);
    if (step->type != out->dtype) tpi_store_run(b->lanes, arg[0], step->type, address, value_size(out), out->dtype);
    if (out->operand >= 0 && !direct) store(job, s, b, out, address);
    s->at[step->out] = address;
}

static void fill_numbers(const program_job *job, program_scratch *s) {
    const tpi_program *program = job->program;
    for (int i = 0; i < program->nsteps; i++)
        for (int k = 0; k < program->steps[i].op->nin; k++) {
            const tpi_program_arg *a = &program->steps[i].in[k];
            if (a->value < 0)
                tpi_load_run(job->block, (const char *)&a->number, 0, a->type, s->block[a->block], a->type);
        }
}

/* ---- The straight way: where nothing is gathered, a step of a block is little more than its kernel ---- */

typedef struct straight_step {
    tpi_block_fn fn; /* NULL: a register program, `n` operations from `registers` on */
    const tpi_register_op *registers;
    const tpi_param *params;
    int n;
    char *at[TPI_PROGRAM_IN + 1];     /* for the chunk's first block */
    int64_t move[TPI_PROGRAM_IN + 1]; /* bytes to the next element: 0 for what stays in its block */
} straight_step;

/* Where it goes straight: whole groups of lanes from `at` on, within a run whose pointers are `data`, or, without them,
 * anywhere in the plan. */
typedef struct stretch {
    int64_t at;
    char *const *data;
} stretch;

/* The one element that an operand is, NULL: it is more than that. */
static const char *one_element(const program_job *job, const stretch *on, int operand) {
    if (operand < 0 || job->packed[operand] || (on->data && job->plan->stride[operand][0])) return NULL;
    return on->data ? on->data[operand] : job->plan->data[operand];
}

static void locate_value(const program_job *job, program_scratch *s, const stretch *on, int value, char **address,
                         int64_t *move) {
    const tpi_program_value *v = &job->program->values[value];
    int k = v->operand;
    const char *one = one_element(job, on, k);
    *move = k >= 0 && !one ? value_size(v) : 0;
    if (k >= 0 && job->packed[k])
        *address = base(job, s, k) + on->at * *move;
    else
        *address = k >= 0 && !one ? on->data[k] : s->block[v->block];
    if (one && s->filled[k] != one) tpi_load_run(job->block, one, 0, v->dtype, *address, v->dtype);
    if (one) s->filled[k] = one;
}

/* Asks memory for a block that is not its turn yet: most steps compute, and would wait for it otherwise. */
static void fetch(const program_job *job, int64_t at) {
    const tpi_plan *p = job->plan;
    for (int k = 0; k < p->nargs; k++) {
        if (!job->packed[k] || k == job->aside) continue;
        int64_t size = tpi_dtype_bytes[p->dtype[k]];
        const char *first = p->data[k] + at * size;
        for (int64_t i = 0; i < job->block * size; i += LINE) __builtin_prefetch(first + i);
    }
}

static void locate_step(const program_job *job, program_scratch *s, const stretch *on, int i, straight_step *to) {
    const tpi_program_step *from = &job->program->steps[i];
    to->fn = job->fn[i];
    to->params = from->params;
    to->n = from->op->nin + 1;
    locate_value(job, s, on, from->out, &to->at[0], &to->move[0]);
    for (int k = 0; k < from->op->nin; k++) {
        if (from->in[k].value >= 0)
            locate_value(job, s, on, from->in[k].value, &to->at[k + 1], &to->move[k + 1]);
        else {
            to->at[k + 1] = s->block[from->in[k].block];
            to->move[k + 1] = 0;
        }
    }
}

/* ---- Registers ---- */

static bool is_float(const tpi_program *program, const tpi_program_arg *a) {
    return a->type == TP_FLOAT32 && (a->value < 0 || program->values[a->value].dtype == TP_FLOAT32);
}

/* Can the step run in registers? All of it is floats; one operand at least is no number, and the last two of three are
 * numbers. */
static bool fits_registers(const tpi_program *program, const tpi_program_step *step) {
    const tpi_map_op *op = step->op;
    if (!op->registers[0] || step->compute != TPI_F32 || step->type != TP_FLOAT32 ||
        program->values[step->out].dtype != TP_FLOAT32)
        return false;
    for (int k = 0; k < op->nin; k++)
        if (!is_float(program, &step->in[k])) return false;
    if (op->registers_when >= 0 && step->params[op->registers_when].f32 != 1.0f) return false;
    if (op->nin == 3) return step->in[0].value >= 0 && step->in[1].value < 0 && step->in[2].value < 0;
    return step->in[0].value >= 0 || (op->nin == 2 && step->in[1].value >= 0);
}

bool tpi_cpu_program_ready(tpi_program *program) {
    for (int i = 0; i < program->nsteps; i++) {
        tpi_program_step *step = &program->steps[i];
        step->registers = fits_registers(program, step);
        bool next = false, later = false;
        for (int j = i + 1; j < program->nsteps; j++)
            for (int k = 0; k < program->steps[j].op->nin; k++)
                if (program->steps[j].in[k].value == step->out) *(j == i + 1 ? &next : &later) = true;
        step->passes = next && !later && program->values[step->out].operand < 0;
    }
    return true;
}

static bool is_all_registers(const tpi_program *program) {
    for (int i = 0; i < program->nsteps; i++)
        if (!program->steps[i].registers) return false;
    return true;
}

static tpi_register_op moving(const program_job *job, program_scratch *s, const stretch *on, uint8_t code, int value) {
    tpi_register_op op = {.code = code, .value = value};
    locate_value(job, s, on, value, &op.at, &op.move);
    return op;
}

/* The operation on the accumulator and another operand, which comes `first` or second. */
static tpi_register_op with_operand(const program_job *job, program_scratch *s, const stretch *on, const tpi_map_op *op,
                                    const tpi_program_arg *other, bool first) {
    uint8_t number = op->registers[first ? TPI_REGISTERS_OF_NUMBER : TPI_REGISTERS_NUMBER];
    if (other->value < 0) return (tpi_register_op){.code = number, .number = other->number.f32, .value = -1};
    const char *one = one_element(job, on, job->program->values[other->value].operand);
    if (!one)
        return moving(job, s, on, op->registers[first ? TPI_REGISTERS_OF_MEMORY : TPI_REGISTERS_MEMORY], other->value);
    tpi_register_op to = {.code = number, .broadcast = true, .value = other->value};
    memcpy(&to.number, one, sizeof to.number);
    return to;
}

/* The operation of a step on the accumulator alone, and on numbers: its parameters, or its last two operands. */
static tpi_register_op with_numbers(const tpi_program_step *step, uint8_t code) {
    bool operands = step->op->nin == 3;
    return (tpi_register_op){.code = code,
                             .number = operands ? step->in[1].number.f32 : step->params[0].f32,
                             .number2 = operands ? step->in[2].number.f32 : step->params[1].f32,
                             .value = -1};
}

/* The operations of step i, whose value in[0] or in[1] may be in the accumulator, which holds the value `now`; returns
 * how many. */
static int write_step(const program_job *job, program_scratch *s, const stretch *on, int i, int now,
                      tpi_register_op *to) {
    const tpi_program_step *step = &job->program->steps[i];
    const tpi_program_arg *a = &step->in[0], *b = step->op->nin == 2 ? &step->in[1] : NULL;
    int n = 0;
    bool itself = b && a->value == b->value;
    bool other_first =
        b && !itself && (a->value < 0 || (b->value >= 0 && b->value == now)); /* the second is the accumulator */
    const tpi_program_arg *accumulator = other_first ? b : a;
    if (accumulator->value != now) to[n++] = moving(job, s, on, TPI_REGISTER_LOAD, accumulator->value);
    if (b && !itself)
        to[n++] = with_operand(job, s, on, step->op, other_first ? a : b, other_first);
    else
        to[n++] = with_numbers(step, step->op->registers[itself ? TPI_REGISTERS_ITSELF : 0]);
    return n;
}

/* Steps from i on as one register program; returns the step after it. */
static int write_registers(const program_job *job, program_scratch *s, const stretch *on, int i, tpi_register_op *to,
                           int *n) {
    const tpi_program *program = job->program;
    *n = 0;
    for (int now = -1; i < program->nsteps && program->steps[i].registers; i++) {
        *n += write_step(job, s, on, i, now, to + *n);
        now = program->steps[i].out;
        bool goes_on = i + 1 < program->nsteps && program->steps[i + 1].registers;
        if (!goes_on || !program->steps[i].passes) to[(*n)++] = moving(job, s, on, TPI_REGISTER_STORE, now);
    }
    return i;
}

/* As many whole groups of lanes as there are of `length` elements; returns how many elements that was. */
static int64_t run_straight(const program_job *job, program_scratch *s, const stretch *on, int64_t length) {
    const tpi_program *program = job->program;
    int64_t n = length & ~(int64_t)(TPI_LANES - 1);
    straight_step steps[TPI_PROGRAM_STEPS];
    tpi_register_op ops[TPI_REGISTER_OPS];
    int nsteps = 0, nops = 0;
    for (int i = 0; i < program->nsteps; nsteps++) {
        straight_step *to = &steps[nsteps];
        if (program->steps[i].registers && i + 1 < program->nsteps && program->steps[i + 1].registers) {
            to->fn = NULL;
            to->registers = ops + nops;
            i = write_registers(job, s, on, i, ops + nops, &to->n);
            nops += to->n;
            ops[nops++] = (tpi_register_op){.code = TPI_REGISTER_END};
        } else
            locate_step(job, s, on, i++, to);
    }
    for (int64_t done = 0; done < n; done += job->block) {
        int64_t now = n - done < job->block ? n - done : job->block;
        if (done + (AHEAD + 1) * job->block <= n) fetch(job, on->at + done + AHEAD * job->block);
        for (int i = 0; i < nsteps; i++) {
            const straight_step *step = &steps[i];
            if (!step->fn) {
                TPI_ISA_PICK(tpi_register_run)(now, done, step->n, step->registers);
                continue;
            }
            char *arg[TPI_PROGRAM_IN + 1];
            for (int k = 0; k < step->n; k++) arg[k] = step->at[k] + done * step->move[k];
            step->fn(now, arg, step->params);
        }
    }
    return n;
}

/* ---- Folds of registers ---- */

bool tpi_program_can_fold(const program_job *job, int64_t n) {
    const tpi_program *program = job->program;
    if (job->aside < 0 || !(job->straight || job->straight_runs) || !is_all_registers(program) ||
        n % TPI_REGISTER_LANES || (job->block % TPI_REGISTER_LANES && job->block < n))
        return false;
    return program->values[program->steps[program->nsteps - 1].out].operand == job->aside;
}

/* An operation that was written for another stretch. */
static void move_op(const program_job *job, program_scratch *s, const stretch *on, tpi_register_op *op) {
    if (op->value < 0) return;
    if (op->broadcast)
        memcpy(&op->number, one_element(job, on, job->program->values[op->value].operand), sizeof op->number);
    else
        locate_value(job, s, on, op->value, &op->at, &op->move);
}

bool tpi_program_fold(const program_job *job, program_scratch *s, tpi_register_program *registers, tpi_fold_end end,
                      int64_t at, int64_t n, float *state) {
    char *data[TPI_MAX_OPERANDS];
    stretch on = {at, NULL};
    if (!job->straight) {
        if (tpi_plan_seek(job->plan, at, data) < n) return false;
        on.data = data;
    }
    for (int k = 0; k < registers->nops; k++) move_op(job, s, &on, &registers->ops[k]);
    if (!registers->nops) {
        write_registers(job, s, &on, 0, registers->ops, &registers->nops);
        /* in place of what stores the last value */
        registers->ops[--registers->nops] = (tpi_register_op){.code = TPI_REGISTER_END};
    }
    _Alignas(32) float lanes[TPI_REGISTER_LANES] = {0};
    bool sums = end == TPI_FOLD_ENDS_IN_SUM;
    for (int l = 0; l < TPI_REGISTER_LANES && !sums; l++) lanes[l] = -INFINITY;
    for (int64_t done = 0; done < n; done += job->block) {
        int64_t now = n - done < job->block ? n - done : job->block;
        TPI_ISA_PICK(tpi_register_fold)(end, now, done, registers->nops, registers->ops, lanes);
    }
    float total = TPI_ISA_PICK(tpi_register_total)(end, lanes);
    *state = sums ? *state + total : *state > total || *state != *state ? *state : total;
    return true;
}

/* Within runs, or over the whole plan. */
static bool is_straight(const program_job *job, bool runs) {
    const tpi_program *program = job->program;
    const tpi_plan *p = job->plan;
    if (runs && (!p->ndim || p->shape[0] < LONG_RUN)) return false;
    for (int k = 0; k < p->nargs; k++) {
        bool in_runs =
            runs && (p->stride[k][0] == tpi_dtype_bytes[p->dtype[k]] || (p->stride[k][0] == 0 && k >= p->nout));
        if (!job->packed[k] && !job->constant[k] && !in_runs) return false;
    }
    for (int i = 0; i < program->nsteps; i++) {
        const tpi_program_step *step = &program->steps[i];
        if (step->type != program->values[step->out].dtype) return false;
        for (int k = 0; k < step->op->nin; k++)
            if (step->in[k].value >= 0 && step->in[k].type != program->values[step->in[k].value].dtype) return false;
    }
    return true;
}

/* ---- Any way ---- */

size_t tpi_program_scratch_bytes(const program_job *job) {
    const tpi_program *program = job->program;
    int used = 0;
    for (int v = 0; v < program->nvalues; v++)
        if (program->values[v].block >= used) used = program->values[v].block + 1;
    for (int i = 0; i < program->nsteps; i++)
        for (int k = 0; k < program->steps[i].op->nin; k++) {
            const tpi_program_arg *a = &program->steps[i].in[k];
            if (a->value < 0 && a->block >= used) used = a->block + 1;
        }
    return offsetof(program_scratch, block) + (size_t)used * TPI_PROGRAM_BLOCK_BYTES;
}

void tpi_program_begin(const program_job *job, program_scratch *s) {
    memset(s->filled, 0, sizeof s->filled);
    fill_numbers(job, s);
}

void tpi_program_range(const program_job *job, program_scratch *s, int64_t at, int64_t end, char *to) {
    const tpi_program *program = job->program;
    const tpi_plan *p = job->plan;
    if (job->aside >= 0) s->aside = (char *)((uintptr_t)to - (uintptr_t)(at * tpi_dtype_bytes[p->dtype[job->aside]]));
    program_block b = {.at = at};
    if (job->straight) b.at += run_straight(job, s, &(stretch){b.at, NULL}, end - b.at);
    for (; b.at < end; b.at += b.n) {
        b.run = tpi_plan_seek(p, b.at, b.data);
        if (job->aside >= 0) b.data[job->aside] = s->aside + b.at * tpi_dtype_bytes[p->dtype[job->aside]];
        b.n = end - b.at < b.run ? end - b.at : b.run;
        if (job->straight_runs && b.n >= TPI_LANES) {
            b.n = run_straight(job, s, &(stretch){b.at, b.data}, b.n);
            continue;
        }
        b.n = end - b.at < job->block ? end - b.at : job->block;
        if (job->long_runs && b.run < b.n) b.n = b.run;
        if (b.n > TPI_LANES && b.n % TPI_LANES) b.n -= b.n % TPI_LANES; /* the rest is a block of its own */
        b.lanes = (b.n + TPI_LANES - 1) & ~(int64_t)(TPI_LANES - 1);
        for (int v = 0; v < program->nvalues; v++)
            if (program->values[v].operand >= program->nout) s->at[v] = load(job, s, &b, &program->values[v]);
        for (int i = 0; i < program->nsteps; i++) run_step(job, s, &b, i);
    }
}

_Static_assert(offsetof(program_scratch, block) > TPI_SCRATCH_STACK, "a program's scratch is never on the stack");
typedef struct program_loop {
    program_job job;
    tpi_scratch scratch;
} program_loop;

static void program_chunk(int64_t chunk, void *context) {
    const program_loop *loop = context;
    const program_job *job = &loop->job;
    program_scratch *s = tpi_scratch_acquire(&loop->scratch, NULL);
    tpi_program_begin(job, s);
    int64_t at = chunk * TPI_CHUNK, end = at + TPI_CHUNK < job->plan->numel ? at + TPI_CHUNK : job->plan->numel;
    tpi_program_range(job, s, at, end, NULL);
    tpi_scratch_release(&loop->scratch, s);
}

/* What is known of each operand once and for all. */
static void study(program_job *job) {
    const tpi_plan *p = job->plan;
    bool all_flat = true, repeats = false;
    int64_t widest = 1;
    for (int k = 0; k < p->nargs; k++) {
        job->packed[k] = tpi_walk_is_packed(&(tpi_walk){p->ndim, p->shape, p->stride[k]}, tpi_dtype_bytes[p->dtype[k]]);
        job->constant[k] = !job->packed[k] && k >= p->nout;
        for (int d = 0; d < p->ndim && job->constant[k]; d++) job->constant[k] = p->stride[k][d] == 0;
        all_flat &= job->packed[k] || job->constant[k];
        job->repeats[k] = k >= p->nout && p->ndim > 1 && p->stride[k][0];
        for (int d = 1; d < p->ndim && job->repeats[k]; d++) job->repeats[k] = p->stride[k][d] == 0;
        repeats |= job->repeats[k];
    }
    for (int v = 0; v < job->program->nvalues; v++)
        if (value_size(&job->program->values[v]) > widest) widest = value_size(&job->program->values[v]);
    for (int i = 0; i < job->program->nsteps; i++) {
        const tpi_program_step *step = &job->program->steps[i];
        if (tpi_dtype_bytes[step->type] > widest) widest = tpi_dtype_bytes[step->type];
        for (int k = 0; k < step->op->nin; k++)
            if (tpi_dtype_bytes[step->in[k].type] > widest) widest = tpi_dtype_bytes[step->in[k].type];
    }
    job->straight = is_straight(job, false);
    job->straight_runs = !job->straight && is_straight(job, true);
    job->block = job->straight || job->straight_runs ? is_all_registers(job->program) ? REGISTER_BLOCK : STRAIGHT_BLOCK
                 : TPI_BLOCK_BYTES / widest < MOST_BLOCK ? TPI_BLOCK_BYTES / widest
                                                         : MOST_BLOCK;
    if (p->numel < job->block) job->block = (p->numel + TPI_LANES - 1) & ~(int64_t)(TPI_LANES - 1);
    int64_t period = repeats && p->shape[0] % TPI_LANES == 0
                         ? p->shape[0]
                         : 0; /* blocks that begin alike: what repeats is gathered once */
    if (period && period < job->block) job->block -= job->block % period;
    job->long_runs = !all_flat && p->ndim && p->shape[0] >= LONG_RUN;
}

bool tpi_program_prepare(program_job *job, const tpi_program *program, const tpi_plan *plan, int aside) {
    job->program = program;
    job->plan = plan;
    job->aside = aside;
    for (int i = 0; i < program->nsteps; i++) {
        const tpi_map_op *op = program->steps[i].op;
        const tpi_block_fn *table = op->fn[tpi_cpu_isa];
        job->fn[i] = table ? table[program->steps[i].compute] : NULL;
        if (!job->fn[i])
            return tpi_refuse(TP_ERR_MISSING, "%s has no CPU kernel for %s", op->name,
                              tp_dtype_name(tpi_ctype_dtype((tpi_ctype)program->steps[i].compute)));
    }
    study(job);
    return true;
}

bool tpi_cpu_program(tp_device device, const tpi_program *program, tpi_plan *plan) {
    (void)device;
    if (plan->numel == 0) return true;
    program_loop loop;
    int64_t chunks = tpi_ceil_div(plan->numel, TPI_CHUNK);
    bool worth = plan->numel >= TPI_WORTH_THREADS;
    if (!tpi_program_prepare(&loop.job, program, plan, -1)) return false;
    if (!tpi_scratch_make(&loop.scratch, tpi_program_scratch_bytes(&loop.job), chunks, worth)) return false;
    tpi_parallel_for(chunks, worth, program_chunk, &loop);
    tpi_scratch_free(&loop.scratch);
    return true;
}

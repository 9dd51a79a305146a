/* The C++ face of optimisers: a struct of options, which gives the C optimiser its values, and a class for each. */
#include "cpp.h"
#include "optimiser.h"
#include <string.h>

static bool is_none(const expr *e) { return e->kind == E_NAME && !strcmp(e->name, "None"); }
static const char *number_type(const option *p) {
    return p->kind == O_BOOL ? "bool" : p->kind == O_INT ? "int64_t" : "double";
}
static char *field_type(const option *p) {
    if (p->kind == O_STRING) return "std::optional<std::string>";
    if (p->fallback->kind == E_LIST) {
        text t = {0};
        put(&t, "std::tuple<");
        for (int i = 0; i < p->count; i++) put(&t, "%s%s", i ? ", " : "", number_type(p));
        put(&t, ">");
        return t.s;
    }
    return p->optional || is_none(p->fallback) ? format("std::optional<%s>", number_type(p)) : (char *)number_type(p);
}
static char *number(const option *p, const expr *e) {
    if (is_none(e)) return "std::nullopt";
    return p->kind == O_BOOL ? e->name : python_value(e);
}
static char *field_default(const option *p) {
    if (p->fallback->kind != E_LIST) {
        if (p->kind == O_STRING) return is_none(p->fallback) ? "std::nullopt" : c_string(p->fallback->name);
        return number(p, p->fallback);
    }
    text t = {0};
    for (int i = 0; i < p->count; i++) {
        const expr *e = p->fallback->arg[i]; /* in a list, None is the number that says "not given" */
        put(&t, "%s%s", i ? ", " : "{", is_none(e) ? "TP_NO_FLOAT" : number(p, e));
    }
    put(&t, "}");
    return t.s;
}

/* Scalars of the state are numbers of the C library; LibTorch counts steps in whole ones. */
static const char *scalar_type(const char *name) { return strcmp(name, "step") ? "double" : "int64_t"; }

static void write_value(text *t, const option *p) {
    const char *field = p->name;
    if (p->kind == O_STRING) {
        put(t, "        v[%d] = 0;\n", p->at);
        for (int i = 0; i < p->nchoices; i++)
            put(t, "        if (%s_ == %s) v[%d] = %d;\n", field, c_string(p->choice[i]), p->at, i + 1);
    } else if (p->fallback->kind == E_LIST)
        for (int i = 0; i < p->count; i++)
            put(t, "        v[%d] = static_cast<double>(std::get<%d>(%s_));\n", p->at + i, i, field);
    else if (p->optional || is_none(p->fallback))
        put(t, "        v[%d] = %s_ ? static_cast<double>(*%s_) : TP_NO_FLOAT;\n", p->at, field, field);
    else
        put(t, "        v[%d] = static_cast<double>(%s_);\n", p->at, field);
}
static void write_taken(text *t, const option *p) {
    const char *field = p->name, *type = number_type(p);
    const char *whole = p->kind == O_BOOL ? " != 0" : "";
    if (p->kind == O_STRING) {
        put(t, "        %s_ = std::nullopt;\n", field);
        for (int i = 0; i < p->nchoices; i++)
            put(t, "        if (v[%d] == %d) %s_ = %s;\n", p->at, i + 1, field, c_string(p->choice[i]));
    } else if (p->fallback->kind == E_LIST)
        for (int i = 0; i < p->count; i++)
            put(t, "        std::get<%d>(%s_) = static_cast<%s>(v[%d]%s);\n", i, field, type, p->at + i, whole);
    else if (p->optional || is_none(p->fallback))
        put(t,
            "        if (v[%d] == v[%d])\n            %s_ = static_cast<%s>(v[%d]%s);\n        else\n            %s_ = "
            "std::nullopt;\n",
            p->at, p->at, field, type, p->at, whole, field);
    else
        put(t, "        %s_ = static_cast<%s>(v[%d]%s);\n", field, type, p->at, whole);
}

/* Options of a group that the program left as they begin are the optimiser's. */
static void write_inherit(text *t, const optimiser *o) {
    put(t,
        "    void inherit(const OptimizerOptions &defaults) override {\n        const %sOptions fresh;\n"
        "        const auto &from = dynamic_cast<const %sOptions &>(defaults);\n",
        o->name, o->name);
    for (int i = 0; i < o->noptions; i++) {
        const option *p = &o->options[i];
        if (p->count && !p->fixed)
            put(t, "        if (%s_ == fresh.%s_) %s_ = from.%s_;\n", p->name, p->name, p->name, p->name);
    }
    put(t, "    }\n");
}

/* What the optimiser keeps of a parameter: AdamParamState. Its tensors are the optimiser's own. */
static void write_state(text *t, const optimiser *o) {
    put(t,
        "\nclass %sParamState : public OptimizerParamState {\n  public:\n    explicit %sParamState(const Read &read)",
        o->name, o->name);
    for (int i = 0; i < o->nslots; i++)
        put(t, "%s%s_(read(\"%s\"))", i ? ", " : "\n        : ", o->slots[i].name, o->slots[i].name);
    put(t, " {}\n");
    for (int i = 0; i < o->nslots; i++) {
        const char *name = o->slots[i].name;
        if (strcmp(o->slots[i].shape, "scalar"))
            put(t, "    const Tensor &%s() const { return %s_; }\n", name, name);
        else
            put(t, "    %s %s() const { return detail::number_or_zero<%s>(%s_); }\n", scalar_type(name), name,
                scalar_type(name), name);
    }
    put(t, "\n  private:\n");
    for (int i = 0; i < o->nslots; i++) put(t, "    Tensor %s_;\n", o->slots[i].name);
    put(t, "};");
}

static void write_one(text *t, const optimiser *o) {
    bool has_lr = false;
    for (int i = 0; i < o->noptions; i++) has_lr = has_lr || !strcmp(o->options[i].name, "lr");
    put(t, "\n/* %s */\nstruct %sOptions : OptimizerCloneableOptions<%sOptions> {\n", o->doc, o->name, o->name);
    for (int i = 0; i < o->noptions; i++) {
        const option *p = &o->options[i];
        if (!strcmp(p->name, "lr")) put(t, "    %sOptions(double lr = %s) : lr_(lr) {}\n", o->name, field_default(p));
    }
    for (int i = 0; i < o->noptions; i++) {
        const option *p = &o->options[i];
        if (!p->count || p->fixed) continue;
        char *type = field_type(p);
        if (p->fallback->kind == E_LIST) put(t, "    using %s_t = %s;\n", p->name, type);
        put(t,
            "    %sOptions &%s(%s new_value) {\n        %s_ = new_value;\n        return *this;\n    }\n"
            "    const %s &%s() const { return %s_; }\n    %s &%s() { return %s_; }\n",
            o->name, p->name, type, p->name, type, p->name, p->name, type, p->name, p->name);
    }
    put(t,
        "    std::vector<double> values() const override {\n        std::vector<double> v = "
        "detail::optimiser_defaults(\"%s\");\n",
        o->name);
    for (int i = 0; i < o->noptions; i++)
        if (o->options[i].count && !o->options[i].fixed) write_value(t, &o->options[i]);
    put(t, "        return v;\n    }\n    void take(const std::vector<double> &v) override {\n");
    for (int i = 0; i < o->noptions; i++)
        if (o->options[i].count && !o->options[i].fixed) write_taken(t, &o->options[i]);
    put(t, "    }\n");
    write_inherit(t, o);
    if (has_lr)
        put(t, "    double get_lr() const override { return lr_; }\n    void set_lr(const double lr) override { lr_ = "
               "lr; }\n");
    put(t, "\n  private:\n");
    for (int i = 0; i < o->noptions; i++) {
        const option *p = &o->options[i];
        if (p->count && !p->fixed) put(t, "    %s %s_ = %s;\n", field_type(p), p->name, field_default(p));
    }
    put(t, "};");
    if (o->nslots) write_state(t, o);
    put(t, "\nclass %s : public Optimizer {\n  public:\n", o->name);
    put(t,
        "    explicit %s(const std::vector<OptimizerParamGroup> &groups, const %sOptions &defaults = %sOptions())\n"
        "        : Optimizer(\"%s\", groups, defaults) {}\n"
        "    explicit %s(std::vector<Tensor> params, const %sOptions &defaults = %sOptions())\n"
        "        : Optimizer(\"%s\", {OptimizerParamGroup(std::move(params))}, defaults) {}\n",
        o->name, o->name, o->name, o->name, o->name, o->name, o->name, o->name);
    if (o->nslots)
        put(t,
            "\n  protected:\n    std::unique_ptr<OptimizerParamState> read_state(const OptimizerParamState::Read "
            "&read) "
            "const override {\n        return std::make_unique<%sParamState>(read);\n    }\n",
            o->name);
    put(t, "};\n");
}

text write_cpp_optimisers(void) {
    text t = {0};
    put(&t, "/* Optimisers as classes. Written by opgen from tables/optimisers: do not edit. */\n#pragma once\n"
            "namespace taper {\nnamespace optim {\n");
    for (int i = 0; i < noptimisers; i++) write_one(&t, optimisers[i]);
    put(&t, "} // namespace optim\n} // namespace taper\n");
    return t;
}

/* Optimisers: stanzas of tables/optimisers, read by optimiser.c, written by optimiser_code.c (kernels and the table)
 * and optimiser_header.c (the public header and the docs). */
#ifndef OPGEN_OPTIMISER_H
#define OPGEN_OPTIMISER_H
#include "opgen.h"

typedef enum { O_FLOAT, O_INT, O_BOOL, O_STRING } option_kind;
typedef struct option {
    char *name;
    option_kind kind;
    bool optional;       /* may be None */
    bool keyword, fixed; /* fixed: no argument of the constructor */
    expr *fallback;      /* a list's is an E_LIST */
    int count;           /* how many values: 1, a list's length, or 0 for what is accepted and means nothing here */
    int at;              /* the first one's place among all values */
    char *part[4];       /* their names in expressions */
    char *choice[8];     /* O_STRING: what it may say; value 0 is None */
    int nchoices;
    char *choice_message;
} option;

typedef struct slot { /* per-parameter state */
    char *name;
    char *shape; /* "scalar", "like", "rows", "columns", "vector" */
    expr *start;
    int flag; /* kept only where this flag holds; -1: always */
} slot;

typedef struct optimiser {
    location at;
    char *name, *cname, *family, *doc;
    struct optimiser *like; /* whose checks, flags, state and update these are */
    int noptions, nvalues;
    option options[24];
    int group[24]; /* the options in the order of PyTorch's parameter groups */
    bool keywords; /* what follows is keyword-only */
    int momentum;  /* the value that schedules move against the rate; -1: none */
    int nchecks;
    check checks[12];
    int nflags;
    char *flag[4];
    expr *flag_value[4];
    char *flag_text[4];
    int nslots;
    slot slots[8];
    bool early; /* state is made with the optimiser, not by its first step */
    block *scalar, *update;
    char *scalar_text, *update_text; /* as written */
    char *native;
    bool closure; /* its step computes the loss itself, and keeps no state per parameter */
} optimiser;
extern optimiser **optimisers;
extern int noptimisers;

void read_optimisers(const char *path);
void check_optimisers(void);
int find_value(const optimiser *o, const char *name); /* a value's place by its name in expressions; -1: none */
char *python_value(const expr *e);                    /* a default as Python writes it */
char *python_formula(const optimiser *o);             /* the step as Python source, or NULL */
text write_updates(const char *family);
text write_update_texts(void);
text write_optimisers(void);
text write_optimisers_internal(void);
text write_optimisers_header(void);
void write_constructor_code(text *t, const optimiser *o);
text write_optimisers_docs(void);
#endif

/* facts.c: facts about an operator that the library asks for, from its stanza to its record. */
#ifndef OPGEN_FACTS_H
#define OPGEN_FACTS_H
#include "opgen.h"

bool parse_fact(op *o, const char *s, location at); /* false: the line is none of a fact */
char *fact_words(void);                             /* the words that begin such lines, for messages */
void derive_facts(void);                            /* after all tables are read */
void write_facts(text *t, const op *o);             /* functions that the record points to */
char *fact_members(const op *o);                    /* the members of tp_operator */
#endif

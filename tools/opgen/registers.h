/* registers.c: the operations of the register machine of CPU programs, from the expressions of maps. */
#ifndef OPGEN_REGISTERS_H
#define OPGEN_REGISTERS_H
#include "opgen.h"

void parse_registers(op *o, const char *s, location at);
void derive_registers(void);           /* after all tables are read */
char *register_members(const op *o);   /* the members of tpi_map_op */
const char *register_end(const op *o); /* "SUM", "MAX" or "NONE": a fold's elements may stay in registers */
text write_registers(void);            /* tpi_registers.h */
#endif

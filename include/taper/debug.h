/* What TAPER_DEBUG=1 knows: which objects are alive, and where they were made.
 *
 * With TAPER_DEBUG=1 in the environment the memory of objects of every kind is given to no other, so that a second
 * release and a use after the release are always errors, which name the function. It costs memory and time.
 *
 *     static void print(const char *line, void *context) { puts(line); }
 *     int64_t before = tp_debug_mark();
 *     step();
 *     tp_debug_live(before, print, NULL);    // what the step made and did not release
 *
 * A line is "2 tensors made by tp_relu, called from ./train+0x11f3 (main)"; `addr2line -e ./train 0x11f3` gives the
 * file and line of a program that was compiled with -g. TAPER_LEAKS=FILE writes all lines to that file at the program's
 * end. */
#ifndef TAPER_DEBUG_H
#define TAPER_DEBUG_H
#include <taper/base.h>

TP_BEGIN

/* How many objects were made so far: a mark for tp_debug_live. -1 without TAPER_DEBUG=1. */
TP_API int64_t tp_debug_mark(void);
/* How many objects made since the mark (0: ever) are alive. `each` (NULL: none) gets a line per place where some were
 * made. -1 without TAPER_DEBUG=1. */
TP_API int64_t tp_debug_live(int64_t mark, void (*each)(const char *line, void *context), void *context);

TP_END
#endif

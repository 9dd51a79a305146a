/* Looks for elements out of range, and notes one as a fault (fault.h). Before this text: LARGE, X the dtype; A the type
 * to compare in.
 *
 *   numbers  of an integer dtype, from 0 to size - 1
 *   values   of a floating dtype, from low (ABOVE: which is not one of them) to high; what is wrong otherwise is told
 *            by `kind` */
#include "each.h"
#include "fault.h"

#ifdef KERNEL_numbers
KERNEL(entry)
(FAULT, PTR(in), const int64_t n, const int64_t size) {
    EACH(i, n) {
        const int64_t k = GET_X(AT(const T_X, in)[i]);
        if (k < 0 || k >= size) NOTE_FAULT(k, size);
    }
}
#endif

#ifdef KERNEL_values
KERNEL(entry)
(FAULT, PTR(in), const int64_t n, const A low, const A high, const int64_t kind) {
    EACH(i, n) {
        const A x = GET_X(AT(const T_X, in)[i]);
        if (!((ABOVE ? x > low : x >= low) && x <= high)) NOTE_FAULT(0, kind);
    }
}
#endif

/* The trainings of tests/python/test_same_bits.py, from C: the same networks under the same names, built, fed and
 * stepped in the same order, so that the same seeds give the same bits. */
#ifndef TRAININGS_H
#define TRAININGS_H
#include <taper/taper.h>

typedef struct training {
    const char *name; /* of the function in test_same_bits.py */
    tp_module *(*network)(void);
    void (*data)(tp_tensor **x, tp_tensor **y); /* the scope's */
    tp_tensor *(*loss)(tp_tensor *out, tp_tensor *y);
    tp_optimiser *(*optimiser)(tp_tensors parameters);
} training;

extern const training trainings[];
extern const int training_count;
#endif

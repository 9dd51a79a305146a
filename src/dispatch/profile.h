/* Watching a thread's operators, backward nodes and named ranges: what src/dispatch/detour.c and the engine call. */
#ifndef TPI_PROFILE_H
#define TPI_PROFILE_H
#include <taper/profile.h>
#include "tensor/recorder.h"

/* Why a call of an operator may have to leave the straight way. One byte of the thread's, so that all reasons cost one
 * test. */
enum { TPI_AUTOCASTS = 1, TPI_WATCHED = 2, TPI_RECORDED = 4 };
extern TPI_THREAD_LOCAL uint8_t tpi_detours;

/* What runs between the two is not recorded (tensor/recorder.h): who runs it tells of it as a whole. NULL: nobody
 * records. */
static inline tpi_recorder *tpi_recording_off(void) {
    tpi_recorder *recorder = tpi_recording;
    if (__builtin_expect(recorder != NULL, 0)) {
        tpi_recording = NULL;
        tpi_detours &= (uint8_t)~TPI_RECORDED;
    }
    return recorder;
}
static inline void tpi_recording_on(tpi_recorder *recorder) {
    if (__builtin_expect(recorder && !recorder->ended, 0)) {
        tpi_recording = recorder;
        tpi_detours |= TPI_RECORDED;
    }
}

/* Opens an event under the one that is open; the name must outlive the profile. Its number, -1 where nobody watches or
 * memory is short. It ends with tpi_watch_end, which takes what its inside left open with it. */
int64_t tpi_watch_begin(const char *name, tp_event_kind kind, int64_t sequence);
void tpi_watch_end(int64_t event);
/* An input of the event just opened: a tensor, a list of them (t NULL, list not NULL), or neither, for what is no
 * tensor. */
void tpi_watch_input(int64_t event, const tp_tensor *t, const tp_tensors *list);
void tpi_watch_numbers(int64_t event, tp_ints numbers);
bool tpi_watch_wants_shapes(int64_t event);
void tpi_watch_multiply_adds(int64_t event, double count);
#endif

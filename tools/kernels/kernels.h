/* kernels: compiles GPU programs ahead, without a GPU. A driver that computes nothing stands in for the device and
 * keeps the source of every program that is asked for (record.c); the work that programs usually do is called on it
 * (cases.c); what was kept is compiled for each architecture and packed into the archive that the library looks into
 * first (pack.c). */
#ifndef TAPER_KERNELS_H
#define TAPER_KERNELS_H
#include "device/gpu/archive.h"

typedef struct recorded {
    char *source;
    size_t bytes;
    tpi_gpu_hash hash;
} recorded;
typedef struct recording { /* sorted by hash after finish_recording, each program once */
    recorded *programs;
    int n, capacity;
} recording;

/* The device cuda:0 is there from now on: NVIDIA's, or AMD's with so many threads in step. */
void start_recording(recording *all, const tpi_gpu_driver *driver, int warp);
void serve_libraries(
    bool serve); /* do products, convolutions and attention go to libraries, or to kernels of our own? */
void finish_recording(recording *all);

void run_cases(void);

/* Compiles every `step`-th program in `jobs` processes. False, having said why, where one does not compile. */
bool check(const recording *all, const tpi_gpu_driver *driver, const char *const *archs, int narchs, int jobs,
           int step);
/* Compiles what `cache` does not have yet in `jobs` processes, then writes the archive. False, having said why, on
 * failure. */
bool pack(const recording *all, const tpi_gpu_driver *driver, const char *const *archs, int narchs, int jobs,
          const char *path);
#endif

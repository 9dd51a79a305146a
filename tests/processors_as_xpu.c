/* Part of every C test: OpenCL on processors (PoCL) stands in for GPUs, which a program would have to ask for. */
#include <stdlib.h>

__attribute__((constructor)) static void take_processors(void) { setenv("TAPER_XPU_DEVICES", "cpu", 0); }

/* Runs a test program at the instruction level that TAPER_ISA names: at_level PROGRAM. Where the processor has less,
 * the program would run at what it has, which is another test's business: this one ends with 77, which ctest shows as
 * skipped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "device/device.h"

int main(int argc, char **argv) {
    static const char *const names[TPI_ISAS] = {"base", "avx2", "avx512"};
    const char *wanted = getenv("TAPER_ISA");
    if (argc < 2 || !wanted) {
        fprintf(stderr, "usage: TAPER_ISA=base|avx2|avx512 at_level PROGRAM\n");
        return 2;
    }
    if (strcmp(names[tpi_cpu_isa], wanted)) {
        printf("this processor has no %s\n", wanted);
        return 77;
    }
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 1;
}

/* The CPU's device table. */
#include "device/cpu/cpu.h"
#include <string.h>
#include "device/block_program.h"

static void *cpu_alloc(tp_device device, size_t bytes) {
    (void)device;
    return tpi_alloc(bytes);
}

static void cpu_free(tp_device device, void *block, size_t bytes) {
    (void)device;
    tpi_free(block, bytes);
}

static bool cpu_move(tp_device device, void *to, const void *from, size_t bytes) {
    (void)device;
    memcpy(to, from, bytes);
    return true;
}

static bool cpu_synchronize(tp_device device) {
    (void)device;
    return true;
}

const tpi_device_ops tpi_cpu_ops = {
    .version = TPI_DEVICE_VERSION,
    .name = "cpu",
    .alloc = cpu_alloc,
    .free = cpu_free,
    .to_host = cpu_move,
    .from_host = cpu_move,
    .synchronize = cpu_synchronize,
    .map = tpi_cpu_map,
    .fold = tpi_cpu_fold,
    .scan = tpi_cpu_scan,
    .copy = tpi_cpu_copy,
    .fill = tpi_cpu_fill,
    .program_ready = tpi_cpu_program_ready,
    .program = tpi_cpu_program,
    .fold_of_program = tpi_cpu_fold_of_program,
};

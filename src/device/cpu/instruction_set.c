/* Which instruction set this CPU runs, found when the library is loaded; TAPER_ISA may ask for a lower one. */
#include "device/device.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

tpi_isa tpi_cpu_isa = TPI_ISA_BASE;
tpi_bf16_units tpi_cpu_bf16 = TPI_BF16_NONE;
tpi_byte_units tpi_cpu_bytes = TPI_BYTES_NONE;

#if defined(__x86_64__) && !defined(TPI_ISA_BASE_ONLY)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t enabled_states(void) { /* XCR0: which registers the system saves */
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Every feature of x86-64-v3 or -v4 that compilers may use, each asked for by its bit. */
static tpi_isa detect(void) {
    unsigned a, b, c, d;
    enum { FMA = 1 << 12, MOVBE = 1 << 22, OSXSAVE = 1 << 27, AVX = 1 << 28, F16C = 1 << 29 };
    const unsigned need1 = FMA | MOVBE | OSXSAVE | AVX | F16C;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & need1) != need1) return TPI_ISA_BASE;
    uint64_t states = enabled_states();
    if ((states & 0x6) != 0x6) return TPI_ISA_BASE;
    if (!__get_cpuid(0x80000001u, &a, &b, &c, &d) || !(c & 1u << 5)) return TPI_ISA_BASE; /* LZCNT */
    enum { BMI1 = 1 << 3, AVX2 = 1 << 5, BMI2 = 1 << 8 };
    const unsigned need7 = BMI1 | AVX2 | BMI2;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & need7) != need7) return TPI_ISA_BASE;
    const unsigned need512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31; /* F, DQ, CD, BW, VL */
    return (b & need512) == need512 && (states & 0xe6) == 0xe6 ? TPI_ISA_AVX512 : TPI_ISA_AVX2;
}

/* AMX's registers are large, and a process has to ask the system for them. Old systems know no such question. */
static bool may_use_tiles(void) {
    enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18 };
    const uint64_t states = (uint64_t)3 << 17; /* the tiles' configuration and data */
    if ((enabled_states() & states) != states) return false;
    return syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0;
}

/* Tiles, with what multiplies those numbers. */
static bool has_tiles_of(unsigned bit) {
    unsigned a, b, c, d;
    const unsigned need = 1u << 24 | bit;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & need) == need && may_use_tiles();
}

static tpi_bf16_units detect_bf16(void) {
    enum { BF16_TILES = 1 << 22 };
    unsigned a, b, c, d;
    if (tpi_cpu_isa < TPI_ISA_AVX512 || !__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & 1u << 5))
        return TPI_BF16_NONE;
    return has_tiles_of(BF16_TILES) ? TPI_BF16_AMX : TPI_BF16_AVX512;
}

static tpi_byte_units detect_bytes(void) {
    enum { BYTE_TILES = 1 << 25, VNNI = 1 << 11 };
    unsigned a, b, c, d;
    if (tpi_cpu_isa < TPI_ISA_AVX512 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(c & VNNI)) return TPI_BYTES_NONE;
    return has_tiles_of(BYTE_TILES) ? TPI_BYTES_AMX : TPI_BYTES_VNNI;
}
#else
static tpi_isa detect(void) { return TPI_ISA_BASE; }
static tpi_bf16_units detect_bf16(void) { return TPI_BF16_NONE; }
static tpi_byte_units detect_bytes(void) { return TPI_BYTES_NONE; }
#endif

__attribute__((constructor)) static void choose_isa(void) {
    static const char *const names[TPI_ISAS] = {"base", "avx2", "avx512"};
    tpi_cpu_isa = detect();
    const char *wish = getenv("TAPER_ISA");
    bool plain = false;
    for (int i = 0; wish && i <= (int)tpi_cpu_isa; i++)
        if (!strcmp(wish, names[i])) {
            tpi_cpu_isa = (tpi_isa)i;
            plain = true;
            break;
        }
    if (plain) return;
    tpi_cpu_bf16 = detect_bf16();
    tpi_cpu_bytes = detect_bytes();
    if (!wish || strcmp(wish, "avx512_bf16")) return;
    if (tpi_cpu_bf16 == TPI_BF16_AMX) tpi_cpu_bf16 = TPI_BF16_AVX512;
    if (tpi_cpu_bytes == TPI_BYTES_AMX) tpi_cpu_bytes = TPI_BYTES_VNNI;
}

/* Takes every k-th item of an idx file (the format of MNIST), for small data sets that travel with the repository:
 *     idx_subset IN.gz OUT.gz K
 * IN may be compressed or not. The same input always gives the same bytes. A file that is not idx, or ends early, is an
 * error. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

static void stop(const char *file, const char *why) {
    fprintf(stderr, "idx_subset: %s: %s\n", file, why);
    exit(1);
}

static uint32_t big_endian(const unsigned char *b) {
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

int main(int argc, char **argv) {
    if (argc != 4 || atoi(argv[3]) < 1) {
        fprintf(stderr, "usage: idx_subset IN.gz OUT.gz K\n");
        return 2;
    }
    uint32_t step = (uint32_t)atoi(argv[3]);
    /* Two zero bytes, the element type (8: unsigned byte), the number of dimensions; then each size, big-endian. */
    unsigned char head[4 + 4 * 255];
    gzFile in = gzopen(argv[1], "rb");
    if (!in || gzread(in, head, 4) != 4 || head[0] || head[1] || head[2] != 8 || !head[3])
        stop(argv[1], "not an idx file of bytes");
    unsigned head_bytes = 4 + 4u * head[3];
    if (gzread(in, head + 4, head_bytes - 4) != (int)head_bytes - 4) stop(argv[1], "ends early");
    size_t item = 1;
    for (int d = 1; d < head[3]; d++) item *= big_endian(head + 4 + 4 * d);
    uint32_t count = big_endian(head + 4), kept = (count + step - 1) / step;
    for (int i = 0; i < 4; i++) head[4 + i] = (unsigned char)(kept >> (24 - 8 * i));

    gzFile out = gzopen(argv[2], "wb9");
    unsigned char *buffer = malloc(item);
    if (!out || !buffer || gzwrite(out, head, head_bytes) != (int)head_bytes) stop(argv[2], "cannot be written");
    for (uint32_t i = 0; i < count; i++) {
        if (gzread(in, buffer, (unsigned)item) != (int)item) stop(argv[1], "ends early");
        if (i % step == 0 && gzwrite(out, buffer, (unsigned)item) != (int)item) stop(argv[2], "cannot be written");
    }
    free(buffer);
    gzclose(in);
    if (gzclose(out) != Z_OK) stop(argv[2], "cannot be written");
    return 0;
}

/* The numbers of the zip format that its reader and its writer share, and little-endian fields. */
#ifndef TPI_ZIP_FORMAT_H
#define TPI_ZIP_FORMAT_H
#include <stdint.h>

enum { /* fixed parts of the records, in bytes */
       ZIP_LOCAL_BYTES = 30,
       ZIP_ENTRY_BYTES = 46,
       ZIP_END_BYTES = 22,
       ZIP_END64_BYTES = 56,
       ZIP_LOCATOR_BYTES = 20
};
#define ZIP_LOCAL       0x04034b50u
#define ZIP_ENTRY       0x02014b50u
#define ZIP_END         0x06054b50u
#define ZIP_END64       0x06064b50u
#define ZIP_LOCATOR     0x07064b50u
#define ZIP_EXTRA64     1u          /* the extra field with 64-bit sizes and offset */
#define ZIP_PADDING     0x4246u     /* the extra field that aligns a member's bytes, as PyTorch's writer makes it */
#define ZIP_EXTRA_BYTES 128         /* enough for the extra fields of a local header that is written */
#define ZIP_UTF8        0x0800u     /* flag: names and comments are UTF-8 */
#define ZIP_ENCRYPTED   0x0001u     /* flag */
#define ZIP_EPOCH       0x00210000u /* 1980-01-01: the same contents always make the same file */

static inline unsigned char *put16(unsigned char *p, uint16_t v) {
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
    return p + 2;
}
static inline unsigned char *put32(unsigned char *p, uint32_t v) {
    return put16(put16(p, (uint16_t)v), (uint16_t)(v >> 16));
}
static inline unsigned char *put64(unsigned char *p, uint64_t v) {
    return put32(put32(p, (uint32_t)v), (uint32_t)(v >> 32));
}
static inline uint16_t get16(const unsigned char *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t get32(const unsigned char *p) { return get16(p) | (uint32_t)get16(p + 2) << 16; }
static inline uint64_t get64(const unsigned char *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }
#endif

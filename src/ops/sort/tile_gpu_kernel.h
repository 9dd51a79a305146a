/* The tile of keys that a block sorts in shared memory: THREADS_OF threads have ITEMS keys of KEY bytes each. */
#define THREADS_OF 256
#define TILE       (THREADS_OF * ITEMS)
#if KEY == 8
typedef uint64_t key_t;
#else
typedef uint32_t key_t;
#endif
#define DIGIT(key) ((int)((key) >> shift) & 255)

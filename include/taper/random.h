/* Random numbers: PyTorch's seeded CPU streams, from a generator that can be passed around, saved and put back. Devices
 * have generators of their own (Philox: a seed and a place in its stream), which the host can draw from as well. */
#ifndef TAPER_RANDOM_H
#define TAPER_RANDOM_H
#include <taper/tensor.h>

TP_BEGIN

typedef struct tp_generator tp_generator;
/* A generator of the CPU with this seed. */
TP_API tp_generator *tp_generator_new(uint64_t seed);
TP_API void tp_generator_free(tp_generator *g); /* NULL is fine; the default generator cannot be freed */
/* The CPU's default generator, which belongs to the library. */
TP_API tp_generator *tp_default_generator(void);
TP_API void tp_manual_seed(uint64_t seed); /* of the default generators of the CPU and of all devices */
/* A generator of a device with this seed. */
TP_API tp_generator *tp_generator_new_on(tp_device device, uint64_t seed);
/* NULL and an error for an index that no device can have */
TP_API tp_generator *tp_default_generator_of(tp_device device);
TP_API tp_device tp_generator_device(const tp_generator *g);
TP_API void tp_generator_seed(tp_generator *g, uint64_t seed);
TP_API uint64_t tp_generator_initial_seed(const tp_generator *g);
TP_API bool tp_generator_seed_anew(tp_generator *g, uint64_t *seed); /* from the system's entropy; seed may be NULL */
TP_API tp_generator *tp_generator_clone(const tp_generator *g); /* another generator at the same place of its stream */
/* The state as PyTorch's get_rng_state lays it out: a uint8 tensor of 5056 bytes; a device generator's has 16, the seed
 * and the place. */
TP_API tp_tensor *tp_generator_get_state(const tp_generator *g);
TP_API bool tp_generator_set_state(tp_generator *g, const tp_tensor *state);
TP_API int64_t tp_generator_offset(const tp_generator *g); /* a device generator's place, in words; -1 for the CPU's */
TP_API bool tp_generator_set_offset(tp_generator *g, int64_t offset); /* a multiple of 4 */

TP_END
#endif

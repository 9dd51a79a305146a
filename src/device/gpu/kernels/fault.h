/* What a kernel that takes indices does about one that is out of range: it notes it in the device's fault word, which
 * the host looks at when it has waited for the device anyway (gpu/fault.c), and computes on without it.
 *
 *   KERNEL(entry)(FAULT, PTR(out), ...) { ... if (k < 0 || k >= size) NOTE_FAULT(k, size); ... }
 *
 * The first stays. Threads that find one at the same time may leave the index of either. */
#ifndef FAULT_H
#define FAULT_H
#if defined(__OPENCL_VERSION__)
#define FENCE_OF_ALL() mem_fence(CLK_GLOBAL_MEM_FENCE)
#else
#define FENCE_OF_ALL() __threadfence_system()
#endif
#define FAULT               PTR(fault), const int64_t fault_op
#define NOTE_FAULT(k, size) note_fault(AT(volatile int64_t, fault), fault_op, k, size)

INLINE void note_fault(GLOBAL volatile int64_t *fault, int64_t op, int64_t index, int64_t size) {
    if (fault[0]) return;
    fault[1] = op;
    fault[2] = index;
    fault[3] = size;
    FENCE_OF_ALL();
    fault[0] = 1;
}
#endif

/* Operations that round one by one: no multiplication and addition of the text becomes one instruction, which would
 * keep digits that a tensor between two operators does not. So an operator gives the same bits alone and among others
 * in one kernel. NVRTC has no word for it: cuda/compile.c looks for this definition. */
#ifndef ROUNDS_EACH_OPERATION
#define ROUNDS_EACH_OPERATION
#if defined(__OPENCL_VERSION__)
#pragma OPENCL FP_CONTRACT OFF
#elif defined(__HIP__)
#pragma clang fp contract(off)
#endif
#endif

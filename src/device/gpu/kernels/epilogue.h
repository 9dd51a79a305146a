/* What a kernel's prologue and epilogue are where it has none: PROLOGUE and EPILOGUE are 0, their arguments and writes
 * nothing, and EPILOGUE_KEEPS is 1: the kernel writes its result itself. device/gpu/epilogue.h says what they are. */
#include "rounding.h"
#ifndef PROLOGUE
#define PROLOGUE 0
#define PROLOGUE_ARGUMENTS
#endif
#ifndef EPILOGUE
#define EPILOGUE       0
#define EPILOGUE_KEEPS 1
#define EPILOGUE_ARGUMENTS
#define EPILOGUE_WRITE(at, y)
#endif

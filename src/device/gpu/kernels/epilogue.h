/* What a kernel's epilogue is where it has none; see device/gpu/epilogue.h. */
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

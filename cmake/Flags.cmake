# Compiler and linker flags that all of Taper's own code shares, as interface targets:
#   taper_warnings   what the compiler should say
#   taper_flags      how the library is compiled, its include folders and the libraries it stands on

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_C_FLAGS_RELEASE "-O3")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_package(OpenMP REQUIRED COMPONENTS C)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)

add_library(taper_warnings INTERFACE)
# clang reports each `omp simd` loop that it leaves scalar, such as those that call functions it has no vector version of.
target_compile_options(taper_warnings INTERFACE -Wall -Wextra $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed> $<$<BOOL:${TAPER_WERROR}>:-Werror>)

add_library(taper_flags INTERFACE)
target_link_libraries(taper_flags INTERFACE taper_warnings OpenMP::OpenMP_C PkgConfig::OPENBLAS ZLIB::ZLIB PNG::PNG JPEG::JPEG m ${CMAKE_DL_LIBS})
# The floating-point flags free the vectoriser without changing a result: nobody reads errno or the exception flags, and
# contraction would make results depend on the instruction set.
# The code of the house initialises lists by position: (tp_ints){v, n}.
target_compile_definitions(taper_flags INTERFACE TP_POSITIONAL)
target_compile_options(taper_flags INTERFACE -fno-math-errno -fno-trapping-math -ffp-contract=off -ffunction-sections -fdata-sections
    $<$<BOOL:${TAPER_DEBUG_INFO}>:-g1>)
target_link_options(taper_flags INTERFACE -Wl,--gc-sections -Wl,--as-needed)

if(TAPER_SANITIZE)
    # -O1 keeps the build short; TPI_PLAIN_ALLOC lets the sanitizer see each block's own life.
    set(CMAKE_C_FLAGS_RELEASE "-O1 -g1 -fno-omit-frame-pointer")
    set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=undefined)
    target_compile_options(taper_flags INTERFACE ${sanitize})
    target_link_options(taper_flags INTERFACE ${sanitize})
endif()

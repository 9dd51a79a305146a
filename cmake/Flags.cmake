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

# A library in a folder of its own (a module's, a user's) is found again by what was linked with it.
if(NOT DEFINED CMAKE_INSTALL_RPATH_USE_LINK_PATH)
    set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
endif()

find_package(OpenMP REQUIRED COMPONENTS C)
find_package(PkgConfig QUIET)
include(cmake/Blas.cmake)

add_library(taper_warnings INTERFACE)
# clang reports each `omp simd` loop that it leaves scalar, such as those that call functions it has no vector version of.
target_compile_options(taper_warnings INTERFACE -Wall -Wextra $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed> $<$<BOOL:${TAPER_WERROR}>:-Werror>)

add_library(taper_flags INTERFACE)
target_link_libraries(taper_flags INTERFACE taper_warnings OpenMP::OpenMP_C taper_blas m ${CMAKE_DL_LIBS})
# The floating-point flags free the vectoriser without changing a result: nobody reads errno or the exception flags, and
# contraction would make results depend on the instruction set.
# Taper's own code initialises lists by position: (tp_ints){v, n}.
target_compile_definitions(taper_flags INTERFACE TP_POSITIONAL)
target_compile_options(taper_flags INTERFACE -fno-math-errno -fno-trapping-math -ffp-contract=off -ffunction-sections -fdata-sections
    $<$<BOOL:${TAPER_DEBUG_INFO}>:-g1>)
target_link_options(taper_flags INTERFACE -Wl,--gc-sections -Wl,--as-needed)

# Libraries for files, each of them optional: what needs one that is missing says so in its error, and `taper info` tells.
# -DCMAKE_DISABLE_FIND_PACKAGE_PNG=ON (JPEG, ZLIB) leaves one out.
foreach(package ZLIB PNG JPEG)
    find_package(${package})
    if(${package}_FOUND)
        target_link_libraries(taper_flags INTERFACE ${package}::${package})
        target_compile_definitions(taper_flags INTERFACE TPI_HAVE_${package})
    endif()
endforeach()

if(TAPER_SANITIZE)
    # -O1 keeps the build short; TPI_PLAIN_ALLOC lets the sanitizer see each block's own life.
    set(CMAKE_C_FLAGS_RELEASE "-O1 -g1 -fno-omit-frame-pointer")
    set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=undefined)
    target_compile_options(taper_flags INTERFACE ${sanitize})
    target_link_options(taper_flags INTERFACE ${sanitize})
endif()

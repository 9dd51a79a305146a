# Fuzz targets: tests/fuzz/NAME_fuzz.c becomes fuzz/NAME, with libFuzzer, AddressSanitizer and UBSan. Configure with CC=clang and TAPER_SANITIZE=ON;
# tests/fuzz/run.sh does, and runs them.

if(NOT TAPER_SANITIZE OR NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "TAPER_FUZZ needs clang and TAPER_SANITIZE=ON")
endif()

# Parsers tell the fuzzer which way they went; operators would only drown that.
file(GLOB_RECURSE fuzzed_sources CONFIGURE_DEPENDS src/io/*.c src/data/*.c src/graph/*.c src/dist/checkpoint/index.c)
set_source_files_properties(${fuzzed_sources} PROPERTIES COMPILE_OPTIONS "-fsanitize=fuzzer-no-link")
# A number that an integer cannot hold becomes what the processor makes of it, as in PyTorch; gcc's UBSan does not ask for more either.
target_compile_options(taper_flags INTERFACE -fno-sanitize=float-cast-overflow)
# Products are the BLAS's at this level, and clang with sanitizers takes minutes over ours.
set_source_files_properties(src/linalg/gemm.isa.c src/linalg/gemm_f64.isa.c PROPERTIES COMPILE_OPTIONS "-fno-sanitize=all;-O0")

add_library(taper_fuzz STATIC EXCLUDE_FROM_ALL tests/fuzz/fuzz.c)
target_link_libraries(taper_fuzz PUBLIC taper_testable)
add_custom_target(fuzz)
file(GLOB fuzz_files CONFIGURE_DEPENDS tests/fuzz/*_fuzz.c)
foreach(file ${fuzz_files})
    get_filename_component(name ${file} NAME_WE)
    add_executable(${name} EXCLUDE_FROM_ALL ${file})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
    target_link_libraries(${name} PRIVATE taper_fuzz)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
    add_dependencies(fuzz ${name})
endforeach()

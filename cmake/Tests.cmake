# The tests, under ctest. tests/*_test.c are cmocka programs on the library's internals; other C files in tests/ are shared by them;
# tests/*_test.sh are scripts, told where things are by TAPER_SOURCE_DIR and TAPER_BUILD_DIR. tests/long/ has the same
# two kinds, labelled `long`: `make test` leaves those out, `make test-all` runs them too. tests/python/test_*.py run under pytest, a test per file.

if(NOT (ZLIB_FOUND AND PNG_FOUND AND JPEG_FOUND AND PKG_CONFIG_FOUND))
    message(FATAL_ERROR "TAPER_BUILD_TESTS: the tests also need pkg-config, zlib, libpng and libjpeg")
endif()
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

file(GLOB test_support CONFIGURE_DEPENDS tests/*.c)
list(FILTER test_support EXCLUDE REGEX "_test\\.c$|/at_level\\.c$|/processors_as_xpu\\.c$|/fake_(nccl|cuda)\\.c$")
add_library(taper_test_support STATIC EXCLUDE_FROM_ALL ${TAPER_GENERATED}/samples.c ${TAPER_GENERATED}/layer_samples.c ${test_support})
target_link_libraries(taper_test_support PUBLIC taper_testable PkgConfig::CMOCKA)
target_include_directories(taper_test_support PUBLIC tests)
add_dependencies(taper_test_support taper_generated)

add_custom_target(tests)
add_dependencies(tests taper)

# NCCL's interface without a GPU, for those that are told of it by TAPER_NCCL_LIBRARY.
add_library(fake_nccl MODULE EXCLUDE_FROM_ALL tests/fake_nccl.c)
target_include_directories(fake_nccl PRIVATE include ${TAPER_GENERATED}/include)
target_compile_definitions(fake_nccl PRIVATE TP_POSITIONAL)
target_link_libraries(fake_nccl PRIVATE ${CMAKE_DL_LIBS} rt)
set_target_properties(fake_nccl PROPERTIES C_VISIBILITY_PRESET default PREFIX "lib" OUTPUT_NAME fake-nccl LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_dependencies(fake_nccl taper_generated)
add_dependencies(tests fake_nccl)

# CUDA's driver with two devices and without a GPU, for those that have this folder in LD_LIBRARY_PATH.
add_library(fake_cuda MODULE EXCLUDE_FROM_ALL tests/fake_cuda.c)
target_link_libraries(fake_cuda PRIVATE Threads::Threads)
set_target_properties(fake_cuda PROPERTIES C_VISIBILITY_PRESET default PREFIX "lib" SUFFIX ".so.1" OUTPUT_NAME cuda LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fake-cuda)
add_dependencies(tests fake_cuda)

# A call of every function in the public headers, for every_function_test.
find_program(PYTHON3 python3 REQUIRED)
file(GLOB public_headers CONFIGURE_DEPENDS include/taper/*.h)
set(written_headers ${generated_headers})
list(FILTER written_headers INCLUDE REGEX "/include/taper/")
add_custom_command(OUTPUT ${TAPER_GENERATED}/every_function_calls.h
    COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tests/every_function.py ${TAPER_GENERATED}/every_function_calls.h ${public_headers} ${written_headers}
    DEPENDS tests/every_function.py ${public_headers} ${TAPER_GENERATED}/opgen.stamp VERBATIM)

# Threads that wait sleep instead of spinning, or a machine that is busy with something else makes the tests many times slower.
# Each runs in a folder of its own: what it writes there no other test sees, nor the same test at another level.
function(taper_register name timeout)
    set(folder ${CMAKE_BINARY_DIR}/tests/run/${name})
    file(MAKE_DIRECTORY ${folder})
    set_tests_properties(${name} PROPERTIES WORKING_DIRECTORY ${folder} TIMEOUT ${timeout} SKIP_RETURN_CODE 77 ENVIRONMENT
        "TAPER_SOURCE_DIR=${CMAKE_SOURCE_DIR};TAPER_BUILD_DIR=${CMAKE_BINARY_DIR};CC=${CMAKE_C_COMPILER};TAPER_BLAS_LINK=${TAPER_BLAS_LINK};OMP_WAIT_POLICY=passive")
    if(name MATCHES "^long/")
        set_tests_properties(${name} PROPERTIES LABELS long)
    endif()
    if(name IN_LIST begin_early)
        set_tests_properties(${name} PROPERTIES COST 20)
    endif()
endfunction()

# The longest ones begin first, so that none of them is left alone at the end. After a run ctest knows by itself.
set(begin_early adding_an_operator capi_compile gpu_fold gpu_kernels gpu_large gpu_linalg gpu_map gpu_natives install
    python/compile_epilogues python/dataloader_workers python/distributed_faults python/distributed_mpi python/fuzz python/launch python/nccl
    python/pages python/parity python/run python/same_bits python/same_bits_random python/stubs python/torch_install python/train
    python/xpu_training)

# Tests of code that is compiled once per instruction set run at each level, as NAME@LEVEL; at_level skips those that this processor lacks.
set(levels base avx2 avx512)
set(at_every_level amp autograd clip conv fft gemm graph graph_branches graph_operators index layers linalg lstm matmul modules nn
    operators_forms operators_gradient operators_threads operators_values optim reduce same_bits selection
    training_bits)
add_executable(at_level EXCLUDE_FROM_ALL tests/at_level.c)
target_link_libraries(at_level PRIVATE taper_testable)
set_target_properties(at_level PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_dependencies(tests at_level)

file(GLOB_RECURSE test_files CONFIGURE_DEPENDS tests/*_test.c tests/*_test.sh)
foreach(file ${test_files})
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR}/tests ${file})
    string(REGEX REPLACE "_test\\.(c|sh)$" "" name ${path})
    if(file MATCHES "\\.c$")
        string(REPLACE "/" "_" target "${name}_test")
        add_executable(${target} EXCLUDE_FROM_ALL ${file} tests/processors_as_xpu.c)
        if(name STREQUAL "every_function")
            target_sources(${target} PRIVATE ${TAPER_GENERATED}/every_function_calls.h)
        endif()
        target_link_libraries(${target} PRIVATE taper_test_support)
        set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
        add_dependencies(tests ${target})
        if(name IN_LIST at_every_level)
            foreach(level ${levels})
                add_test(NAME ${name}@${level} COMMAND at_level $<TARGET_FILE:${target}>)
                taper_register(${name}@${level} 1200)
                set_property(TEST ${name}@${level} APPEND PROPERTY ENVIRONMENT "TAPER_ISA=${level}")
            endforeach()
        else()
            add_test(NAME ${name} COMMAND ${target})
            taper_register(${name} 1200)
        endif()
    elseif(NOT TAPER_SANITIZE) # scripts test the build and what it installs; the sanitizers are for the code
        add_test(NAME ${name} COMMAND bash ${file})
        taper_register(${name} 3600)
    endif()
endforeach()

# C++ programs on the public headers, for cpp_test.sh and cpp_examples_test.sh: built here, all at once and only when something changed.
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER AND NOT TAPER_SANITIZE)
    enable_language(CXX)
    file(GLOB cpp_programs RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS tests/cpp/*.cpp examples/cpp/*.cpp)
    foreach(source ${cpp_programs})
        get_filename_component(name ${source} NAME_WE)
        get_filename_component(folder ${source} DIRECTORY)
        string(REPLACE "/" "_" target "${folder}_${name}")
        add_executable(${target} EXCLUDE_FROM_ALL ${source})
        target_include_directories(${target} PRIVATE include/taper/libtorch include ${TAPER_GENERATED}/include)
        target_compile_options(${target} PRIVATE -std=c++17 -Wall -Wextra -Werror -UNDEBUG -O$<IF:$<STREQUAL:${folder},examples/cpp>,1,0>
            $<$<STREQUAL:${name},no_exceptions>:-fno-exceptions>)
        target_link_libraries(${target} PRIVATE taper Threads::Threads)
        add_dependencies(${target} taper_generated)
        set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
        add_dependencies(tests ${target})
    endforeach()
endif()

if(TAPER_PYTHON)
    file(GLOB python_tests CONFIGURE_DEPENDS tests/python/test_*.py)
    foreach(file ${python_tests})
        get_filename_component(name ${file} NAME_WE)
        string(REPLACE "test_" "python/" name ${name})
        add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} -m pytest -q -p no:cacheprovider ${file})
        taper_register(${name} 600)
        # Bytecode is kept in the build: the tests start hundreds of processes, which would all compile the package.
        set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
            "PYTHONPATH=${TAPER_PYTHON_DIR};PYTHONDONTWRITEBYTECODE=;PYTHONPYCACHEPREFIX=${CMAKE_BINARY_DIR}/pycache")
        if(NOT name STREQUAL "python/packaging") # on the CPU, whatever the machine has; that one looks at what job scripts set
            set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "CUDA_VISIBLE_DEVICES=;ROCR_VISIBLE_DEVICES=")
        endif()
        if(name STREQUAL "python/accelerator") # on two halves of the processor, and on no GPU
            set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "TAPER_XPU_DEVICES=cpu;TAPER_XPU_TILES=2;CUDA_VISIBLE_DEVICES=")
        endif()
    endforeach()
endif()

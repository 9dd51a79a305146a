# The library: object files first, so that libtaper.so and the tests' archive are the same code.
#   taper            libtaper.so, which exports tp_ names alone
#   taper_testable   a static archive with the internals in reach, for the tests

set(once_sources ${TAPER_GENERATED_GLUE})
set(isa_sources ${TAPER_GENERATED_ISA})
# Partial redundancy elimination turns chains of choices (clamp) into branches that gcc 12 does not vectorise; threading jumps joins two of
# them into one choice among three, which takes four times the instructions.
set_source_files_properties(${TAPER_GENERATED_ISA} PROPERTIES COMPILE_OPTIONS "$<$<C_COMPILER_ID:GNU>:-fno-tree-pre;-fno-thread-jumps>")
# The way into operators has no loops worth unrolling: a tenth smaller, and as fast. Its records are read field by field, and gcc would
# begin each at a multiple of 32 bytes.
include(CheckCCompilerFlag)
check_c_compiler_flag(-malign-data=abi TAPER_HAS_ALIGN_DATA)
set_source_files_properties(${TAPER_GENERATED_GLUE} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O2>;$<$<BOOL:${TAPER_HAS_ALIGN_DATA}>:-malign-data=abi>")
foreach(folder base tensor device linalg dispatch ops autograd graph nn optim io data dist)
    file(GLOB_RECURSE folder_sources CONFIGURE_DEPENDS src/${folder}/*.c)
    list(FILTER folder_sources EXCLUDE REGEX "/dist/plugins/") # files of their own: cmake/Plugins.cmake
    set(folder_isa_sources ${folder_sources})
    list(FILTER folder_sources EXCLUDE REGEX "\\.isa\\.c$")
    list(FILTER folder_isa_sources INCLUDE REGEX "\\.isa\\.c$")
    foreach(format PNG JPEG) # src/io/media/image_missing.c stands in
        if(NOT ${format}_FOUND)
            string(TOLOWER ${format} file)
            list(FILTER folder_sources EXCLUDE REGEX "/io/media/${file}\\.c$")
        endif()
    endforeach()
    list(APPEND once_sources ${folder_sources})
    list(APPEND isa_sources ${folder_isa_sources})
endforeach()

# What reads and writes files, interprets scripts or starts ranks waits for others; layers, passes over graphs and what
# is done once a step call operators that take the time: small code serves there as well as fast. A call at a function's
# end stays a call, so that the stack tells a message which public function the program called.
set(small_sources ${once_sources})
list(FILTER small_sources INCLUDE REGEX
    "/src/(io|dist|nn|graph/passes)/|/ops/[a-z]+/[a-z_]*compose\\.c$|/tensor/fits|/optim/(adafactor|grad_scaler|lbfgs|muon|rates|schedule|wolfe)|/data/(dataset|optimiser_state|training)")
list(FILTER small_sources EXCLUDE REGEX "/(crc|zip_[a-z]+|reduce|round)\\.c$|/(media|tokenizer|engine)/")
list(APPEND small_sources ${TAPER_GENERATED}/layers.c ${TAPER_GENERATED}/layers_glue.c)
set_source_files_properties(${small_sources} PROPERTIES COMPILE_OPTIONS
    "$<$<CONFIG:Release>:-Os>;-fno-optimize-sibling-calls;$<$<BOOL:${TAPER_HAS_ALIGN_DATA}>:-malign-data=abi>")

# The Fourier kernels' loops are written as vectors: what gcc would make of them at its highest level is copies.
set_source_files_properties(src/linalg/fft.isa.c PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O2>")

# Kernel text for devices that compile it travels in the library.
file(GLOB kernel_texts CONFIGURE_DEPENDS src/device/gpu/kernels/*.h src/device/element/*.h
    src/ops/*/*_gpu_kernel.h src/ops/*/*_element.h src/optim/*_gpu_kernel.h)
add_custom_command(
    OUTPUT ${TAPER_GENERATED}/kernel_texts.c
    COMMAND ${CMAKE_COMMAND} -DOUT=${TAPER_GENERATED}/kernel_texts.c "-DFILES=${kernel_texts}" -P ${CMAKE_SOURCE_DIR}/cmake/Embed.cmake
    DEPENDS ${kernel_texts} cmake/Embed.cmake
    VERBATIM)
list(APPEND once_sources ${TAPER_GENERATED}/kernel_texts.c)

add_library(taper_includes INTERFACE)
target_include_directories(taper_includes INTERFACE
    ${CMAKE_SOURCE_DIR}/include ${TAPER_GENERATED}/include ${CMAKE_SOURCE_DIR}/src ${TAPER_GENERATED})

function(taper_object_library name)
    add_library(${name} OBJECT ${ARGN})
    target_link_libraries(${name} PRIVATE taper_flags taper_includes)
    target_compile_definitions(${name} PRIVATE $<$<BOOL:${TAPER_SANITIZE}>:TPI_PLAIN_ALLOC>)
    add_dependencies(${name} taper_generated)
endfunction()

taper_object_library(taper_objects ${once_sources})
set(all_objects $<TARGET_OBJECTS:taper_objects>)

# Files named *.isa.c are compiled once per instruction set; src/device/cpu/isa.h tells the copies apart and picks at run time.
set(instruction_sets base)
if(TAPER_FUZZ) # parsers are the same at every level, and the build is a third
    target_compile_definitions(taper_flags INTERFACE TPI_ISA_BASE_ONLY)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND instruction_sets avx2 avx512)
    # Instructions that some processors of the last level have: each file is for one kind, and asks at run time.
    set_source_files_properties(src/linalg/gemm_bf16.c PROPERTIES COMPILE_OPTIONS "-march=x86-64-v4;-mavx512bf16")
    set_source_files_properties(src/linalg/gemm_vnni.c PROPERTIES COMPILE_OPTIONS "-march=x86-64-v4;-mavx512vnni")
    set_source_files_properties(src/linalg/gemm_amx.c PROPERTIES COMPILE_OPTIONS "-march=x86-64-v4;-mamx-tile;-mamx-bf16")
    set_source_files_properties(src/linalg/gemm_amx_bytes.c PROPERTIES COMPILE_OPTIONS "-march=x86-64-v4;-mamx-tile;-mamx-int8")
    set(flags_avx2 -march=x86-64-v3)
    set(flags_avx512 -march=x86-64-v4)
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU") # kernels set a few lanes to zero: `rep stos`, gcc's way, takes longer to begin than vector stores to end
        set(small_memset "-mmemset-strategy=vector_loop:512:noalign,libcall:-1:noalign")
        list(APPEND flags_avx2 ${small_memset})
        list(APPEND flags_avx512 ${small_memset})
    endif()
endif()
foreach(isa ${instruction_sets})
    taper_object_library(taper_objects_${isa} ${isa_sources})
    target_compile_definitions(taper_objects_${isa} PRIVATE TPI_ISA_SUFFIX=_${isa})
    target_compile_options(taper_objects_${isa} PRIVATE ${flags_${isa}})
    list(APPEND all_objects $<TARGET_OBJECTS:taper_objects_${isa}>)
endforeach()
list(LENGTH instruction_sets levels)
if(levels GREATER 1) # where there are others, the baseline serves processors from before 2013: small code is enough
    target_compile_options(taper_objects_base PRIVATE $<$<CONFIG:Release>:-O2>)
endif()

add_library(taper SHARED ${all_objects})
add_library(Taper::taper ALIAS taper)
target_link_libraries(taper PRIVATE $<BUILD_INTERFACE:taper_flags>)
target_include_directories(taper PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<BUILD_INTERFACE:${TAPER_GENERATED}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_options(taper PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/exports.map -Wl,-z,relro,-z,now
    $<$<NOT:$<BOOL:${TAPER_SANITIZE}>>:-Wl,--no-undefined>)
set_target_properties(taper PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/exports.map)

# For programs that link it statically; `pkg-config --static --libs taper` says what it needs besides.
if(TAPER_STATIC)
    add_library(taper_static STATIC ${all_objects})
    add_dependencies(taper_static taper_generated)
    set_target_properties(taper_static PROPERTIES OUTPUT_NAME taper)
    install(TARGETS taper_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

add_library(taper_testable STATIC EXCLUDE_FROM_ALL ${all_objects})
target_link_libraries(taper_testable PUBLIC taper_flags taper_includes)
add_dependencies(taper_testable taper_generated)

# The library: object files first, so that libtaper.so and the tests' archive are the same code.
#   taper            libtaper.so, which exports tp_ names alone
#   taper_testable   a static archive with the internals in reach, for the tests
#   taper_plain      libtaper.so without the caching allocator, so that valgrind sees each block's own life (built on request)

set(source_rooms base tensor device device/cpu ops autograd io)
set(plain_sources)
set(isa_sources ${TAPER_GENERATED_ISA})
foreach(room ${source_rooms})
    file(GLOB room_sources CONFIGURE_DEPENDS src/${room}/*.c)
    set(room_isa_sources ${room_sources})
    list(FILTER room_sources EXCLUDE REGEX "\\.isa\\.c$")
    list(FILTER room_isa_sources INCLUDE REGEX "\\.isa\\.c$")
    list(APPEND plain_sources ${room_sources})
    list(APPEND isa_sources ${room_isa_sources})
endforeach()

# Everything that looks at TPI_PLAIN_ALLOC lives in src/base.
set(base_sources ${plain_sources})
list(FILTER base_sources INCLUDE REGEX "/src/base/[^/]+$")
list(REMOVE_ITEM plain_sources ${base_sources})

add_library(taper_includes INTERFACE)
target_include_directories(taper_includes INTERFACE
    ${CMAKE_SOURCE_DIR}/include ${TAPER_GENERATED}/include ${CMAKE_SOURCE_DIR}/src ${TAPER_GENERATED})

set(taper_object_libraries)
function(taper_objects name)
    add_library(${name} OBJECT ${ARGN})
    target_link_libraries(${name} PRIVATE taper_flags taper_includes)
    target_compile_definitions(${name} PRIVATE $<$<BOOL:${TAPER_SANITIZE}>:TPI_PLAIN_ALLOC>)
    add_dependencies(${name} taper_generated)
endfunction()

taper_objects(taper_base ${base_sources})
taper_objects(taper_base_plain ${base_sources})
target_compile_definitions(taper_base_plain PRIVATE TPI_PLAIN_ALLOC)
set_target_properties(taper_base_plain PROPERTIES EXCLUDE_FROM_ALL ON)
taper_objects(taper_objects ${plain_sources} ${TAPER_GENERATED_GLUE})
set(upper_objects $<TARGET_OBJECTS:taper_objects>)

# Files named *.isa.c are compiled once per instruction set; src/device/cpu/isa.h tells the copies apart and picks at run time.
function(taper_isa_objects suffix)
    taper_objects(taper_isa${suffix} ${isa_sources})
    target_compile_definitions(taper_isa${suffix} PRIVATE TPI_ISA_SUFFIX=${suffix})
    target_compile_options(taper_isa${suffix} PRIVATE ${ARGN})
endfunction()
if(isa_sources)
    taper_isa_objects(_base)
    list(APPEND upper_objects $<TARGET_OBJECTS:taper_isa_base>)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        taper_isa_objects(_avx2 -march=x86-64-v3)
        taper_isa_objects(_avx512 -march=x86-64-v4)
        list(APPEND upper_objects $<TARGET_OBJECTS:taper_isa_avx2> $<TARGET_OBJECTS:taper_isa_avx512>)
    endif()
endif()

function(taper_shared_library name)
    add_library(${name} SHARED ${ARGN} ${upper_objects})
    target_link_libraries(${name} PRIVATE taper_flags)
    target_include_directories(${name} PUBLIC
        $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<BUILD_INTERFACE:${TAPER_GENERATED}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_options(${name} PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/exports.map -Wl,-z,relro,-z,now
        $<$<NOT:$<BOOL:${TAPER_SANITIZE}>>:-Wl,--no-undefined>)
    set_target_properties(${name} PROPERTIES
        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/exports.map)
    add_dependencies(${name} taper_generated)
endfunction()
taper_shared_library(taper $<TARGET_OBJECTS:taper_base>)
taper_shared_library(taper_plain $<TARGET_OBJECTS:taper_base_plain>)
set_target_properties(taper_plain PROPERTIES EXCLUDE_FROM_ALL ON)
add_library(Taper::taper ALIAS taper)

add_library(taper_testable STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:taper_base> ${upper_objects})
target_link_libraries(taper_testable PUBLIC taper_flags taper_includes)
add_dependencies(taper_testable taper_generated)

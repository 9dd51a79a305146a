# The BLAS and LAPACK that the library stands on, as the interface target taper_blas. Needed are
# cblas's functions and LAPACK's Fortran symbols, with integers of 32 bits; headers are not.
#   TAPER_BLAS=auto            the first of the list that is there, links and runs
#   TAPER_BLAS=OpenBLAS|...    that one, or an error
#   TAPER_BLAS_LIBRARIES=...   these libraries (files or names, separated by semicolons), whatever they are
#   TAPER_BLAS_NAMES=FILE      a header with names to call instead: #define cblas_dgemm scipy_cblas_dgemm
# Libraries in folders of their own are found through CMAKE_PREFIX_PATH, PKG_CONFIG_PATH,
# LIBRARY_PATH (which module systems set) and the variables that their makers' modules set.
include(CheckCSourceCompiles)
include(CheckCSourceRuns)

set(blas_known OpenBLAS FlexiBLAS MKL BLIS LibSci reference)
set(TAPER_BLAS auto CACHE STRING "The BLAS and LAPACK: auto, OpenBLAS, FlexiBLAS, MKL, BLIS, LibSci or reference")
set_property(CACHE TAPER_BLAS PROPERTY STRINGS auto ${blas_known})
set(TAPER_BLAS_LIBRARIES "" CACHE STRING "Libraries with cblas and LAPACK, in the place of what TAPER_BLAS finds")
set(TAPER_BLAS_NAMES "" CACHE FILEPATH "A header that renames cblas's and LAPACK's functions, for a library whose names have a prefix")
if(TAPER_BLAS_NAMES)
    set_source_files_properties(src/linalg/blas.c src/linalg/lapack.c PROPERTIES COMPILE_OPTIONS "-include;${TAPER_BLAS_NAMES}")
endif()

# For each: its libraries, of which a|b is satisfied by either and ? marks one that need not be
# there, and the pkg-config module that may know of them elsewhere.
set(blas_module_OpenBLAS openblas)
set(blas_libraries_OpenBLAS "openblas|openblaso|openblasp")
set(blas_module_FlexiBLAS flexiblas)
set(blas_libraries_FlexiBLAS "flexiblas")
# Taper calls it on one thread at a time: the layer without threads needs no second OpenMP in the
# process.
set(blas_module_MKL mkl-dynamic-lp64-seq)
# PyPI's files have numbers alone.
set(blas_libraries_MKL "mkl_intel_lp64|libmkl_intel_lp64.so.3|libmkl_intel_lp64.so.2|mkl_rt"
    "mkl_sequential|libmkl_sequential.so.3|libmkl_sequential.so.2?" "mkl_core|libmkl_core.so.3|libmkl_core.so.2?")
# BLIS has no LAPACK: AMD's libflame, or the reference.
set(blas_libraries_BLIS "blis|blis-mt" "flame?" "lapack?")
# Cray's compiler wrapper links it by itself; what other compilers need follows.
set(blas_libraries_LibSci "sci_gnu|sci_cray|sci_amd|sci_intel|sci_gnu_mp|sci_cray_mp")
set(blas_libraries_reference "blas|refblas" "cblas?" "lapack|reflapack")

set(blas_folders)
foreach(variable LIBRARY_PATH LD_LIBRARY_PATH)
    string(REPLACE ":" ";" folders "$ENV{${variable}}")
    list(APPEND blas_folders ${folders})
endforeach()
set(blas_roots "$ENV{EBROOTOPENBLAS}" "$ENV{EBROOTFLEXIBLAS}" "$ENV{MKLROOT}" "$ENV{EBROOTIMKL}/mkl/latest"
    "$ENV{EBROOTBLIS}" "$ENV{AOCL_ROOT}"
    "$ENV{CRAY_LIBSCI_PREFIX_DIR}" "$ENV{CRAY_PE_LIBSCI_PREFIX_DIR}" "$ENV{CONDA_PREFIX}")
list(FILTER blas_roots INCLUDE REGEX "^/[^/]")

# The libraries of one name: sets `found` to them (possibly to nothing, for a wrapper that links by
# itself), or to NOTFOUND.
function(taper_look_for_blas name)
    set(found "")
    if(name STREQUAL "LibSci" AND NOT "$ENV{CRAYPE_VERSION}" STREQUAL "" AND CMAKE_C_COMPILER MATCHES "/cc$")
        set(found "" PARENT_SCOPE)
        return()
    endif()
    foreach(choice ${blas_libraries_${name}})
        string(REGEX MATCH "\\?$" optional "${choice}")
        string(REGEX REPLACE "\\?$" "" choice "${choice}")
        string(REPLACE "|" ";" names "${choice}")
        string(MAKE_C_IDENTIFIER "TAPER_LIBRARY_${choice}" variable)
        find_library(${variable} NAMES ${names} HINTS ${blas_roots} ${blas_folders} PATH_SUFFIXES lib lib64 lib/intel64)
        mark_as_advanced(${variable})
        if(${variable})
            list(APPEND found ${${variable}})
            if(${variable} MATCHES "mkl_rt")
                break() # it loads the others by itself
            endif()
        elseif(NOT optional)
            set(found NOTFOUND)
            break()
        endif()
    endforeach()
    if(NOT found AND PKG_CONFIG_FOUND AND blas_module_${name})
        pkg_check_modules(BLAS_${name} QUIET IMPORTED_TARGET ${blas_module_${name}})
        if(BLAS_${name}_FOUND)
            set(found PkgConfig::BLAS_${name})
        endif()
    endif()
    set(found "${found}" PARENT_SCOPE)
endfunction()

# Do these serve? Sets `usable`, and `why_not` where they do not.
function(taper_try_blas name libraries)
    string(MD5 key "${name} ${libraries} ${CMAKE_C_COMPILER}")
    string(SUBSTRING ${key} 0 8 key)
    set(CMAKE_REQUIRED_LIBRARIES ${libraries} m)
    set(CMAKE_REQUIRED_QUIET ON)
    if(TAPER_BLAS_NAMES)
        set(CMAKE_REQUIRED_FLAGS "-include ${TAPER_BLAS_NAMES}")
    endif()
    check_c_source_compiles("
        void cblas_sgemm(void), cblas_zdotu_sub(void), sgetrf_(void), zgelsd_(void), zgesdd_(void);
        void chetrf_(void), strsm_(void), ilaver_(void);
        int main(void) {
            cblas_sgemm(), cblas_zdotu_sub(), sgetrf_(), zgelsd_(), zgesdd_(), chetrf_(), strsm_(), ilaver_();
            return 0;
        }" TAPER_BLAS_LINKS_${key})
    set(usable ${TAPER_BLAS_LINKS_${key}})
    set(why_not "a program that calls cblas and LAPACK does not link with it")
    if(usable AND NOT CMAKE_CROSSCOMPILING)
        # An int of 32 bits is read from the lower half; 64 bits would make it a very long vector.
        check_c_source_runs("
            double cblas_ddot(long long n, const double *x, int step_x, const double *y, int step_y);
            int main(void) {
                double x[2] = {1, 2};
                return cblas_ddot((1LL << 32) + 2, x, 1, x, 1) != 5;
            }" TAPER_BLAS_RUNS_${key})
        set(usable ${TAPER_BLAS_RUNS_${key}})
        set(why_not "a program that calls it does not run: "
            "its libraries are not found at run time, or its integers have 64 bits")
        string(CONCAT why_not ${why_not})
    endif()
    set(usable ${usable} PARENT_SCOPE)
    set(why_not "${why_not}" PARENT_SCOPE)
endfunction()

set(usable FALSE)
set(blas_tried "")
if(TAPER_BLAS_LIBRARIES)
    set(blas_candidates TAPER_BLAS_LIBRARIES)
elseif(TAPER_BLAS STREQUAL "auto")
    set(blas_candidates ${blas_known})
    if(NOT "$ENV{CRAY_LIBSCI_PREFIX_DIR}$ENV{CRAY_PE_LIBSCI_PREFIX_DIR}" STREQUAL "")
        list(PREPEND blas_candidates LibSci)
        list(REMOVE_DUPLICATES blas_candidates)
    endif()
elseif(TAPER_BLAS IN_LIST blas_known)
    set(blas_candidates ${TAPER_BLAS})
else()
    message(FATAL_ERROR "TAPER_BLAS: expected auto or one of ${blas_known}, got '${TAPER_BLAS}'. "
        "Others: name their libraries with TAPER_BLAS_LIBRARIES.")
endif()
foreach(name ${blas_candidates})
    if(name STREQUAL "TAPER_BLAS_LIBRARIES")
        set(found ${TAPER_BLAS_LIBRARIES})
    else()
        taper_look_for_blas(${name})
    endif()
    if("${found}" MATCHES "NOTFOUND")
        string(APPEND blas_tried "\n  ${name}: not found")
        continue()
    endif()
    taper_try_blas(${name} "${found}")
    if(usable)
        set(taper_blas_name ${name})
        break()
    endif()
    string(APPEND blas_tried "\n  ${name} (${found}): ${why_not}")
endforeach()
if(NOT usable)
    message(FATAL_ERROR "No BLAS with LAPACK was found.${blas_tried}
Load the module of one (OpenBLAS, FlexiBLAS, imkl, BLIS, cray-libsci), install one (tools/setup.sh prints the
package's name), or name its files: -DTAPER_BLAS_LIBRARIES=\"/path/libA.so;/path/libB.so\". -DTAPER_BLAS=NAME chooses among several.")
endif()
message(STATUS "BLAS and LAPACK: ${taper_blas_name} (${found})")
if(taper_blas_name STREQUAL "reference")
    message(STATUS "The reference BLAS is many times slower than the others on matrices of float64 and complex numbers")
endif()
add_library(taper_blas INTERFACE)
target_link_libraries(taper_blas INTERFACE ${found})
# For tests that call the compiler by themselves.
if(TARGET "${found}")
    get_target_property(found "${found}" INTERFACE_LINK_LIBRARIES)
endif()
string(JOIN " " TAPER_BLAS_LINK ${found})

# SPDX-License-Identifier: Apache-2.0
# What we need from the system, and the list that configure ends with.
#
# libtryst: libc, libsodium, jansson, and xxHash's header. Everything else is optional, and what
# was left out says so.

# tryst_report(<what> <text>): a line of the closing list.
function(tryst_report what text)
    string(LENGTH "${what}" length)
    math(EXPR pad "14 - ${length}")
    string(REPEAT " " ${pad} spaces)
    set_property(GLOBAL APPEND PROPERTY TRYST_REPORT "  ${what}${spaces}${text}")
endfunction()

function(tryst_report_print)
    get_property(lines GLOBAL PROPERTY TRYST_REPORT)
    list(JOIN lines "\n" text)
    message(STATUS "Tryst ${PROJECT_VERSION}:\n${text}")
endfunction()

find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
tryst_report(libsodium "${SODIUM_VERSION}")
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
tryst_report(jansson "${JANSSON_VERSION}")

# xxHash is compiled into core/hash.c (XXH_INLINE_ALL); its library is never linked.
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
add_library(tryst_xxhash INTERFACE)
target_include_directories(tryst_xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR})
tryst_report(xxHash "${XXHASH_INCLUDE_DIR}/xxhash.h")

set(TRYST_HAVE_UCX OFF)
if(TRYST_UCX)
    pkg_check_modules(UCX QUIET IMPORTED_TARGET ucx>=1.13)
    if(UCX_FOUND)
        set(TRYST_HAVE_UCX ON)
        tryst_report(ucx "${UCX_VERSION} (module tryst_ucx.so)")
    else()
        tryst_report(ucx "left out: UCX 1.13 or newer not found (libucx-dev)")
    endif()
else()
    tryst_report(ucx "left out: TRYST_UCX=OFF")
endif()

# pipeline/ calls CBLAS. Only libtryst_pipeline links it.
set(TRYST_HAVE_PIPELINE OFF)
if(TRYST_PIPELINE)
    pkg_check_modules(BLAS QUIET IMPORTED_TARGET openblas)
    if(BLAS_FOUND)
        add_library(tryst_blas ALIAS PkgConfig::BLAS)
        tryst_report(pipeline "with OpenBLAS ${BLAS_VERSION}")
    else()
        set(TRYST_PIPELINE OFF)
        tryst_report(pipeline "left out: OpenBLAS not found (libopenblas-dev)")
    endif()
else()
    tryst_report(pipeline "left out: TRYST_PIPELINE=OFF")
endif()

find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND)
    tryst_report(cuda "${CUDAToolkit_VERSION} found, used by nothing yet")
else()
    tryst_report(cuda "not found, used by nothing yet")
endif()

if(TRYST_TESTS)
    pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
    if(CMOCKA_FOUND)
        tryst_report(tests "with cmocka ${CMOCKA_VERSION}")
    else()
        set(TRYST_TESTS OFF)
        tryst_report(tests "left out: cmocka not found (libcmocka-dev)")
    endif()
else()
    tryst_report(tests "left out: TRYST_TESTS=OFF")
endif()
if(TRYST_SANITIZE)
    tryst_report(sanitizers "${TRYST_SANITIZE}")
endif()

# SPDX-License-Identifier: Apache-2.0
# What we need from the system, and the list that configure ends with.
#
# libtryst: libc, libsodium, and xxHash's header. Everything else is optional, and what
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

# xxHash is compiled into core/text/hash.c (XXH_INLINE_ALL); its library is never linked.
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
add_library(tryst_xxhash INTERFACE)
target_include_directories(tryst_xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR})
tryst_report(xxHash "${XXHASH_INCLUDE_DIR}/xxhash.h")

# tryst_optional(<what> <prefix> <pkg-config module> <its name for people> <what it is for> <package>): sets
# TRYST_HAVE_<prefix>, and says what was found or left out. TRYST_<prefix>=OFF leaves it out.
macro(tryst_optional what prefix module name use package)
    set(TRYST_HAVE_${prefix} OFF)
    if(TRYST_${prefix})
        pkg_check_modules(${prefix} QUIET IMPORTED_TARGET "${module}")
        if(${prefix}_FOUND)
            set(TRYST_HAVE_${prefix} ON)
            tryst_report(${what} "${${prefix}_VERSION} (${use})")
        else()
            tryst_report(${what} "left out: ${name} not found (${package})")
        endif()
    else()
        tryst_report(${what} "left out: TRYST_${prefix}=OFF")
    endif()
endmacro()

tryst_optional(ucx UCX "ucx>=1.13" "UCX 1.13 or newer" "module tryst_ucx.so" libucx-dev)
tryst_optional(ofi OFI "libfabric>=1.17" "libfabric 1.17 or newer" "libfabric, module tryst_ofi.so"
               libfabric-dev)

# Open MPI and Slurm say by PMIx where rank 0 is. Only its header is used; nothing links it.
tryst_optional(pmix PMIX "pmix>=3" "PMIx 3 or newer" "loaded where a launcher speaks it" libpmix-dev)

# Topologies. Only the headers are used: both libraries are opened when a topology is first asked for.
tryst_optional(hwloc HWLOC "hwloc>=2.3" "hwloc 2.3 or newer" "loaded to look at machines" libhwloc-dev)
tryst_optional(libxml2 XML "libxml-2.0" "libxml2" "loaded to read NCCL's topologies" libxml2-dev)

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

# For memory of GPUs only CUDA's headers are used; the driver is opened when such memory is first met.
set(TRYST_HAVE_CUDA OFF)
if(TRYST_CUDA)
    find_package(CUDAToolkit 12.0 QUIET)
    if(CUDAToolkit_FOUND)
        set(TRYST_HAVE_CUDA ON)
        tryst_report(cuda "${CUDAToolkit_VERSION} (module tryst_cuda.so)")
    else()
        tryst_report(cuda "left out: CUDA 12 or newer not found")
    endif()
else()
    tryst_report(cuda "left out: TRYST_CUDA=OFF")
endif()

# The stages' CUDA module: nvcc for its kernels, the toolkit's static runtime, cuBLASLt for products.
set(TRYST_HAVE_CUDA_STAGES OFF)
if(NOT TRYST_CUDA OR NOT TRYST_PIPELINE)
    tryst_report(cuda-stages "left out: TRYST_CUDA=OFF, or no pipeline")
elseif(TRYST_SANITIZE)
    tryst_report(cuda-stages "left out: a sanitizer has nothing to say to a GPU's code")
else()
    find_package(CUDAToolkit 12.5 QUIET)
    if(CUDAToolkit_NVCC_EXECUTABLE AND TARGET CUDA::cublasLt AND TARGET CUDA::cudart_static)
        set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
        set(CMAKE_CUDA_ARCHITECTURES ${TRYST_CUDA_ARCHITECTURES})
        enable_language(CUDA)
        set(TRYST_HAVE_CUDA_STAGES ON)
        list(JOIN TRYST_CUDA_ARCHITECTURES ", sm_" text)
        tryst_report(cuda-stages "${CUDAToolkit_VERSION} (module tryst_stage_cuda.so for sm_${text})")
    else()
        tryst_report(cuda-stages "left out: nvcc and cuBLAS of CUDA 12.5 or newer not found")
    endif()
endif()

# The kernels' sources are C++ too, for tests without a GPU.
set(TRYST_HAVE_CXX OFF)
if(TRYST_TESTS)
    include(CheckLanguage)
    check_language(CXX)
    if(CMAKE_CXX_COMPILER)
        enable_language(CXX)
        set(TRYST_HAVE_CXX ON)
    endif()
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

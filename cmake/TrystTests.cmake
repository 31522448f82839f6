# SPDX-License-Identifier: Apache-2.0
# tryst_test(<name> SOURCES <files>… LAYER <layer> | PUBLIC
#            [LABELS fast|slow|long|lab|gpu…] [TIMEOUT <seconds>] [LIBS <targets>…]
#            [ENVIRONMENT <name=value>…] [ARGS <arguments>…] [SERIAL] [THREADLESS])
#
# A cmocka test, built as bin/tests/<name> and run as ctest's <name>.
#   LAYER x  a unit test: sees all headers of layer x (as "x/header.h", private ones too) and all
#            that the layers below publish, and links their objects, hidden symbols included
#   PUBLIC   a test of the public API: include/ alone, linked with the shared libtryst
#   THREADLESS  a unit test that fails when our code starts a thread: TSan has nothing to say to it, so it
#               is left out there
# Label: fast unless stated, or slow where TRYST_SLOW_TESTS has the name. Exit 77 means skipped (cmocka's own skip() counts as passed).
# Each test has a time limit: state what is enough for a plain build on a quiet machine. A busy machine
# gets four times as long, a sanitizer ten times.

# A cmocka test function takes `void **state`, which few need. (After tryst_flags: the last wins.)
set(TRYST_TEST_FLAGS "" CACHE STRING "More flags for the compiler of tests, but not of what is measured")
add_library(tryst_test_flags INTERFACE)
separate_arguments(test_flags NATIVE_COMMAND "${TRYST_TEST_FLAGS}")
target_compile_options(tryst_test_flags INTERFACE -Wno-unused-parameter ${test_flags})

# The layers from core up to `layer`. The pipeline embeds libtryst as others do.
function(tryst_layers_up_to layer layers_p)
    if(layer STREQUAL "pipeline")
        set(${layers_p} pipeline PARENT_SCOPE)
        return()
    endif()
    list(FIND TRYST_LAYER_ORDER ${layer} index)
    if(index LESS 0)
        message(FATAL_ERROR "there is no layer ${layer}")
    endif()
    math(EXPR count "${index} + 1")
    list(SUBLIST TRYST_LAYER_ORDER 0 ${count} layers)
    set(${layers_p} ${layers} PARENT_SCOPE)
endfunction()

function(tryst_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "PUBLIC;SERIAL;THREADLESS" "LAYER;TIMEOUT"
                          "SOURCES;LABELS;LIBS;ENVIRONMENT;ARGS")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "tryst_test(${name}): what is ${arg_UNPARSED_ARGUMENTS}?")
    endif()
    if(arg_THREADLESS AND TRYST_SANITIZE MATCHES thread)
        return()
    endif()
    add_executable(${name} ${arg_SOURCES})
    set_target_properties(${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/tests)
    target_link_libraries(${name} PRIVATE tryst_flags tryst_test_flags PkgConfig::CMOCKA ${arg_LIBS})
    if(arg_THREADLESS)
        target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/threadless.c)
        target_link_options(${name} PRIVATE -Wl,--wrap=pthread_create)
    endif()
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    if(arg_PUBLIC)
        target_link_libraries(${name} PRIVATE tryst)
    else()
        tryst_layers_up_to(${arg_LAYER} layers)
        list(REVERSE layers)
        foreach(layer IN LISTS layers)
            tryst_internal(${layer} archive)
            target_link_libraries(${name} PRIVATE ${archive})
        endforeach()
        if(arg_LAYER STREQUAL "pipeline")
            target_link_libraries(${name} PRIVATE tryst)
        endif()
        tryst_see(${name} ${arg_LAYER} ${layers})
    endif()
    tryst_test_add(${name} COMMAND $<TARGET_FILE:${name}> ${arg_ARGS}
                   LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT}
                   ENVIRONMENT ${arg_ENVIRONMENT})
    if(arg_SERIAL)
        set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
    endif()
endfunction()

# tryst_test_core(<target>): a program of the tests also uses core's plain objects.
function(tryst_test_core target)
    tryst_internal(core archive)
    target_link_libraries(${target} PRIVATE ${archive})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    tryst_see(${target} core core)
endfunction()

# tryst_test_parts(<name> LAYER <layer> SOURCES <files>…)
# What several unit tests of a layer share, compiled once: they take $<TARGET_OBJECTS:name> as a source.
function(tryst_test_parts name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "LAYER" "SOURCES")
    add_library(${name} OBJECT ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE tryst_flags tryst_test_flags PkgConfig::CMOCKA)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    tryst_layers_up_to(${arg_LAYER} layers)
    tryst_see(${name} ${arg_LAYER} ${layers})
endfunction()

# What a test runs with, and a sanitized one. gcc's TSan of Debian 12 knows only the address layouts of up to
# 28 random bits and stops at start under more, so it gets a fixed layout where that is allowed.
# gcc 12's LeakSanitizer takes the header of a thread-local block for what older C libraries put there:
# at exit it then scans from an address like 0x158 and dies (ucx and ofi, whose libraries have such
# blocks). Without the interception it leaves those blocks out. TSan's does the same at the first use of
# such a block, and dies where the header says 500 TB.
set(TRYST_TEST_LAUNCHER "")
set(TRYST_TEST_ENVIRONMENT TRYST_MODULE_PATH=${PROJECT_BINARY_DIR}/lib/tryst) # not those of an installed Tryst
set(TRYST_TEST_ASAN "")
if(TRYST_SANITIZE)
    set(TRYST_TEST_ASAN strict_string_checks=1:intercept_tls_get_addr=0)
    list(APPEND TRYST_TEST_ENVIRONMENT
        "ASAN_OPTIONS=${TRYST_TEST_ASAN}:detect_stack_use_after_return=1"
        "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/lsan.supp:print_suppressions=0"
        "UBSAN_OPTIONS=print_stacktrace=1"
        "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/tsan.supp:second_deadlock_stack=1:atexit_sleep_ms=100:intercept_tls_get_addr=0:report_thread_leaks=0")
    if(TRYST_SANITIZE MATCHES thread)
        execute_process(COMMAND setarch -R true RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
        if(status EQUAL 0)
            set(TRYST_TEST_LAUNCHER setarch -R)
        endif()
    endif()
endif()

# What would be fast but takes 8 s or more by itself on two quiet processors (tests/README.md).
set(TRYST_SLOW_TESTS
    api_coll_device_await_shm api_crossed_ofi api_crossed_ucx api_random_ofi api_stuck_shm
    build_embed build_minimal
    conformance_fault conformance_ofi conformance_ofi_ends conformance_ofi_rxm conformance_pipe
    conformance_sabotage conformance_shm conformance_shm_cma conformance_shm_map conformance_shm_ring
    conformance_shm_stage
    conformance_ucx conformance_ucx_ends conformance_ucx_sm
    model_flow model_rendezvous
    pipeline_cuda_stage
    rendezvous_bootstrap_failures rendezvous_hostile rendezvous_outcomes
    tools_endless tools_output tools_pp_bench_bubble tools_pp_bench_device tools_pp_bench_equal_ofi)

# Long under TSan: each is slow there, and its threads meet in a test that stays.
set(TRYST_TSAN_LONG
    api_auto_priority_self api_auto_priority_shm api_close_soon_ucx api_coll_blocks_self api_coll_exchange_self
    api_coll_matrix_self api_coll_matrix_shm api_coll_random_device_self api_coll_random_self api_coll_recorded_self
    api_coll_self api_crossed_self api_death_ofi api_descriptors_shm api_descriptors_ucx api_device_tensors_late_shm
    api_device_tensors_self api_embed_self api_errors_self api_errors_ucx api_kills_ucx api_random_device_fault_shm
    api_random_device_self api_random_device_tight_shm api_random_device_ucx api_random_fault_shm api_random_self
    api_random_shm-cma api_random_shm-ring api_random_shm-stage api_semantics_self api_strangers_ucx api_subgroup_self
    api_subgroup_shm api_unruly_self api_volume_self api_volume_shm collectives_blocks collectives_blocks_shm
    collectives_run collectives_run_shm conformance_self conformance_shm conformance_shm_device context_alloc_walk
    context_alloc_walk_recorded context_alloc_walk_shm core_json core_json_python pipeline_check pipeline_device_order
    pipeline_engine pipeline_engine_follow pipeline_engine_loop pipeline_schedule_runs pipeline_stage test_ofi_rxm
    test_pair_ends tools_bench_dp_few tools_full_shm_ofi tools_perf_coll tools_perf_habits tools_perf_ofi
    tools_perf_server tools_perf_ucx tools_pp_bench_device tools_pp_bench_equal tools_pp_bench_equal_ucx
    tools_pp_bench_kill_ucx tools_pp_bench_usage tools_topo_probe tools_trace)
# Long without a sanitizer, where all transports run: each runs over two others there.
set(TRYST_PLAIN_LONG
    api_coll_blocks_device_ofi api_coll_exchange_ofi api_coll_kills_device_ucx api_coll_random_device_ucx)
# Long under ASan: the same code runs there in another test.
set(TRYST_ASAN_LONG
    api_coll_blocks_device_self api_coll_blocks_device_shm api_coll_device_self api_coll_kills_device_shm
    api_coll_matrix_self api_coll_matrix_shm api_coll_random_device_self api_coll_takeover_shm api_death_ofi api_descriptors_ucx api_random_shm-ring api_random_shm-stage
    collectives_run_fault conformance_self context_alloc_walk_recorded core_reduce gpu_run_script
    pipeline_emulated_kernels pipeline_engine pipeline_engine_follow pipeline_engine_loop pipeline_schedule_runs
    rendezvous_flow_trees rendezvous_soak sim_seeds tools_bench_dp_few tools_full_shm_ofi tools_perf_coll tools_perf_ofi
    tools_perf_sched_shm tools_pp_bench_kill_ucx tools_schedules topology_plan_sizes)

# tryst_test_add(<name> COMMAND <command>… [LABELS …] [TIMEOUT …] [ENVIRONMENT …])
# The same for a command that exists already (a script, a tool).
function(tryst_test_add name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "COMMAND;LABELS;TIMEOUT;ENVIRONMENT")
    if(NOT arg_LABELS)
        set(arg_LABELS fast)
    endif()
    if(arg_LABELS STREQUAL fast AND name IN_LIST TRYST_SLOW_TESTS)
        set(arg_LABELS slow)
    endif()
    if((TRYST_SANITIZE MATCHES thread AND name IN_LIST TRYST_TSAN_LONG) OR
       (TRYST_SANITIZE MATCHES address AND name IN_LIST TRYST_ASAN_LONG) OR
       (NOT TRYST_SANITIZE AND name IN_LIST TRYST_PLAIN_LONG))
        set(arg_LABELS long)
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 60)
    endif()
    set(times 4)
    if(TRYST_SANITIZE)
        set(times 10)
    endif()
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * ${times}")
    add_test(NAME ${name} COMMAND ${TRYST_TEST_LAUNCHER} ${arg_COMMAND})
    set_tests_properties(${name} PROPERTIES
        LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77
        ENVIRONMENT "${TRYST_TEST_ENVIRONMENT};${arg_ENVIRONMENT}")
endfunction()

# SPDX-License-Identifier: Apache-2.0
# What comes with the installed programs and is made by running them: manual pages (by help2man, where it is found), and
# completions for bash and zsh. Below share/ in the build tree, as installed.
if(CMAKE_CROSSCOMPILING OR TRYST_SANITIZE)
    tryst_report(manual "left out: the programs of this build are not run here")
    return()
endif()

find_program(TRYST_HELP2MAN help2man)
mark_as_advanced(TRYST_HELP2MAN)
if(TRYST_HELP2MAN)
    tryst_report(manual "pages by ${TRYST_HELP2MAN}")
else()
    tryst_report(manual "left out: help2man not found (help2man)")
endif()

set(share ${PROJECT_BINARY_DIR}/share)
set(bash_dir bash-completion/completions)
set(zsh_dir zsh/site-functions)
set(pages tryst-run tryst-info tryst-topo tryst-perf)
if(TARGET pp_bench)
    list(APPEND pages tryst-bench)
endif()
list(JOIN pages " " see_also)
file(MAKE_DIRECTORY ${share}/man/man1 ${share}/${bash_dir} ${share}/${zsh_dir})
add_custom_target(tryst_manual ALL)

# tryst_made(<target> <file below share/> <script> <arguments…>): the file is what the script prints about the program `target`.
function(tryst_made target file script)
    get_filename_component(folder ${file} DIRECTORY)
    string(MAKE_C_IDENTIFIER ${file} id)
    add_custom_command(OUTPUT ${share}/${file}
        # not an installed Tryst, and without a RUNPATH too (CMAKE_SKIP_INSTALL_RPATH)
        COMMAND ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/lib
                ${PROJECT_SOURCE_DIR}/cmake/${script} ${ARGN} > ${share}/${file}.part
        COMMAND ${CMAKE_COMMAND} -E rename ${share}/${file}.part ${share}/${file}
        DEPENDS ${target} ${PROJECT_SOURCE_DIR}/cmake/${script}
        COMMENT "Generating share/${file}" VERBATIM)
    add_custom_target(tryst_made_${id} DEPENDS ${share}/${file})
    add_dependencies(tryst_manual tryst_made_${id})
    if(folder MATCHES "^man/")
        install(FILES ${share}/${file} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    else()
        install(FILES ${share}/${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder})
    endif()
endfunction()

# tryst_manual(<target> <name> <its line of text> <commands…>): page and completions of bin/<name>
function(tryst_manual target name text)
    set(program ${PROJECT_BINARY_DIR}/bin/${name})
    if(TRYST_HELP2MAN)
        tryst_made(${target} man/man1/${name}.1 man_page.sh
                   ${TRYST_HELP2MAN} ${PROJECT_VERSION} ${program} ${text} ${see_also} ${ARGN})
    endif()
    tryst_made(${target} ${bash_dir}/${name} completions.sh bash ${program})
    tryst_made(${target} ${zsh_dir}/_${name} completions.sh zsh ${program})
endfunction()

tryst_manual(tryst-run tryst-run "start the ranks of a program on this machine")
tryst_manual(tryst-info tryst-info "show and check Tryst's settings and transports, and what ranks wait for")
tryst_manual(tryst-topo tryst-topo "show a machine or a cluster, and plan collectives on it" plan verify explain)
tryst_manual(tryst-perf tryst-perf "measure transfers and collectives between ranks"
             pingpong preempt allreduce sched)
if(TARGET pp_bench)
    tryst_manual(pp_bench tryst-bench "train a small model with its layers spread over ranks" schedules)
    tryst_made(pp_bench ${bash_dir}/pp_bench completions.sh bash ${PROJECT_BINARY_DIR}/bin/pp_bench)
    tryst_made(pp_bench ${zsh_dir}/_pp_bench completions.sh zsh ${PROJECT_BINARY_DIR}/bin/pp_bench)
    if(TRYST_HELP2MAN)
        file(WRITE ${share}/man/man1/pp_bench.1 ".so man1/tryst-bench.1\n")
        install(FILES ${share}/man/man1/pp_bench.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    endif()
endif()

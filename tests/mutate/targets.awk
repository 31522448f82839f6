# SPDX-License-Identifier: Apache-2.0
# Read `ctest -N -V` and print the targets that the tests need, one a line: each output of the build whose path stands
# in a command (which ctest reports apart if it is not built yet) or an environment, the shared objects of each folder that stands there, the modules beside libtryst, and
# `all` for a test that names the build folder alone.
# usage: ctest -N -V … | awk -v build=FOLDER -v outputs=FILE -f targets.awk
BEGIN {
    while ((getline line <outputs) > 0) {
        is_output[line] = 1
        if (line ~ /\.so$/) {
            folder = line
            sub(/\/[^\/]*$/, "", folder)
            shared[folder] = shared[folder] line "\n"
        }
    }
    printf "%s", shared["lib/tryst"]
    named["lib/tryst"] = 1
}
/Test command:|^Could not find executable |^ *[0-9]+: +[A-Za-z_]+=/ {
    while ((at = index($0, build)) > 0) {
        rest = substr($0, at + length(build))
        match(rest, /^[^ "=:;]*/)
        path = substr(rest, 2, RLENGTH - 1)
        $0 = substr(rest, RLENGTH + 1)
        if (path in named) continue
        named[path] = 1
        if (path == "") print "all"
        else if (path in is_output) print path
        else if (path in shared) printf "%s", shared[path]
    }
}

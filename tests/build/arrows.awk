# SPDX-License-Identifier: Apache-2.0
# Measures the folders from the results of arrows.sh (files, deps, places and symbols in
# `dir`), prints the tables of `mode`, and compares the figures with `list`.
#
# A folder's position, from the lowest up, is where CMake first names a file of it,
# reading from the first CMakeLists.txt on; an arrow to a later position goes up. An arrow
# is an #include line, from its file to the file that the preprocessor includes. The
# compiler's own lists prove that no line was missed: arrows must lead to each file of the
# repository that the compiler read. Sources that this build leaves out are read as text
# only, so the figures are the same in every configuration.

function complain(text) {
    print "arrows: " text
    failed = 1
}

function folder_of(file) {
    sub(/\/[^\/]*$/, "", file)
    return file
}

# x.c, x.h and x.cu have the same stem.
function stem_of(file) {
    sub(/^.*\//, "", file)
    sub(/\.[a-z]*$/, "", file)
    return file
}

# Return the path without ".." parts: "a/b/../c.h" is "a/c.h".
function plain(path) {
    while (match(path, /[^\/.][^\/]*\/\.\.\//))
        path = substr(path, 1, RSTART - 1) substr(path, RSTART + RLENGTH)
    return path
}

# --- input from arrows.sh ---------------------------------------------------------------

function read_files(    file) {
    while ((getline file <(dir "/files")) > 0) {
        files[++files_count] = file
        is_file[file] = 1
        size[folder_of(file)]++
        named[stem_of(file)] = named[stem_of(file)] " " file
    }
    if (!files_count) complain("no sources found")
}

# place[path as the compiler prints it] = path in the repository
function read_places(    line, fields) {
    while ((getline line <(dir "/places")) > 0) {
        split(line, fields, "\t")
        if (index(fields[2], root) != 1) continue
        place[fields[1]] = substr(fields[2], length(root) + 1)
    }
}

# reads[source] = files of the repository that the compiler read for it
function read_deps(    line, object, source, path, skip) {
    while ((getline line <(dir "/deps")) > 0) {
        if (line !~ /^ /) {
            object = line
            source = ""
            continue
        }
        path = place[substr(line, 5)]
        if (source == "") {
            source = path == "" ? "none" : path # the source comes first
            # The tests compile some sources again, with other options.
            skip = !is_file[source] || index(object, "tests/") == 1
            if (skip) continue
            source_of[object] = source
            if (!compiled[source]++) compiled_count++
        }
        if (!skip && is_file[path] && path != source) reads[source] = reads[source] " " path
    }
    if (!compiled_count) complain("the build has no source of ours: build first")
}

# --- the order of the folders -------------------------------------------------------------------

function stand(folder) {
    if (size[folder] && !order[folder]) {
        order[folder] = ++folders_count
        folders[folders_count] = folder
    }
}

function walk(folder,    file, line, word, words, count, i) {
    file = root folder "CMakeLists.txt"
    while ((getline line <file) > 0) {
        sub(/#.*/, "", line)
        if (match(line, /^ *add_subdirectory\([^ )]*/)) {
            word = substr(line, RSTART, RLENGTH)
            sub(/^ *add_subdirectory\(/, "", word)
            if (folder word != "tests") walk(folder word "/")
            continue
        }
        count = split(line, words, /[ ()]+/)
        for (i = 1; i <= count; i++)
            if (is_file[plain(folder words[i])]) stand(folder_of(plain(folder words[i])))
    }
    close(file)
}

function order_folders(    folder) {
    walk("")
    for (folder in size)
        if (!order[folder]) {
            complain(folder ": no CMakeLists.txt names a file of it, so it has no place")
            stand(folder)
        }
}

# --- arrows -------------------------------------------------------------------------------------

# Return the file of the repository that `name` means in `reader`; "" for none. The search
# starts beside the reader, as for any quoted include; then by its path in the repository,
# as layers publish; then the file that the compiler read.
function resolve(reader, name,    path, source, list, count, i, parts) {
    path = plain(folder_of(reader) "/" name)
    if (is_file[path]) return path
    if (is_file[name]) return name
    count = split(named[stem_of(name)], list, " ")
    for (i = count; i > 0; i--) {
        path = list[i]
        if (substr(path, length(path) - length(name)) != "/" name) list[i] = ""
        else parts = parts " " path
    }
    if (parts == "") return ""
    for (source in compiled)
        if (source == reader || index(reads[source] " ", " " reader " "))
            for (i = 1; i <= count; i++)
                if (list[i] != "" && index(reads[source] " ", " " list[i] " ")) return list[i]
    if (reader in compiled) return ""
    return split(parts, list, " ") == 1 ? list[1] : ""
}

function arrow(from, to,    a, b) {
    if (from == to || (from, to) in arrows) return
    arrows[from, to] = 1
    leads[from] = leads[from] " " to
    a = folder_of(from)
    b = folder_of(to)
    if (a != b) {
        between[a, b]++
        if (order[b] > order[a]) {
            up[a "->" b]++
            shown[a "->" b] = shown[a "->" b] "\n    " from " includes " to
        }
        return
    }
    from = stem_of(from)
    to = stem_of(to)
    if (from == to || (a, from, to) in inner) return
    inner[a, from, to] = 1
    inner_count[a]++
    inner_leads[a, from] = inner_leads[a, from] " " to
    stem[a, from] = 1
}

function read_includes(file,    path, line, to) {
    path = root file
    while ((getline line <path) > 0) {
        if (line !~ /^[ \t]*#[ \t]*include[ \t]*"/) continue
        sub(/^[^"]*"/, "", line)
        sub(/".*/, "", line)
        to = resolve(file, line)
        if (to != "") arrow(file, to)
    }
    close(path)
}

# reach[source, file]: arrows lead from this source to that file
function follow(source,    queue, head, tail, next_ones, count, i) {
    queue[tail = 1] = source
    reach[source, source] = 1
    for (head = 1; head <= tail; head++) {
        count = split(leads[queue[head]], next_ones, " ")
        for (i = 1; i <= count; i++)
            if (!((source, next_ones[i]) in reach)) {
                reach[source, next_ones[i]] = 1
                queue[++tail] = next_ones[i]
            }
    }
}

function follow_all(    i, j, count, list) {
    for (i = 1; i <= files_count; i++) {
        if (files[i] !~ /\.c$/) continue
        follow(files[i])
        count = split(reads[files[i]], list, " ")
        for (j = 1; j <= count; j++)
            if (!((files[i], list[j]) in reach))
                complain(files[i] ": the compiler read " list[j] ", where no #include leads")
    }
}

# in_cycle[folder, stem]: a file that includes itself through others
function find_cycles(    key, parts, queue, head, tail, seen, next_ones, count, i, folder, from) {
    for (key in stem) {
        split(key, parts, SUBSEP)
        folder = parts[1]
        from = parts[2]
        split("", seen)
        queue[1] = from
        tail = 1
        for (head = 1; head <= tail; head++) {
            count = split(inner_leads[folder, queue[head]], next_ones, " ")
            for (i = 1; i <= count; i++)
                if (!(next_ones[i] in seen)) {
                    seen[next_ones[i]] = 1
                    queue[++tail] = next_ones[i]
                }
        }
        if (from in seen) {
            in_cycle[folder, from] = 1
            cycle[folder]++
        }
    }
}

# --- headers that declare functions of several .c files -----------------------------------------

# Collect each name in `text` that is followed by "(".
function names_in(text, found,    count, name) {
    count = 0
    while (match(text, /[A-Za-z_][A-Za-z0-9_]* *\(/)) {
        name = substr(text, RSTART, RLENGTH - 1)
        sub(/ *$/, "", name)
        found[++count] = name
        text = substr(text, RSTART + RLENGTH)
    }
    return count
}

# Handle a statement outside of braces: a prototype ends with ";", a definition with "{".
function statement(file, text, end,    found, count, i) {
    if (text ~ /^[ \t]*(static|typedef|inline)[ \t]/) return
    count = names_in(text, found)
    if (file ~ /\.h$/ && end == ";") {
        for (i = 1; i <= count; i++) declares[file] = declares[file] " " found[i]
    } else if (file ~ /\.c$/ && end == "{" && text !~ /=/ && count) written(found[1], file)
}

# `name` is defined in `file`, which was not compiled: its text replaces the symbols.
function written(name, file) {
    if (!(name in by_text)) definers[name] = ""
    by_text[name] = 1
    if (!index(definers[name] " ", " " file " ")) definers[name] = definers[name] " " file
}

function read_statements(file,    path, line, rest, depth, text, end, comment, directive, at) {
    path = root file
    while ((getline line <path) > 0) {
        if (comment) {
            if (!(at = index(line, "*/"))) continue
            line = substr(line, at + 2)
            comment = 0
        }
        gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
        gsub(/'([^'\\]|\\.)'/, "0", line)
        while (at = index(line, "/*")) {
            rest = substr(line, at + 2)
            line = substr(line, 1, at - 1)
            if (at = index(rest, "*/")) line = line " " substr(rest, at + 2)
            else comment = 1
        }
        sub(/\/\/.*/, "", line)
        if (directive || line ~ /^[ \t]*#/) {
            directive = line ~ /\\$/
            continue
        }
        while (match(line, /[;{}]/)) {
            end = substr(line, RSTART, 1)
            if (!depth) text = text " " substr(line, 1, RSTART - 1)
            line = substr(line, RSTART + 1)
            if (end == "}") {
                if (depth) depth--
                continue
            }
            if (!depth) {
                statement(file, text, end)
                if (end == "{" && text ~ /extern *""/) depth--
                text = ""
            }
            if (end == "{") depth++
        }
        if (!depth) text = text " " line
    }
    close(path)
}

function read_definitions(    line, fields, source, i) {
    while ((getline line <(dir "/symbols")) > 0) {
        split(line, fields, " ")
        symbols++
        source = source_of[fields[1]]
        if (source ~ /\.c$/ && !index(definers[fields[2]] " ", " " source " "))
            definers[fields[2]] = definers[fields[2]] " " source
    }
    if (compiled_count && !symbols) complain("nm shows no function")
    for (i = 1; i <= files_count; i++)
        if (files[i] ~ /\.c$/ && !(files[i] in compiled)) {
            left_out++
            read_statements(files[i])
        }
}

# shared[header] = the number of .c files that include it and define its declarations
function find_shared(    i, j, k, count, many, list, sources, header, seen) {
    for (i = 1; i <= files_count; i++) {
        header = files[i]
        if (header !~ /\.h$/) continue
        read_statements(header)
        split("", seen)
        count = split(declares[header], list, " ")
        for (j = 1; j <= count; j++) {
            many = split(definers[list[j]], sources, " ")
            for (k = 1; k <= many; k++)
                if ((sources[k], header) in reach && !(sources[k] in seen)) {
                    seen[sources[k]] = 1
                    shared[header]++
                    owners[header] = owners[header] " " stem_of(sources[k])
                }
        }
    }
}

# --- the list -----------------------------------------------------------------------------------

# Compare `value` with the list's entry for `what name`; values up to `free` need no
# entry.
function hold(what, name, value, free, more,    key, said) {
    key = what " " name
    said = key " " value
    done[key] = 1
    if (value <= free) {
        if (key in listed) complain(key ": not so any more: take its line out of the list")
    } else if (!(key in listed))
        complain(said ": " wrong[what] more)
    else if (value > listed[key])
        complain(said ": " wrong[what] ", and " listed[key] " is what the list allows" more)
    else if (value < listed[key])
        complain(said ": better than " listed[key] "; put this line into the list")
}

function check_list(    line, fields, count, key, name, i, j) {
    wrong["up"] = "includes that go up"
    wrong["files"] = "more than " FILES_MAX " files in one folder"
    wrong["shared"] = "a header that declares functions of more than one .c file"
    while ((getline line <list) > 0) {
        sub(/#.*/, "", line)
        count = split(line, fields, " ")
        if (!count) continue
        key = fields[1] " " fields[2]
        if (count != 3 || !(fields[1] in wrong) || fields[3] !~ /^[0-9]+$/ || key in listed)
            complain("the list has a line that is wrong or there twice: " line)
        listed[key] = fields[3] + 0
    }
    for (i = 1; i <= folders_count; i++)
        for (j = i + 1; j <= folders_count; j++) {
            name = folders[i] "->" folders[j]
            if (name in up) hold("up", name, up[name], 0, shown[name])
        }
    for (i = 1; i <= folders_count; i++)
        hold("files", folders[i], size[folders[i]], FILES_MAX, "")
    for (i = 1; i <= files_count; i++)
        if (files[i] ~ /\.h$/)
            hold("shared", files[i], shared[files[i]] + 0, 1, "\n    of" owners[files[i]])
    for (key in listed)
        if (!(key in done)) complain(key ": not so any more: take its line out of the list")
}

# --- tables -------------------------------------------------------------------------------------

function print_folders(    i, folder) {
    print "folders, from the lowest up: arrows between the files of each, and files in cycles of"
    print "arrows (x.c and x.h count as one)"
    printf "  %-24s %6s %8s %10s\n", "folder", "files", "arrows", "in cycles"
    for (i = 1; i <= folders_count; i++) {
        folder = folders[i]
        printf "  %-24s %6d %8d %10d%s\n",
            folder, size[folder], inner_count[folder], cycle[folder],
            (size[folder] > FILES_MAX ? "  too many files" : "")
    }
}

function print_between(    i, j, a, b) {
    print "\narrows between folders: includes"
    for (i = 1; i <= folders_count; i++)
        for (j = 1; j <= folders_count; j++) {
            a = folders[i]
            b = folders[j]
            if ((a, b) in between)
                printf "  %-24s -> %-24s %4d%s\n", a, b, between[a, b],
                    (j > i ? "  UP" shown[a "->" b] : "")
        }
}

function print_shared(    i) {
    print "\nheaders that declare functions of several .c files"
    for (i = 1; i <= files_count; i++)
        if (shared[files[i]] > 1)
            printf "  %-32s %3d %s\n", files[i], shared[files[i]], owners[files[i]]
    if (left_out) printf "\n%d sources are not compiled here and were read as text\n", left_out
}

function print_files(folder,    i, last, name, list, count, j, line) {
    if (!order[folder]) complain("there is no folder " folder)
    print "x -> y: x.c or x.h includes y.h; * is in a cycle"
    for (i = 1; i <= files_count; i++) {
        name = stem_of(files[i])
        if (folder_of(files[i]) != folder || name == last) continue
        last = name
        line = (((folder, name) in in_cycle) ? "*" : " ") name " ->"
        count = split(inner_leads[folder, name], list, " ")
        for (j = 1; j <= count; j++)
            line = line " " list[j] (((folder, list[j]) in in_cycle) ? "*" : "")
        print line
    }
}

BEGIN {
    FILES_MAX = 25
    read_files()
    read_places()
    read_deps()
    order_folders()
    for (n = 1; n <= files_count; n++) read_includes(files[n])
    follow_all()
    find_cycles()
    if (mode == "--files") {
        print_files(only)
        exit failed + 0
    }
    read_definitions()
    find_shared()
    if (mode == "--all") {
        print_folders()
        print_between()
        print_shared()
        print ""
    }
    check_list()
    if (!failed)
        printf "%d folders, %d files: as good as the list says\n", folders_count, files_count
    exit failed + 0
}

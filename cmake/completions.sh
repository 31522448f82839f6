#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Write the completion of a program's command line, from the tables of its options (tools/options.h, --options).
# usage: completions.sh bash|zsh PROGRAM    to standard output
set -eu
shell=$1 program=$2
name=$(basename "$program")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# "sched --simulate" has options of sched.
"$program" --options >"$dir/own"
sed -n 's/^command\t//p' "$dir/own" >"$dir/commands"
commands=$(sed 's/ .*//' "$dir/commands" | awk '!seen[$0]++' | tr '\n' ' ')
{
    sed -n 's/^option//p' "$dir/own"
    while read -r command; do
        "$program" "$command" --options </dev/null | sed -n "s/^option/${command%% *}/p"
    done <"$dir/commands"
} | awk '!seen[$0]++' >"$dir/table" # command, names, kind, words

bash_write() {
    function=_$(echo "$name" | tr - _)
    cat <<EOF
# Completion of $name for bash, made from the tables of its options.
$function()
{
    local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD - 1]} command='' words='' kind='' i
    COMPREPLY=()
    # bash splits --name=value at the sign
    if [[ \$current == = ]]; then
        current=''
    elif [[ \$previous == = ]]; then
        previous=\${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if ((COMP_CWORD > 1)) && [[ " $commands" == *" \${COMP_WORDS[1]} "* ]]; then
        command=\${COMP_WORDS[1]}
    fi
EOF
    if grep -qx program "$dir/own"; then
        cat <<EOF
    for ((i = 1; i < COMP_CWORD; i++)); do # a program and its words
        if [[ " $(awk -F '\t' '$3 != "flag" { printf "%s ", $2 }' "$dir/table")" == *" \${COMP_WORDS[i]} "* ]]; then
            ((i++))
        elif [[ \${COMP_WORDS[i]} != -* ]]; then
            if declare -F _command_offset >/dev/null; then
                _command_offset "\$i"
            fi
            return
        fi
    done
    if [[ \$current != -* && " $(awk -F '\t' '$3 != "flag" { printf "%s ", $2 }' "$dir/table")" != *" \$previous "* ]]; then
        mapfile -t COMPREPLY < <(compgen -c -- "\$current")
        return
    fi
EOF
    fi
    echo "    case \$command:\$previous in"
    awk -F '\t' '$3 != "flag" {
        count = split($2, names, " ")
        pattern = ""
        for (i = 1; i <= count; i++)
            pattern = pattern (i > 1 ? " | " : "") $1 ":" names[i]
        print "    " pattern ") kind=" $3 ($4 != "" ? " words=\047" $4 "\047" : "") " ;;"
    }' "$dir/table"
    cat <<EOF
    esac
    if [[ -z \$kind ]]; then
        kind=word
        case \$command in
EOF
    awk -F '\t' '{ all[$1] = all[$1] (all[$1] == "" ? "" : " ") $2; if (!seen[$1]++) order[++n] = $1 }
        END { for (i = 1; i <= n; i++) { gsub(/  +/, " ", all[order[i]])
              print "        \047" order[i] "\047) words=\047" all[order[i]] "\047 ;;" } }' "$dir/table"
    cat <<EOF
        esac
        if [[ \$current != -* ]]; then
            words=
            ((COMP_CWORD > 1)) || words='${commands% }'
        fi
    fi
    if [[ \$kind == word && -n \$words ]]; then
        mapfile -t COMPREPLY < <(compgen -W "\$words" -- "\$current")
    fi
    if [[ \$kind == value ]]; then
        compopt +o default 2>/dev/null || :
    fi
}
complete -o default -F $function $name
EOF
}

# The specifications of _arguments for a command.
zsh_arguments() { # <command> <lines behind>
    echo "    _arguments \\"
    awk -F '\t' -v command="$1" '$1 == command {
        count = split($2, names, " ")
        words = $4
        gsub(/:/, "\\:", words)
        for (i = 1; i <= count; i++) {
            action = $3 == "file" ? ":file:_files" : $3 == "word" ? ":word:(" words ")" : ":value: "
            joint = names[i] ~ /^--/ ? "=" : "+"
            print "        \047" names[i] ($3 == "flag" ? "" : joint action) "\047 \\"
        }
    }' "$dir/table"
    printf "        %s\n" "$2"
}

zsh_write() {
    cat <<EOF
#compdef $name
# Completion of $name for zsh, made from the tables of its options.
EOF
    if grep -qx program "$dir/own"; then
        zsh_arguments '' "'(-)1:program:_command_names -e' '*::arguments:_normal'"
    elif [ -z "$commands" ]; then
        zsh_arguments '' "'*:file:_files'"
    else
        # shellcheck disable=SC2016 # for zsh
        echo 'case $((CURRENT > 2)):$words[2] in'
        for command in $commands; do
            echo "1:$command)"
            echo "    shift words"
            echo "    ((CURRENT--))"
            zsh_arguments "$command" "'*:file:_files'"
            echo "    ;;"
        done
        echo "*)"
        zsh_arguments '' "'1:command:(${commands% })' '*:file:_files'"
        echo "    ;;"
        echo "esac"
    fi
}

"${shell}_write"

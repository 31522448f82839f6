# SPDX-License-Identifier: Apache-2.0
# Print "file seconds" for each of ctest's time limits above `limit`.
match($0, /TIMEOUT "[0-9]+"/) {
    seconds = substr($0, RSTART + 9, RLENGTH - 10)
    if (seconds + 0 > limit + 0 && !seen[FILENAME, seconds]++) print FILENAME, seconds
}

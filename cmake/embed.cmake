# SPDX-License-Identifier: Apache-2.0
# Write the text of a file as a C array that ends with 0.
# usage: cmake -D FROM=<file> -D NAME=<name of the array> -D TO=<file.c> -P embed.cmake
file(READ ${FROM} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)" "\\1\n"
    bytes "${bytes}")
file(WRITE ${TO} "extern const char ${NAME}[];\nconst char ${NAME}[] = {\n${bytes}0x00};\n")

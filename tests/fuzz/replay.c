/* SPDX-License-Identifier: Apache-2.0 */
/* The main of a fuzzer without libFuzzer: run the fuzzer on each file of the named
 * directories, so that the corpora are tests under every compiler and sanitizer. */
#include "fuzz.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 20 };

static int file_feed(const char *path)
{
    FILE *file = fopen(path, "re");
    uint8_t *room = malloc(FILE_MAX);
    uint8_t *data = NULL;
    size_t bytes = file && room ? fread(room, 1, FILE_MAX, file) : 0;
    if (file)
        fclose(file);
    /* exactly this size, so that an access one byte too far is detected */
    data = malloc(bytes + !bytes);
    if (!file || !room || !data) {
        fprintf(stderr, "%s cannot be read\n", path);
        return 1;
    }
    memcpy(data, room, bytes);
    free(room);
    fprintf(stderr, "%s, %zu bytes\n", path, bytes);
    LLVMFuzzerTestOneInput(data, bytes);
    free(data);
    return 0;
}

static int directory_feed(const char *path, int *count_p)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    int failed = directory == NULL;
    while (directory && (entry = readdir(directory)) != NULL) {
        char file[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        failed |= file_feed(file);
        (*count_p)++;
    }
    if (directory)
        closedir(directory);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0, count = 0;
    for (int i = 1; i < argc; i++)
        failed |= directory_feed(argv[i], &count);
    printf("%d inputs\n", count);
    if (fuzz_corpus_judge)
        failed |= fuzz_corpus_judge();
    return failed || count == 0;
}

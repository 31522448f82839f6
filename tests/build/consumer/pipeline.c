/* SPDX-License-Identifier: Apache-2.0 */
/* A host program of libtryst_pipeline. Prints the version of its headers. */
#include <stdio.h>
#include <tryst/stage.h>
#include <tryst/tryst.h>

int main(void)
{
    tryst_model model = {.struct_size = sizeof model};
    if (tryst_model_parse("gpt", &model) != TRYST_OK) {
        fprintf(stderr, "%s\n", tryst_last_error());
        return 1;
    }
    printf("%d.%d.%d\n", TRYST_VERSION_MAJOR, TRYST_VERSION_MINOR, TRYST_VERSION_PATCH);
    return 0;
}

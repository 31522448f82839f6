/* SPDX-License-Identifier: Apache-2.0 */
/* Print the PTX of both kernels, for ptxas to read (ptx.sh). */
#include <stdio.h>

#include "transports/cuda/cuda_words_ptx.h"

int main(void)
{
    return fputs(cuda_words_ptx, stdout) < 0;
}

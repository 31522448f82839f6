/* SPDX-License-Identifier: Apache-2.0 */
/* Print the PTX of the waiting kernel, for ptxas to read (ptx.sh). */
#include <stdio.h>

#include "transports/cuda/cuda_wait_ptx.h"

int main(void)
{
    return fputs(cuda_wait_ptx, stdout) < 0;
}

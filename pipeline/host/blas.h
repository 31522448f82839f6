/* SPDX-License-Identifier: Apache-2.0 */
/* What the BLAS in use must be told. */
#ifndef PIPELINE_BLAS_H
#define PIPELINE_BLAS_H

/* Make every matrix product run on the thread that calls it. Any thread, any number of times. */
void blas_use_one_thread(void);

#endif

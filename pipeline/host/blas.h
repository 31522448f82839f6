/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the threads of the BLAS in use. */
#ifndef TRYST_PIPELINE_HOST_BLAS_H
#define TRYST_PIPELINE_HOST_BLAS_H

/** Make every matrix product run on the thread that calls it. No effect with a BLAS other
 *  than OpenBLAS. Any thread may call this, any number of times. */
void blas_use_one_thread(void);

#endif

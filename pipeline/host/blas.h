/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the threads of the BLAS in use. */
#ifndef TRYST_PIPELINE_HOST_BLAS_H
#define TRYST_PIPELINE_HOST_BLAS_H

/** Make every matrix product run on its calling thread. Any thread may call, any number
 *  of times. */
void blas_use_one_thread(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of cuda_stream.c as PTX, which the driver compiles for the actual device.
 * `.target` names the oldest architecture with ld.acquire.sys and nanosleep. */
#ifndef TRYST_TRANSPORTS_CUDA_CUDA_WORDS_PTX_H
#define TRYST_TRANSPORTS_CUDA_CUDA_WORDS_PTX_H

/* clang-format off */
static const char cuda_words_ptx[] =
    "// One thread waits until (int32_t)(*word - value) >= 0.\n"
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    "\n"
    ".visible .entry tryst_wait_word(.param .u64 word, .param .u32 value)\n"
    "{\n"
    "    .reg .u64 %address;\n"
    "    .reg .u32 %now, %wanted;\n"
    "    .reg .s32 %ahead;\n"
    "    .reg .pred %early;\n"
    "    ld.param.u64 %address, [word];\n"
    "    ld.param.u32 %wanted, [value];\n"
    "    cvta.to.global.u64 %address, %address;\n"
    "again:\n"
    "    ld.acquire.sys.global.u32 %now, [%address];\n"
    "    sub.s32 %ahead, %now, %wanted;\n"
    "    setp.lt.s32 %early, %ahead, 0;\n"
    "    @!%early bra done;\n"
    "    nanosleep.u32 1000;\n"
    "    bra again;\n"
    "done:\n"
    "    ret;\n"
    "}\n"
    "\n"
    "// One thread writes *word = value, behind all that its stream has written.\n"
    ".visible .entry tryst_write_word(.param .u64 word, .param .u32 value)\n"
    "{\n"
    "    .reg .u64 %address;\n"
    "    .reg .u32 %new;\n"
    "    ld.param.u64 %address, [word];\n"
    "    ld.param.u32 %new, [value];\n"
    "    cvta.to.global.u64 %address, %address;\n"
    "    fence.acq_rel.sys;\n"
    "    st.release.sys.global.u32 [%address], %new;\n"
    "    ret;\n"
    "}\n";
/* clang-format on */

#endif

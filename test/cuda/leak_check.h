/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank leaves behind in its process: files that are open, and threads of the library's. */
#ifndef TEST_CUDA_LEAK_CHECK_H
#define TEST_CUDA_LEAK_CHECK_H

/* Before rcm_init: how many files are open. */
int count_open_files(void);
/* After rcm_destroy: neither more files than before, nor a thread. Waits a while for what ends.
 * Says what is left, and counts errors. */
int leak_check(int files_before);

#endif

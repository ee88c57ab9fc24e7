/* SPDX-License-Identifier: BSD-3-Clause */
/* Open files and library threads that a rank leaks in its process. */
#ifndef TEST_CUDA_LEAK_CHECK_H
#define TEST_CUDA_LEAK_CHECK_H

/* Number of open files. Called before rcm_init. */
int count_open_files(void);
/* Called after rcm_destroy: there are no more files than before, and no thread of the library.
 * Waits for those that are ending. Prints leaks and returns the number of errors. */
int leak_check(int files_before);

#endif

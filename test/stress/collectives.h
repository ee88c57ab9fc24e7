/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the collectives: draws of their parameters, and buffers of their parts. */
#ifndef STRESS_COLLECTIVES_H
#define STRESS_COLLECTIVES_H

#include "stress.h"

/* Draws a collective that moves data, of equal or unequal blocks. */
void collective_draw(struct draw *what, bool uneven, struct rcm_collective_info *ret_info);
/* Draws type, operator, root and count. */
void point_draw(struct job *job, const struct rcm_collective_info *info,
                struct bench_point *ret_point);
/* Creates the first part's operator if necessary, and sets the kind of memory that it allows. */
void operator_open(struct job *job);
/* NULL: by cost. */
const char *algorithm_draw(struct draw *what, enum rcm_collective collective);
/* Names the job after its first part. */
void collective_name(struct job *job);

/* In place or not, in memory of either kind. */
void part_buffers(struct job *job, struct job_part *part);
void *part_input(const struct job *job, const struct job_part *part);
void *part_output(const struct job *job, const struct job_part *part);
void parts_fill(struct job *job);
void parts_check(struct job *job);

#endif

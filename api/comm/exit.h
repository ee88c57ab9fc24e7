/* SPDX-License-Identifier: BSD-3-Clause */
/* exit() with communicators: see exit.c. */
#ifndef RCMI_EXIT_H
#define RCMI_EXIT_H

struct rcmi_engine;

/* From now until the engine is freed, an exit of this process sends the engine's farewell. */
void rcmi_exit_watch(struct rcmi_engine *engine);

#endif

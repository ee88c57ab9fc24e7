/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of test_verbs that are in other files, and the fake devices of most cases. */
#ifndef TEST_VERBS_CASES_H
#define TEST_VERBS_CASES_H

#include "../fakes/verbs/provider.h"

static const struct provider_setup two_devices = {.seed = 3, .devices = 2, .inline_max = 220};

struct pair;
struct rcmi_channel;

/* rank_session.c */
/* Creates two ranks; false: one failed, with an error text. */
bool ranks_open(struct pair *pair, const char *transports);
/* Sends one message of each of two sizes, the larger one from registered memory if there is any;
 * false once a side has lost the other. */
bool exchange(struct pair *pair, struct rcmi_channel *writer, struct rcmi_channel *reader,
              uint64_t number);
/* A complete session of two ranks, with an error somewhere: it works, or soon fails on both sides
 * with an error text. *ret_by: the transport of their link, "" if there was none. */
void live(const char *transports, int messages, char ret_by[16]);
/* Lets the call fail at each place where such a session with those devices makes it. */
void call_fails(const struct provider_setup *devices, enum provider_call call);

/* cases_port_choice.c */
void case_choice(void **state);
void case_choice_link_local(void **state);
void case_choice_near(void **state);
void case_choice_spread(void **state);
void case_subnets(void **state);
void case_places(void **state);
void case_place_of_cpus(void **state);
void case_eight_gpus(void **state);

/* cases_async_events.c */
void case_events_end_links(void **state);
void case_events_keep_links(void **state);

/* cases_unusable_device.c */
void case_no_device(void **state);
void case_devices_unfit(void **state);
void case_ports_unfit(void **state);
void case_cm_unreachable(void **state);
void case_device_closed(void **state);

/* cases_path.c */
void case_path_infiniband(void **state);
void case_path_roce(void **state);
void case_partitions(void **state);

/* cases_ports.c */
void case_ports(void **state);
void case_near_port(void **state);
void case_many_ports(void **state);
void case_names(void **state);
void case_locked_memory(void **state);

/* cases_iwarp.c */
void case_iwarp_garbled(void **state);
void case_iwarp_unknown_peer(void **state);
void case_iwarp_broken_listener(void **state);
void case_iwarp_silent(void **state);
void case_iwarp_many_silent(void **state);
void case_iwarp_arrives(void **state);
void case_iwarp_late_probe(void **state);
void case_iwarp_calls_fail(void **state);

/* cases_killed.c */
void case_killed_in_flight(void **state);

/* cases_leave.c */
void case_leave_unacknowledged(void **state);
void case_leave_during_poll(void **state);

/* cases_registered_memory.c */
void case_in_place(void **state);
void case_withdrawn(void **state);
void case_withdrawn_by_loop(void **state);
void case_withdrawn_in_vain(void **state);
void case_unregistered(void **state);
void case_no_room(void **state);

#endif

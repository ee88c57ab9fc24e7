/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of the conformance suite for cmocka; conformance.c lists where each runs. */
#ifndef TEST_TRANSPORT_CASES_H
#define TEST_TRANSPORT_CASES_H

/* cases_channel.c: one pair of nodes, driven by one thread. */
void case_sizes_small_slots(void **state);
void case_sizes_large_slots(void **state);
void case_reserve_again(void **state);
void case_bulk(void **state);
void case_full(void **state);
void case_credit_in_time(void **state);
void case_unread(void **state);
void case_zero_copy(void **state);
void case_ahead(void **state);
void case_taken(void **state);
void case_zero_copy_mixed(void **state);
void case_zero_copy_long(void **state);
void case_other_kind(void **state);
void case_get(void **state);
void case_help(void **state);
void case_get_message(void **state);
void case_post(void **state);
void case_post_withdrawn(void **state);
void case_post_late(void **state);
void case_open_order(void **state);
void case_open_twice(void **state);
void case_many_channels(void **state);
void case_close_keeps_messages(void **state);
void case_close_any_time(void **state);
void case_destroy_any_time(void **state);

/* cases_thread.c: several threads, several nodes. */
void case_two_threads(void **state);
void case_sleep(void **state);
void case_sleepers(void **state);
void case_sleep_ends(void **state);
void case_sleep_new_link(void **state);
void case_sleep_writer(void **state);

/* cases_several_readers.c: several readers of one channel. */
void case_multicast(void **state);
void case_multicast_refused(void **state);
void case_multicast_processes(void **state);
void case_multicast_killed(void **state);

/* cases_link.c: links, control messages, farewell, unknown peers. */
void case_no_peers(void **state);
void case_link_lazy(void **state);
void case_control_order(void **state);
void case_control_flood(void **state);
void case_control_unread(void **state);
void case_slot_memory(void **state);
void case_farewell(void **state);
void case_failure_reported(void **state);
void case_wrong_job(void **state);
void case_wrong_secret(void **state);
void case_right_secret(void **state);
void case_other_host(void **state);
void case_late_answer(void **state);
void case_detour_named(void **state);
void case_garbage(void **state);
void case_dies_in_setup(void **state);
void case_other_user(void **state);
void case_status_page(void **state);
void case_chaos_refused(void **state);

/* cases_many_peers.c: very many peers. */
void case_many_peers(void **state);

/* cases_version.c: peers of another version. */
void case_greeted_by_version(void **state);
void case_answered_by_version(void **state);

/* cases_late_link.c: links that are declined or ready late; for the backend `late`. */
void case_declined(void **state);
void case_declined_by_all(void **state);
void case_fails_while_declined(void **state);
void case_not_ready(void **state);
void case_dies_while_connecting(void **state);

/* cases_process.c: nodes in forked processes, some of which are killed. */
void case_two_processes(void **state);
void case_stopped_help(void **state);
void case_sleep_processes(void **state);
void case_killed_while_waiting(void **state);
void case_killed_while_writing(void **state);
void case_killed_before_link(void **state);
void case_stopped_seen(void **state);
void case_farewell_processes(void **state);

#endif

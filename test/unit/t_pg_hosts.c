/*
 * pg_hosts: in which order hosts are tried, which of them need no look-up of a name, and how many are left.
 */
#include "pg/pg_hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The lists of the next connection; NULL: no host is left. */
static void
expect(const struct jr_pg_hosts *hosts, const char *names, const char *addresses, const char *ports)
{
	struct jr_pg_lists lists;
	bool some = jr_pg_hosts_lists(hosts, &lists);

	assert_int_equal(some, names != NULL);
	if (some) {
		assert_string_equal(lists.names, names);
		assert_string_equal(lists.addresses, addresses);
		assert_string_equal(lists.ports, ports);
	}
	jr_pg_lists_free(&lists);
}

static void
a_try_begins_as_the_user_wrote_it(void **state)
{
	struct jr_pg_hosts hosts = {.count = 0};

	(void)state;
	assert_true(jr_pg_hosts_are_plain(&hosts)); /* nothing is known yet */
	jr_pg_hosts_read(&hosts, "a,b,/tmp", NULL, "5433");
	jr_pg_hosts_begin(&hosts, false);
	assert_true(jr_pg_hosts_are_plain(&hosts));
	expect(&hosts, "a,b,/tmp", ",,", "5433,5433,5433");
	assert_int_equal(jr_pg_hosts_left(&hosts, 0), 3);
	assert_int_equal(jr_pg_hosts_left(&hosts, 2), 1);
	jr_pg_hosts_free(&hosts);
	jr_pg_hosts_read(&hosts, NULL, NULL, NULL);
	assert_int_equal(hosts.count, 1);
	assert_int_equal(jr_pg_hosts_find(&hosts, "/var/run/postgresql", NULL, "5432"), 0);
	jr_pg_hosts_free(&hosts);
}

static void
a_silent_host_is_left_out_and_the_one_behind_it_begins(void **state)
{
	struct jr_pg_hosts hosts = {.count = 0};

	(void)state;
	jr_pg_hosts_read(&hosts, "a,b,c", NULL, "1,2,3");
	jr_pg_hosts_begin(&hosts, false);
	jr_pg_hosts_silent(&hosts, 1);
	expect(&hosts, "c,a", ",", "3,1");
	assert_false(jr_pg_hosts_are_plain(&hosts));
	assert_int_equal(jr_pg_hosts_find(&hosts, "a", NULL, "1"), 0);
	assert_int_equal(jr_pg_hosts_left(&hosts, 2), 2);
	assert_int_equal(jr_pg_hosts_left(&hosts, 0), 1);
	hosts.shuffled = true;
	assert_int_equal(jr_pg_hosts_left(&hosts, 0), 2);
	jr_pg_hosts_silent(&hosts, 2);
	jr_pg_hosts_silent(&hosts, 0);
	expect(&hosts, NULL, NULL, NULL);
	jr_pg_hosts_begin(&hosts, false); /* the next try: behind the last silent one */
	expect(&hosts, "b,c,a", ",,", "2,3,1");
	jr_pg_hosts_good(&hosts, 2, "10.0.0.3");
	jr_pg_hosts_begin(&hosts, false);
	expect(&hosts, "c,a,b", ",,", "3,1,2");
	jr_pg_hosts_free(&hosts);
}

static void
a_pinned_try_needs_no_look_up_and_begins_with_the_last_good_host(void **state)
{
	struct jr_pg_hosts hosts = {.count = 0}, copy = {.count = 0};

	(void)state;
	jr_pg_hosts_read(&hosts, "/tmp,a,127.0.0.1,b,fe80::1%eth0", ",,,10.0.0.9,", NULL);
	jr_pg_hosts_good(&hosts, jr_pg_hosts_find(&hosts, "a", "10.0.0.1", "5432"), "10.0.0.1");
	jr_pg_hosts_begin(&hosts, true);
	expect(&hosts, "a,127.0.0.1,b,fe80::1%eth0,/tmp", "10.0.0.1,,10.0.0.9,,", ",,,,");
	jr_pg_hosts_silent(&hosts, 1);
	expect(&hosts, "127.0.0.1,b,fe80::1%eth0,/tmp", ",10.0.0.9,,", ",,,");
	jr_pg_hosts_copy(&copy, &hosts);
	jr_pg_hosts_begin(&copy, false); /* without it the name is looked up again */
	expect(&copy, "127.0.0.1,b,fe80::1%eth0,/tmp,a", ",10.0.0.9,,,", ",,,,");
	jr_pg_hosts_free(&copy);
	jr_pg_hosts_free(&hosts);
	jr_pg_hosts_read(&hosts, "a,b", NULL, NULL); /* the address of b is not known */
	jr_pg_hosts_good(&hosts, 0, "10.0.0.1");
	jr_pg_hosts_begin(&hosts, true);
	expect(&hosts, "a", "10.0.0.1", "");
	jr_pg_hosts_free(&hosts);
}

static void
each_address_of_a_name_is_tried_by_itself_when_pinned(void **state)
{
	static const char *const two[] = {"10.0.0.1", "10.0.0.2"}, *const other[] = {"10.0.0.8"};
	struct jr_pg_hosts hosts = {.count = 0};

	(void)state;
	jr_pg_hosts_read(&hosts, "a,/tmp,b", NULL, "1,2,3");
	assert_true(jr_pg_hosts_need_look_up(&hosts, 0));
	assert_false(jr_pg_hosts_need_look_up(&hosts, 1));
	jr_pg_hosts_good(&hosts, 2, "10.0.0.9");
	jr_pg_hosts_know(&hosts, "a", two, 2);
	jr_pg_hosts_know(&hosts, "b", other, 1); /* the name leads elsewhere now */
	jr_pg_hosts_know(&hosts, "c", other, 1);
	jr_pg_hosts_begin(&hosts, true);
	expect(&hosts, "b,a,a,/tmp", "10.0.0.8,10.0.0.1,10.0.0.2,", "3,1,1,2");
	jr_pg_hosts_silent(&hosts, jr_pg_hosts_find(&hosts, "a", "10.0.0.1", "1"));
	expect(&hosts, "a,/tmp,b", "10.0.0.2,,10.0.0.8", "1,2,3");
	jr_pg_hosts_good(&hosts, jr_pg_hosts_find(&hosts, "a", "10.0.0.2", "1"), "10.0.0.2");
	jr_pg_hosts_know(&hosts, "a", two, 2);
	jr_pg_hosts_begin(&hosts, true);
	expect(&hosts, "a,a,/tmp,b", "10.0.0.2,10.0.0.1,,10.0.0.8", "1,1,2,3");
	jr_pg_hosts_begin(&hosts, false);
	expect(&hosts, "a,/tmp,b", ",,", "1,2,3");
	jr_pg_hosts_free(&hosts);
}

static void
no_list_is_empty_that_the_connection_string_sets(void **state)
{
	struct jr_pg_hosts hosts = {.count = 0};

	(void)state;
	jr_pg_hosts_read(&hosts, "a,/tmp", "10.0.0.1,", "5433,5433");
	jr_pg_hosts_begin(&hosts, false);
	jr_pg_hosts_silent(&hosts, 0);
	expect(&hosts, "/tmp,/tmp", ",", "5433,5433");
	jr_pg_hosts_free(&hosts);
	jr_pg_hosts_read(&hosts, "a,b", NULL, "5433,");
	jr_pg_hosts_silent(&hosts, 0);
	expect(&hosts, "b,b", ",", ",");
	jr_pg_hosts_free(&hosts);
	jr_pg_hosts_read(&hosts, NULL, "10.0.0.1,10.0.0.2", "1,2");
	assert_int_equal(jr_pg_hosts_find(&hosts, "10.0.0.2", "10.0.0.2", "2"), 1);
	jr_pg_hosts_silent(&hosts, 0);
	expect(&hosts, "", "10.0.0.2", "2");
	jr_pg_hosts_free(&hosts);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_try_begins_as_the_user_wrote_it),
	    cmocka_unit_test(a_silent_host_is_left_out_and_the_one_behind_it_begins),
	    cmocka_unit_test(a_pinned_try_needs_no_look_up_and_begins_with_the_last_good_host),
	    cmocka_unit_test(each_address_of_a_name_is_tried_by_itself_when_pinned),
	    cmocka_unit_test(no_list_is_empty_that_the_connection_string_sets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

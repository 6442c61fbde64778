#!/usr/bin/env bats
# Several hosts in the connection string: one that does not answer or has died does not keep jobrun from the others.

load ../lib/common
load ../lib/proxy

# socket_directory: of the server.
socket_directory() {
	local server=${JR_SERVER#host=}

	echo "${server%% *}"
}

@test "a host that does not answer does not keep jobrun from the next one, wherever the hosts are named" {
	mute first
	handler ok <<<'exit 0'
	dir=$(socket_directory)
	url="host=127.0.0.1,$dir port=$tcp_port,5432 user=jobrun dbname=$JR_DATABASE connect_timeout=1"
	export JOBRUN_DATABASE_URL=$url
	id=$(enqueue ok)
	jr_ok run
	run_is "$id" succeeded
	jr_ok list -d "postgresql://jobrun@127.0.0.1:$tcp_port,${dir//\//%2F}:5432/$JR_DATABASE?connect_timeout=1"
	jr_ok list -d "$url hostaddr=127.0.0.1,"
	printf '%s\n' '[both]' "host=127.0.0.1,$dir" "port=$tcp_port,5432" >services
	export PGUSER=jobrun PGDATABASE=$JR_DATABASE PGCONNECT_TIMEOUT=1
	JOBRUN_DATABASE_URL='' PGSERVICEFILE=services PGSERVICE=both jr_ok list
	JOBRUN_DATABASE_URL='' PGHOST=127.0.0.1,$dir PGPORT=$tcp_port,5432 jr_ok list
}

@test "hosts that do not answer are named, and so is the reason of the others" {
	mute first
	first=$tcp_port
	mute second
	export PGCONNECT_TIMEOUT=1
	silent="no answer from server at \"127.0.0.1\", port"
	jr doctor connection -d "host=127.0.0.1,127.0.0.1 port=$first,$tcp_port"
	assert_output --partial "could not connect to the database in time: $silent $first; $silent $tcp_port"
	jr doctor connection -d "host=127.0.0.1,$TMPDIR port=$first,5432"
	assert_output --regexp "connection to server on socket \"$TMPDIR/.* failed: .*; $silent $first"
	jr doctor connection -d "host=127.0.0.1 port=$first"
	assert_output --partial "in time: $silent $first"
}

# two_ways: sets hosts, a connection string with two ways to the server, and first_pid, whose end ends the first.
two_ways() {
	tcp first
	first_pid=$tcp_pid first=$tcp_port
	tcp second
	hosts="host=127.0.0.1,${1:-127.0.0.1} port=$first,$tcp_port user=jobrun dbname=$JR_DATABASE"
}

# goes_on_over_next SECONDS: the runner connects again in that time, and run $id succeeds in its only attempt.
goes_on_over_next() {
	wait_until "$1" grep -q db_back "$runner_err"
	touch "$TMPDIR/go"
	wait_runner
	assert_equal "$runner_status" 0
	q_is 'succeeded|1|1' "select status, attempts, claim_seq from jobrun.job_runs where id = $id"
}

@test "when a host dies while a handler runs, the result is written over the next host" {
	two_ways
	waiting_handler slow
	id=$(enqueue slow)
	bg_runner -v -d "$hosts" --lease 60s
	wait_until 10 up_is 1
	kill -KILL "$first_pid"
	goes_on_over_next 10
}

@test "when a host dies while a handler runs, the next one is asked without a look-up of its name by the runner" {
	"${CC:-cc}" -shared -fPIC -o "$TMPDIR/tell.so" -x c - -ldl <<-'c'
		#define _GNU_SOURCE
		#include <dlfcn.h>
		#include <netdb.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>
		#include <unistd.h>
		int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found)
		{
			int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
			void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
			FILE *file = node != NULL && strcmp(node, "localhost") == 0 ? fopen(getenv("LOOK_UPS"), "a") : NULL;

			memcpy(&real, &symbol, sizeof(real));
			if (file != NULL) {
				fprintf(file, "%d\n", (int)getpid());
				fclose(file);
			}
			return real(node, service, hints, found);
		}
	c
	two_ways localhost
	waiting_handler slow
	export ASAN_OPTIONS+=:verify_asan_link_order=0
	LOOK_UPS=$TMPDIR/idle LD_PRELOAD=$TMPDIR/tell.so jr_ok run -d "$hosts"
	id=$(enqueue slow)
	export LOOK_UPS=$TMPDIR/look_ups
	LD_PRELOAD=$TMPDIR/tell.so bg_runner -v -d "$hosts" --lease 60s
	wait_until 10 up_is 1
	wait_until 10 test -s "$LOOK_UPS"
	kill -KILL "$first_pid"
	goes_on_over_next 10
	refute grep -qx "$runner_pid" "$LOOK_UPS"
	assert_not_exist "$TMPDIR/idle" # a tick that takes nothing needs no address
}

@test "when a host stops to answer while a handler runs, the lease is renewed over the next host" {
	two_ways
	waiting_handler slow
	id=$(enqueue slow)
	bg_runner -v -d "$hosts" --lease 20s
	wait_until 10 up_is 1
	kill -STOP "$first_pid"
	goes_on_over_next 18
}

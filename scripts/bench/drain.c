/*
 * drain CONNINFO CLAIM.sql DONE.sql [PROGRAM]: empty a queue, as fast as C and PostgreSQL can, without a handler: a
 * round trip and a commit for each batch. Each ends the runs of the last claim and claims the next. Prints how many
 * there were. With PROGRAM it stays, as `jobrun run --for` does, prints "listening", and claims whenever it is notified
 * of `queue_runs`; it starts PROGRAM for each run, with JOBRUN_RUN_ID in its environment.
 *
 * The first columns of the claim are id, priority, run_at, id, in the order of the claim. The last row's priority,
 * run_at and id are the parameters of the next claim, if it has any, so that it need not look at the same index entries
 * again. DONE gets the ids as an array.
 */
#include <libpq-fe.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	MOST_TEXT = 1 << 16,
	MOST_CURSOR = 64,
	MOST_IDS = 1 << 16
};

static char cursor[3][MOST_CURSOR] = {"-32768", "-infinity", "0"};
static char ids[MOST_IDS] = "{}";
static long claimed;
static int parameters;

static int
complain(PGconn *conn, const char *what)
{
	fprintf(stderr, "drain: %s: %s", what, PQerrorMessage(conn));
	return 1;
}

static int
prepare(PGconn *conn, const char *name, const char *file)
{
	char text[MOST_TEXT];
	FILE *in = fopen(file, "r");
	PGresult *result;
	size_t n;

	if (in == NULL) {
		perror(file);
		return 1;
	}
	n = fread(text, 1, sizeof(text) - 1, in);
	text[n] = '\0';
	fclose(in);
	result = PQprepare(conn, name, text, 0, NULL);
	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		return complain(conn, file);
	PQclear(result);
	result = PQdescribePrepared(conn, name);
	parameters = PQnparams(result);
	PQclear(result);
	return 0;
}

static void
keep(char *where, size_t size, const char *value)
{
	snprintf(where, size, "%s", value);
}

/* What the next batch needs to know of this one. */
static int
remember(const PGresult *result)
{
	int n = PQntuples(result);
	size_t used = 0;
	int i;

	for (i = 0; i < n; i++)
		used += (size_t)snprintf(
		    ids + used, sizeof(ids) - used, "%c%s", i == 0 ? '{' : ',', PQgetvalue(result, i, 0));
	keep(ids + used, sizeof(ids) - used, n == 0 ? "{}" : "}");
	for (i = 0; n > 0 && i < 3; i++)
		keep(cursor[i], sizeof(cursor[i]), PQgetvalue(result, n - 1, i + 1));
	claimed += n;
	return n;
}

/* The answers of one round trip: of `done`, of the claim, of the Sync. How many were claimed, -1 after an error. */
static int
receive(PGconn *conn)
{
	int n = 0;

	for (;;) {
		PGresult *result = PQgetResult(conn);
		ExecStatusType status = PQresultStatus(result);

		if (result == NULL)
			continue;
		if (status == PGRES_TUPLES_OK && PQnfields(result) >= 4)
			n = remember(result);
		PQclear(result);
		if (status == PGRES_PIPELINE_SYNC)
			return n;
		if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
			complain(conn, "batch");
			return -1;
		}
	}
}

static int
turn(PGconn *conn)
{
	const char *done[1] = {ids};
	const char *from[3] = {cursor[0], cursor[1], cursor[2]};

	if ((strcmp(ids, "{}") != 0 && PQsendQueryPrepared(conn, "done", 1, done, NULL, NULL, 0) != 1) ||
	    PQsendQueryPrepared(conn, "claim", parameters, from, NULL, NULL, 0) != 1 || PQpipelineSync(conn) != 1) {
		complain(conn, "send");
		return -1;
	}
	return receive(conn);
}

/* Start the program for each run of the last claim, one after the other. */
static int
start_each(char *program)
{
	char *words[2] = {program, NULL};
	char left[MOST_IDS];
	char *rest = left;
	const char *id;

	keep(left, sizeof(left), ids);
	while ((id = strtok_r(rest, "{,}", &rest)) != NULL) {
		int status;
		pid_t pid;

		if (setenv("JOBRUN_RUN_ID", id, 1) != 0 ||
		    posix_spawn(&pid, program, NULL, NULL, words, environ) != 0 || waitpid(pid, &status, 0) != pid ||
		    status != 0) {
			fprintf(stderr, "drain: %s did not succeed\n", program);
			return 1;
		}
	}
	return 0;
}

static bool
listens(PGconn *conn)
{
	PGresult *result = PQexec(conn, "listen queue_runs");
	bool ok = PQresultStatus(result) == PGRES_COMMAND_OK;

	PQclear(result);
	return ok;
}

/* Wait for a notification. */
static int
wait_for_notification(PGconn *conn)
{
	struct pollfd socket = {.fd = PQsocket(conn), .events = POLLIN};
	PGnotify *notify = PQnotifies(conn);

	while (notify == NULL) {
		if (poll(&socket, 1, -1) != 1 || PQconsumeInput(conn) != 1)
			return complain(conn, "wait");
		notify = PQnotifies(conn);
	}
	for (; notify != NULL; notify = PQnotifies(conn))
		PQfreemem(notify);
	return 0;
}

/* Claim and start until the connection or a program fails; a signal ends it, too. */
static int
stay(PGconn *conn, char *program)
{
	puts("listening");
	fflush(stdout);
	while (wait_for_notification(conn) == 0) {
		int n;

		while ((n = turn(conn)) > 0) {
			if (start_each(program) != 0)
				return 1;
		}
		if (n < 0)
			break;
	}
	return 1;
}

int
main(int argc, char **argv)
{
	PGconn *conn;
	int n;

	if (argc != 4 && argc != 5) {
		fputs("usage: drain CONNINFO CLAIM.sql DONE.sql [PROGRAM]\n", stderr);
		return 64;
	}
	conn = PQconnectdb(argv[1]);
	if (PQstatus(conn) != CONNECTION_OK)
		return complain(conn, "connect");
	if (prepare(conn, "done", argv[3]) != 0 || prepare(conn, "claim", argv[2]) != 0)
		return 1;
	if (argc == 5 && !listens(conn))
		return complain(conn, "listen");
	if (PQenterPipelineMode(conn) != 1)
		return 1;
	if (argc == 5)
		return stay(conn, argv[4]);
	do
		n = turn(conn);
	while (n > 0);
	PQfinish(conn);
	printf("%ld\n", claimed);
	return n < 0 ? 1 : 0;
}

/*
 * queries CONNINFO FILE...: connect once, and send the text of each file as one round trip. What a tick of jobrun could
 * take at least: a connection and as many round trips.
 */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	MOST = 1 << 16
};

static char text[MOST];

static int
read_text(const char *file)
{
	FILE *in = fopen(file, "r");
	size_t n;

	if (in == NULL) {
		perror(file);
		return 1;
	}
	n = fread(text, 1, sizeof(text) - 1, in);
	text[n] = '\0';
	fclose(in);
	return 0;
}

static int
send_text(PGconn *conn)
{
	PGresult *result = PQexec(conn, text);
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
		fprintf(stderr, "queries: %s", PQerrorMessage(conn));
		return 1;
	}
	PQclear(result);
	return 0;
}

int
main(int argc, char **argv)
{
	PGconn *conn;
	int i;

	if (argc < 3) {
		fputs("usage: queries CONNINFO FILE...\n", stderr);
		return 64;
	}
	conn = PQconnectdb(argv[1]);
	if (PQstatus(conn) != CONNECTION_OK) {
		fprintf(stderr, "queries: %s", PQerrorMessage(conn));
		return 75;
	}
	for (i = 2; i < argc; i++) {
		if (read_text(argv[i]) != 0 || send_text(conn) != 0)
			return 1;
	}
	PQfinish(conn);
	return 0;
}

/*
 * pg_rows: see pg_rows.h.
 *
 * libpq returns a row only when all of it has come. So its bytes are counted before: FIONREAD tells how much each read
 * took, and a complete message resets the count. What must hold: at most JR_ROWS_BYTES and the bytes of one read are in
 * memory, however much the server sends. libpq's buffer bounds the first read of an answer, pg_meter the others.
 */
#include "pg/pg_rows.h"

#include <sys/ioctl.h>

#include "pg/pg.h"

#define FIELD_BYTES 16 /* memory of a field besides its text */
#define SLACK 65536    /* for the protocol's own bytes and for a message that begins in the middle of a read */

static size_t
row_bytes(const PGresult *result)
{
	size_t bytes = 0;

	for (int column = 0; column < PQnfields(result); column++)
		bytes += (size_t)PQgetlength(result, 0, column) + FIELD_BYTES;
	return bytes;
}

static void
append(PGresult *to, const PGresult *row)
{
	int at = PQntuples(to);

	for (int column = 0; column < PQnfields(row); column++) {
		bool is_null = PQgetisnull(row, 0, column);

		(void)PQsetvalue(to, at, column, is_null ? NULL : PQgetvalue(row, 0, column),
		    is_null ? -1 : PQgetlength(row, 0, column));
	}
}

bool
jr_pg_rows_take(struct jr_pg_rows *rows, PGresult *row)
{
	size_t bytes = row_bytes(row);
	bool keep = rows->kept == NULL ? rows->wanted > 0 : (size_t)PQntuples(rows->kept) < rows->wanted;

	rows->arrived = 0;
	if (keep)
		rows->bytes += bytes;
	if (bytes > JR_ROWS_BYTES || rows->bytes > JR_ROWS_BYTES) {
		PQclear(row);
		return false;
	}
	if (keep && rows->kept == NULL) {
		rows->kept = row;
		return true;
	}
	if (keep)
		append(rows->kept, row);
	PQclear(row);
	return true;
}

PGresult *
jr_pg_rows_end(struct jr_pg_rows *rows, PGresult *last)
{
	PGresult *kept = rows->kept;

	rows->kept = NULL;
	rows->arrived = 0;
	if (kept == NULL || PQresultStatus(last) != PGRES_TUPLES_OK) {
		PQclear(kept);
		return last;
	}
	PQclear(last);
	return kept;
}

static size_t
waiting(PGconn *conn)
{
	int bytes = 0;

	return ioctl(PQsocket(conn), FIONREAD, &bytes) == 0 && bytes > 0 ? (size_t)bytes : 0;
}

bool
jr_pg_rows_are_many(const struct jr_pg_rows *rows)
{
	return rows->arrived > JR_ROWS_BYTES + SLACK;
}

bool
jr_pg_rows_consume(struct jr_pg_rows *rows, PGconn *conn)
{
	size_t before = waiting(conn), after;
	bool done = PQconsumeInput(conn) == 1;

	after = waiting(conn);
	rows->arrived += before > after ? before - after : 0;
	return done;
}

void
jr_pg_rows_release(struct jr_pg_rows *rows)
{
	PQclear(rows->kept);
	rows->kept = NULL;
}

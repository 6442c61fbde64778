/*
 * pg_ask: see pg_ask.h.
 */
#include "pg/pg_ask.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"

/* Wait until the socket can be read or, if `left` > 0 bytes are to be sent, written. */
static bool
wait_for_socket(PGconn *conn, int left, int64_t deadline_ms, struct jr_err *err)
{
	struct pollfd fd = {.fd = PQsocket(conn), .events = (short)(POLLIN | (left > 0 ? POLLOUT : 0))};
	int64_t rest = deadline_ms - jr_clock_now_ms();
	int ready = rest <= 0 ? 0 : poll(&fd, 1, (int)rest);

	if (ready < 0 && errno != EINTR)
		return jr_fail(err, JR_E_BUG, "poll: %s", strerror(errno));
	if (ready == 0 && rest <= 0)
		return jr_fail(err, JR_E_TEMP, "the database did not answer in time");
	return true;
}

/* Wait for the socket and read from it. `left` is what PQflush returned. */
static bool
turn(PGconn *conn, int left, int64_t deadline_ms, struct jr_err *err)
{
	if (left >= 0 && !wait_for_socket(conn, left, deadline_ms, err))
		return false;
	if (left >= 0 && PQconsumeInput(conn))
		return true;
	jr_pg_conn_error(conn, "lost the connection to the database", err);
	return false;
}

bool
jr_pg_is_error(const PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	return status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK;
}

PGresult *
jr_pg_answer(PGconn *conn, int64_t timeout_ms, struct jr_err *err)
{
	int64_t deadline = jr_clock_after(jr_clock_now_ms(), timeout_ms);
	PGresult *answer = NULL;

	for (;;) {
		int left = PQflush(conn);
		PGresult *result;

		if (left != 0 || PQisBusy(conn)) {
			if (turn(conn, left, deadline, err))
				continue;
			PQclear(answer);
			return NULL;
		}
		result = PQgetResult(conn);
		if (result == NULL)
			break;
		if (answer != NULL && jr_pg_is_error(answer)) {
			PQclear(result);
			continue;
		}
		PQclear(answer);
		answer = result;
	}
	if (answer == NULL)
		jr_pg_conn_error(conn, "lost the connection to the database", err);
	return answer;
}

PGresult *
jr_pg_ask(
    PGconn *conn, const char *sql, size_t count, const char *const *values, int64_t timeout_ms, struct jr_err *err)
{
	int sent = values == NULL ? PQsendQuery(conn, sql)
				  : PQsendQueryParams(conn, sql, (int)count, NULL, values, NULL, NULL, 0);
	PGresult *result;

	if (sent != 1) {
		jr_pg_conn_error(conn, "could not send to the database", err);
		return NULL;
	}
	result = jr_pg_answer(conn, timeout_ms, err);
	if (result == NULL || !jr_pg_is_error(result))
		return result;
	jr_pg_result_error(result, err);
	PQclear(result);
	return NULL;
}

bool
jr_pg_script(PGconn *conn, const char *script, int64_t timeout_ms, struct jr_err *err)
{
	PGresult *result;
	bool ok;

	if (PQsendQuery(conn, script) != 1) {
		jr_pg_conn_error(conn, "could not send to the database", err);
		return false;
	}
	result = jr_pg_answer(conn, timeout_ms, err);
	ok = result != NULL && !jr_pg_is_error(result);
	if (result != NULL && !ok) {
		jr_pg_statement_error(result, err);
		if (err->code == JR_E_CONFIG)
			err->code = JR_E_BUG;
	}
	PQclear(result);
	return ok;
}

bool
jr_pg_say(
    PGconn *conn, const char *sql, size_t count, const char *const *values, int64_t timeout_ms, struct jr_err *err)
{
	PGresult *result = jr_pg_ask(conn, sql, count, values, timeout_ms, err);

	PQclear(result);
	return result != NULL;
}

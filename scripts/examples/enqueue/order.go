// Package orders: Go with pgx 5.
package orders

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Order places an order and queues its invoice: both, or neither.
func Order(ctx context.Context, db *pgx.Conn, item string) (run int64, err error) {
	tx, err := db.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback(ctx) // does nothing after the commit
	var order int64
	err = tx.QueryRow(ctx, "insert into orders (item) values ($1) returning id", item).Scan(&order)
	if err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, "select jobrun.enqueue('send_invoice', $1, run_in => '5 minutes')",
		map[string]any{"order": order}).Scan(&run)
	if err != nil {
		return 0, err
	}
	return run, tx.Commit(ctx)
}

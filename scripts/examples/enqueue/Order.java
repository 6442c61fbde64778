import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

/**
 * Java with JDBC: an order and the run that sends its invoice, both or neither.
 * java -cp /usr/share/java/postgresql.jar Order.java tea; JDBC_URL is jdbc:postgresql://db.example.org/app?user=app
 */
class Order {
    static long order(Connection db, String item) throws SQLException {
        db.setAutoCommit(false);
        try {
            long order = number(db, "insert into orders (item) values (?) returning id", item);
            long run = number(db, "select jobrun.enqueue('send_invoice', ?::jsonb, run_in => '5 minutes')",
                "{\"order\": " + order + "}");
            db.commit();
            return run;
        } catch (SQLException error) {
            db.rollback();
            throw error;
        }
    }

    private static long number(Connection db, String sql, String argument) throws SQLException {
        try (PreparedStatement statement = db.prepareStatement(sql)) {
            statement.setString(1, argument);
            try (ResultSet row = statement.executeQuery()) {
                row.next();
                return row.getLong(1);
            }
        }
    }

    public static void main(String[] arguments) {
        try (Connection db = DriverManager.getConnection(System.getenv("JDBC_URL"))) {
            System.out.println(order(db, arguments[0]));
        } catch (SQLException error) {
            System.err.println(error.getMessage());
            System.exit(1);
        }
    }
}

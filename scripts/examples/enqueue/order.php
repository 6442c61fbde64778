<?php
// PHP with PDO: an order and the run that sends its invoice, both or neither.
// DATABASE_DSN is a DSN of PDO: pgsql:host=db.example.org;dbname=app;user=app
$db = new PDO(getenv('DATABASE_DSN'));
$db->beginTransaction();
try {
    $placed = $db->prepare('insert into orders (item) values (?) returning id');
    $placed->execute([$argv[1]]);
    $order = $placed->fetchColumn();
    $queued = $db->prepare("select jobrun.enqueue('send_invoice', ?, run_in => '5 minutes', idempotency_key => ?)");
    $queued->execute([json_encode(['order' => $order]), "invoice-$order"]);
    $run = $queued->fetchColumn();
    $db->commit();
} catch (PDOException $error) {
    if ($db->inTransaction()) {
        $db->rollBack();
    }
    fwrite(STDERR, $error->getMessage() . "\n");
    exit(1);
}
echo "$run\n";

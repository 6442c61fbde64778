#!/usr/bin/env php
<?php
// Add up the orders of a file. stdin is {"file": "/srv/orders/2026-11-23.csv"}; each line of that file is CUSTOMER,CENTS.
// Install it as sum_orders, the job type.
// Exit status: 0 done; 75 not now, try again later; 65 give up; anything else has failed and is tried again after a pause.
// An exception ends php with 255, so it is a failure.
const GIVE_UP = 65;
const LATER = 75;

// Append a line of JSON for jobrun: progress, result, checkpoint or retry_in.
function report(array $members): void
{
    file_put_contents(getenv('JOBRUN_OUT'), json_encode($members) . "\n", FILE_APPEND);
}

function leave(int $status, string $message): never
{
    fwrite(STDERR, "$message\n");
    exit($status);
}

$payload = json_decode(stream_get_contents(STDIN), true, 512, JSON_THROW_ON_ERROR);
$path = is_array($payload) ? $payload['file'] ?? null : null;
if (!is_string($path)) {
    leave(GIVE_UP, 'the payload names no file');
}
if (!file_exists($path)) {
    leave(LATER, "$path is not there yet");
}

$lines = file($path, FILE_IGNORE_NEW_LINES);
if ($lines === false) {
    exit(1);
}
$cents = 0;
foreach ($lines as $before => $line) {
    $number = $before + 1;
    $price = substr(strrchr($line, ',') ?: '', 1);
    if (!ctype_digit($price)) {
        leave(GIVE_UP, "line $number: no price");
    }
    $cents += (int) $price;
    if ($number % 100 === 0) {
        report(['progress' => ['done' => $number, 'of' => count($lines)]]);
    }
}
report(['result' => ['orders' => count($lines), 'cents' => $cents]]);
printf("added up %d orders\n", count($lines));

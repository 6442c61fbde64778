#!/usr/bin/env node
// Add up the orders of a file. stdin is {"file": "/srv/orders/2026-11-23.csv"}; each line of that file is CUSTOMER,CENTS.
// Install it as sum_orders, the job type.
// Exit status: 0 done; 75 not now, try again later; 65 give up; anything else has failed and is tried again after a pause.
// An exception ends node with 1, so it is a failure.
const fs = require('fs');

const GIVE_UP = 65;
const LATER = 75;

// Append a line of JSON for jobrun: progress, result, checkpoint or retry_in.
function report(members) {
  fs.appendFileSync(process.env.JOBRUN_OUT, JSON.stringify(members) + '\n');
}

function leave(status, message) {
  fs.writeSync(2, message + '\n');
  process.exit(status);
}

const payload = JSON.parse(fs.readFileSync(0, 'utf8'));
const path = payload?.file;
if (typeof path !== 'string') leave(GIVE_UP, 'the payload names no file');
if (!fs.existsSync(path)) leave(LATER, `${path} is not there yet`);

const lines = fs.readFileSync(path, 'utf8').split('\n');
if (lines.at(-1) === '') lines.pop(); // what follows the last end of line
let cents = 0;
lines.forEach((line, before) => {
  const number = before + 1;
  const price = line.slice(line.lastIndexOf(',') + 1);
  if (!/^[0-9]+$/.test(price)) leave(GIVE_UP, `line ${number}: no price`);
  cents += Number(price);
  if (number % 100 === 0) report({ progress: { done: number, of: lines.length } });
});
report({ result: { orders: lines.length, cents } });
console.log(`added up ${lines.length} orders`);

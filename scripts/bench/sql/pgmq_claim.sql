-- A thousand messages, invisible to others for five minutes.
select msg_id, 0, now(), msg_id, message from pgmq.read('noop', 300, 1000)

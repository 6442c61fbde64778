# verify.py: the signature of a request, as Standard Webhooks has it
import base64, hashlib, hmac, time

def verify(secret, headers, body):
    """Did the sender know the secret, and is the request recent? headers: names in lower case; body: bytes."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    right = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return abs(time.time() - int(headers["webhook-timestamp"])) < 300 and any(
        hmac.compare_digest(right, given) for given in headers["webhook-signature"].split())

"""A client process to be stopped and continued: reads one response and prints its status and the SHA-256 of its bytes.

python tools/soak/frozen.py HOST PORT < BODY
"""

import hashlib
import http.client
import sys


def main():
    host, port = sys.argv[1:]
    connection = http.client.HTTPConnection(host, int(port), timeout=800)
    connection.request("POST", "/v1/audio/speech", sys.stdin.buffer.read(), {"Content-Type": "application/json"})
    print("asked", flush=True)
    response = connection.getresponse()
    print(response.status, hashlib.sha256(response.read()).hexdigest(), flush=True)


if __name__ == "__main__":
    main()

import os
import redis

r = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"))

# Fields 0, 1, 2 of a post: reads, likes, comments.
print("likes", r.execute_command("CINT.INCRBY", "demo:post:1", 1, 1, "LEN", 3))
r.execute_command("CINT.BATCHINCR", "demo:post:1", 0, 11, 2, 5)

# A page of posts in one call: 3 fields of 5 big-endian bytes for each key.
page = r.execute_command("CINT.MREAD", 3, "demo:post:1", "demo:post:2")
print("page", *(int.from_bytes(page[i:i + 5], "big") for i in range(0, len(page), 5)))

# Who liked it: an exact set of 64-bit ids. The second call finds the id there.
for _ in range(2):
    print("new", r.execute_command("RBM.ADD", "demo:likes:1", 2**64 - 1))

r.unlink("demo:post:1", "demo:likes:1")

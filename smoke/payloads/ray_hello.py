#!/usr/bin/env python3
"""Hello from the Ray cluster.          python3 ray_hello.py

What to expect: one line, with the host that ran the task: a worker, never this machine.

    hello alice, this is ray-worker-1 (Ray 2.60.0)

address="auto" means the cluster that this place belongs to. On a node of the cluster Ray finds it by itself. The login
node is outside: there "auto" takes RAY_ADDRESS (`echo $RAY_ADDRESS`), a ray:// address, and the head runs the driver
on behalf of this process. Without a cluster "auto" is an error, where a plain ray.init() would start a private one.
"""

import getpass
import socket

import ray


@ray.remote(num_cpus=1)
def hello(name):
    """Runs on a worker."""
    return f"hello {name}, this is {socket.gethostname()} (Ray {ray.__version__})"


if __name__ == "__main__":
    ray.init(address="auto")
    print(ray.get(hello.remote(getpass.getuser()), timeout=40))

"""The master of 2017's clusters, which hands chunks of a dataset to the workers of a training."""

from pd_v2.master.client import client, get_c_lib, has_clients
from pd_v2.master.supervisor import start

__all__ = ["client", "get_c_lib", "has_clients", "start"]
